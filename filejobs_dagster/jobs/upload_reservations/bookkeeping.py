"""Writing down what becomes of reservations, in the same transactions as what becomes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from filejobs_dagster.audit.append import append
from filejobs_dagster.jobs.collecting import bookkeeping
from filejobs_dagster.jobs.collecting.totals import Totals
from filejobs_dagster.jobs.upload_reservations.settings import JOB
from filejobs_dagster.postgres.transient import trying_again

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.jobs.context import RunContext
    from filejobs_dagster.jobs.upload_reservations.reservation import Reservation
    from filejobs_dagster.jobs.upload_reservations.source import ReservationSource


class Bookkeeping(bookkeeping.Bookkeeping):
    """The books of a run that collects reservations."""

    def __init__(
        self, context: RunContext, bucket: str, source: ReservationSource, *, measured: bool
    ) -> None:
        super().__init__(context, JOB, bucket, Totals(live=context.live, measured=measured))
        self._source = source

    def commit_claim(
        self, cursor: psycopg.Cursor[TupleRow], won: Sequence[Reservation], *, not_won: int
    ) -> None:
        """Write a claim into progress and audit, the last statements of its transaction.

        Where the rows are in another database, this commits before the claim does. The intent
        stands then, and that the rows are collected is said by `commit_collected`.
        """
        self.advance(cursor, newly_claimed=len(won), newly_left=len(won), not_won=not_won)
        append(cursor, self._events_of_claim(won))

    def commit_collected(self, won: Sequence[Reservation]) -> None:
        """Write that rows of another database are collected, once their claim is committed."""
        trying_again(self.write_events, list(self._events_of_rows(won)))

    def _events_of_claim(self, won: Sequence[Reservation]) -> Iterator[dict[str, Any]]:
        if not self._source.elsewhere:
            yield from self._events_of_rows(won)
        yield from self.intents([reservation.key for reservation in won])

    def _events_of_rows(self, won: Sequence[Reservation]) -> Iterator[dict[str, Any]]:
        for reservation in won:
            yield self.event_of_row(
                "upload_reservation.collected",
                **self._source.facts(reservation),
                storage_key=reservation.key,
                upload_expires_at=reservation.due.isoformat(),
            )
