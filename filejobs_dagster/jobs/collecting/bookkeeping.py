"""Writing down what a run does, in the same transactions as what it does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from filejobs_dagster.audit.append import append
from filejobs_dagster.jobs.collecting.totals import WON_BY_OTHERS, WOULD_COLLECT
from filejobs_dagster.ledger.progress import GivenUp
from filejobs_dagster.postgres.transient import trying_again

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.jobs.collecting.totals import Totals
    from filejobs_dagster.jobs.context import RunContext

MOST_KEYS_IN_AN_EVENT = 1000
"""An intent with more keys is written as several events of the same batch."""


class Bookkeeping:
    """The totals of a run, its progress row, and its events on the audit chain.

    Attributes:
        totals: What the run has reached.
        batch: The number of the batch at work, from 1; each claim has its own.
        stopped: Why the run ended before everything was done, or None.
    """

    def __init__(self, context: RunContext, job: str, bucket: str, totals: Totals) -> None:
        self._context = context
        self._job = job
        self._bucket = bucket
        self.totals = totals
        self.batch = 0
        self.stopped: str | None = None

    def advance(
        self,
        cursor: psycopg.Cursor[TupleRow],
        *,
        newly_claimed: int = 0,
        newly_left: int = 0,
        not_won: int = 0,
    ) -> None:
        """Write the totals.

        Those of a claim that may still roll back are added in the row only; the totals follow
        once it is committed.

        Args:
            cursor: In the transaction of what they count.
            newly_claimed: Rows that this transaction claims.
            newly_left: Their objects.
            not_won: Rows that it did not get.

        Raises:
            GivenUp: The run's record stands already: roll back and stop.
        """
        detail = self.totals.as_detail()
        if self.stopped is not None:
            detail |= {"truncated": True, "stopped_reason": self.stopped}
        if newly_claimed:
            detail["claimed"] += newly_claimed
            # Until their result is written nobody knows: a run killed in between leaves them.
            detail["objects_left"] += newly_left
        if not_won:
            seen = detail["classes"].get(WON_BY_OTHERS, 0)
            detail["classes"][WON_BY_OTHERS] = seen + not_won
        self._context.progress.advance(
            cursor, scanned=self.totals.scanned, acted=self.totals.collected, detail=detail
        )

    def commit_totals(self) -> None:
        """Write the totals in a transaction of their own."""
        with self._context.database.transaction(self._context.connection) as cursor:
            self.advance(cursor)

    def commit_result(self, **facts: Any) -> None:
        """Write what became of the intent to delete objects, with the totals.

        The bytes are gone by now, so the audit log says so even when the run may not write its
        totals any more.

        Raises:
            GivenUp: The run's record stands already; the event was written all the same.
        """
        event = self.event_of_objects("objects.delete.result", **facts)
        try:
            trying_again(self._write_result, event)
        except GivenUp:
            trying_again(self.write_events, [event])
            raise

    def commit_event_of_result(self, **facts: Any) -> None:
        """Write what became of the intent for a run that may not write its totals any more."""
        trying_again(self.write_events, [self.event_of_objects("objects.delete.result", **facts)])

    def write_events(self, events: Sequence[dict[str, Any]]) -> None:
        """Append events in a transaction of their own."""
        with self._context.database.transaction(self._context.connection) as cursor:
            append(cursor, events)

    def _write_result(self, event: dict[str, Any]) -> None:
        with self._context.database.transaction(self._context.connection) as cursor:
            self.advance(cursor)
            append(cursor, [event])

    def say(self) -> None:
        """One line of progress."""
        totals = self.totals
        if self._context.live:
            did = f"collected {totals.collected:,}"
        else:
            did = f"would collect {totals.classes[WOULD_COLLECT]:,}"
        left = f"; the bytes of {totals.objects_left:,} are left" if totals.objects_left else ""
        self._context.log.info(
            "batch %d: scanned %s, %s%s", self.batch, f"{totals.scanned:,}", did, left
        )

    def intents(self, keys: Sequence[str]) -> Iterator[dict[str, Any]]:
        """The events that say which objects are about to go."""
        for start in range(0, len(keys), MOST_KEYS_IN_AN_EVENT):
            some = list(keys[start : start + MOST_KEYS_IN_AN_EVENT])
            yield self.event_of_objects("objects.delete.intent", keys=some)

    def event_of_row(self, kind: str, **facts: Any) -> dict[str, Any]:
        """An event about one row."""
        return {
            "kind": kind,
            "job": self._job,
            "run_id": self._context.identity.run_id,
            **facts,
        }

    def event_of_objects(self, kind: str, **facts: Any) -> dict[str, Any]:
        """An event about the objects of the batch at work."""
        return {
            "kind": kind,
            "job": self._job,
            "run_id": self._context.identity.run_id,
            "bucket": self._bucket,
            "batch": self.batch,
            **facts,
        }
