"""Writing down what a run does, in the same transactions as what it does."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from filejobs_dagster.audit.append import append
from filejobs_dagster.jobs.upload_cleanup.settings import JOB
from filejobs_dagster.jobs.upload_cleanup.totals import Totals

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from uuid import UUID

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.jobs.context import RunContext


class Bookkeeping:
    """The totals of a run, its progress row, and its events on the audit chain.

    Attributes:
        totals: What the run has reached, as it is committed.
        batch: The number of the batch at work, from 1.
        stopped: Why the run ended before everything was done, or None.
    """

    def __init__(self, context: RunContext, bucket: str) -> None:
        self._context = context
        self._bucket = bucket
        self.totals = Totals(live=context.live)
        self.batch = 0
        self.stopped: str | None = None

    @contextmanager
    def reading(self) -> Iterator[psycopg.Cursor[TupleRow]]:
        """A transaction that changes nothing."""
        with self._context.database.transaction(self._context.connection, read_only=True) as cursor:
            yield cursor

    @contextmanager
    def writing(self) -> Iterator[tuple[psycopg.Cursor[TupleRow], Totals, list[dict[str, Any]]]]:
        """One transaction: what is done, the totals that it leads to, and its events.

        Yields:
            A cursor, the totals to change, and a list for events. Totals and events are written
            at the end, the audit's head lock last and shortest; the totals count once that is
            committed.

        Raises:
            GivenUp: The run's record stands already; everything is rolled back.
        """
        after = self.totals.copy()
        events: list[dict[str, Any]] = []
        with self._context.database.transaction(self._context.connection) as cursor:
            yield cursor, after, events
            self._advance(cursor, after)
            if events:
                append(cursor, events)
        self.totals = after

    def write_events(self, events: Sequence[dict[str, Any]]) -> None:
        """Append events for a run that may not write its totals any more."""
        with self._context.database.transaction(self._context.connection) as cursor:
            append(cursor, events)

    def say(self) -> None:
        """One line of progress."""
        totals = self.totals
        classes = ", ".join(f"{count:,} {fate}" for fate, count in totals.classes.items() if count)
        self._context.log.info(
            "batch %d: %s rows so far: %s", self.batch, f"{totals.scanned:,}", classes or "none"
        )

    def event_of_objects(self, kind: str, **facts: Any) -> dict[str, Any]:
        """An event about the objects of the batch at work."""
        return self._event(kind, bucket=self._bucket, batch=self.batch, **facts)

    def event_of_row(self, kind: str, row: UUID, key: str, **facts: Any) -> dict[str, Any]:
        """An event about one upload; what is None is left out."""
        known = {name: value for name, value in facts.items() if value is not None}
        return self._event(kind, upload=str(row), storage_key=key, **known)

    def _event(self, kind: str, **facts: Any) -> dict[str, Any]:
        return {"kind": kind, "job": JOB, "run_id": self._context.identity.run_id, **facts}

    def _advance(self, cursor: psycopg.Cursor[TupleRow], totals: Totals) -> None:
        detail = totals.as_detail()
        if self.stopped is not None:
            detail |= {"truncated": True, "stopped_reason": self.stopped}
        self._context.progress.advance(
            cursor, scanned=totals.scanned, acted=totals.cleaned, detail=detail
        )
