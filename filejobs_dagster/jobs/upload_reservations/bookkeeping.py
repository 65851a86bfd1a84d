"""Writing down what a run does, in the same transactions as what it does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from filejobs_dagster.audit.append import append
from filejobs_dagster.jobs.upload_reservations.totals import WON_BY_OTHERS, Totals
from filejobs_dagster.ledger.progress import GivenUp
from filejobs_dagster.postgres.transient import trying_again

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.jobs.context import RunContext
    from filejobs_dagster.jobs.upload_reservations.source import ReservationSource
    from filejobs_dagster.jobs.upload_reservations.totals import Reservation

JOB = "upload_reservations"


class Bookkeeping:
    """The totals of a run, its progress row, and its events on the audit chain.

    Attributes:
        totals: What the run has reached.
        batch: The number of the batch at work, from 1; each claim has its own.
        stopped: Why the run ended before everything was done, or None.
    """

    def __init__(
        self, context: RunContext, bucket: str, source: ReservationSource, *, measured: bool
    ) -> None:
        self._context = context
        self._bucket = bucket
        self._source = source
        self.totals = Totals(live=context.live, measured=measured)
        self.batch = 0
        self.stopped: str | None = None

    def advance(
        self, cursor: psycopg.Cursor[TupleRow], *, newly_claimed: int = 0, not_won: int = 0
    ) -> None:
        """Write the totals.

        Those of a claim that may still roll back are added in the row only; the totals follow
        once it is committed.

        Raises:
            GivenUp: The run's record stands already: roll back and stop.
        """
        detail = self.totals.as_detail()
        if self.stopped is not None:
            detail |= {"truncated": True, "stopped_reason": self.stopped}
        if newly_claimed:
            detail["claimed"] += newly_claimed
            # Until their result is written nobody knows: a run killed in between leaves them.
            detail["objects_left"] += newly_claimed
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

    def commit_claim(
        self, cursor: psycopg.Cursor[TupleRow], won: Sequence[Reservation], *, not_won: int
    ) -> None:
        """Write a claim into progress and audit, the last statements of its transaction.

        Where the rows are in another database, this commits before the claim does. The intent
        stands then, and that the rows are collected is said by `commit_collected`.
        """
        self.advance(cursor, newly_claimed=len(won), not_won=not_won)
        append(cursor, self._events_of_claim(won))

    def commit_collected(self, won: Sequence[Reservation]) -> None:
        """Write that rows of another database are collected, once their claim is committed."""
        trying_again(self._write_events, list(self._events_of_rows(won)))

    def commit_result(self, **facts: Any) -> None:
        """Write what became of the intent to delete objects, with the totals.

        The bytes are gone by now, so the audit log says so even when the run may not write its
        totals any more.

        Raises:
            GivenUp: The run's record stands already; the event was written all the same.
        """
        event = self._event_of_objects("objects.delete.result", **facts)
        try:
            trying_again(self._write_result, event)
        except GivenUp:
            trying_again(self._write_events, [event])
            raise

    def commit_event_of_result(self, **facts: Any) -> None:
        """Write what became of the intent for a run that may not write its totals any more."""
        trying_again(self._write_events, [self._event_of_objects("objects.delete.result", **facts)])

    def _write_events(self, events: Sequence[dict[str, Any]]) -> None:
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
            did = f"would collect {totals.classes['would collect']:,}"
        left = f"; the bytes of {totals.objects_left:,} are left" if totals.objects_left else ""
        self._context.log.info(
            "batch %d: scanned %s, %s%s", self.batch, f"{totals.scanned:,}", did, left
        )

    def _events_of_claim(self, won: Sequence[Reservation]) -> Iterator[dict[str, Any]]:
        if not won:
            return
        if not self._source.elsewhere:
            yield from self._events_of_rows(won)
        keys = [reservation.key for reservation in won]
        yield self._event_of_objects("objects.delete.intent", keys=keys)

    def _events_of_rows(self, won: Sequence[Reservation]) -> Iterator[dict[str, Any]]:
        for reservation in won:
            yield {
                "kind": "upload_reservation.collected",
                "job": JOB,
                "run_id": self._context.identity.run_id,
                **self._source.facts(reservation),
                "storage_key": reservation.key,
                "upload_expires_at": reservation.due.isoformat(),
            }

    def _event_of_objects(self, kind: str, **facts: Any) -> dict[str, Any]:
        return {
            "kind": kind,
            "job": JOB,
            "run_id": self._context.identity.run_id,
            "bucket": self._bucket,
            "batch": self.batch,
            **facts,
        }
