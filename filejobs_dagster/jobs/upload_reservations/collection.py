"""One run over reservations."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import psycopg

from filejobs_dagster.book.bookkeeping import Bookkeeping, Taken
from filejobs_dagster.book.totals import Totals
from filejobs_dagster.door.clocks import MOST_APART
from filejobs_dagster.jobs.collecting import collection
from filejobs_dagster.jobs.collecting.collection import count_not_won
from filejobs_dagster.jobs.collecting.detail import NEVER_ARRIVED, detail_of
from filejobs_dagster.jobs.collecting.refused import SourceRefused, because
from filejobs_dagster.jobs.collecting.removal import Removal
from filejobs_dagster.jobs.upload_reservations.claims.doubt import WAIVER
from filejobs_dagster.jobs.upload_reservations.file_table import FileTable
from filejobs_dagster.jobs.upload_reservations.reservation import Reservation
from filejobs_dagster.jobs.upload_reservations.source import ClaimUnconfirmed
from filejobs_dagster.jobs.upload_reservations.statements import BEGINNING, CANDIDATES, CLAIM
from filejobs_dagster.objects.client import check_access
from filejobs_dagster.postgres.connect import DatabaseUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime
    from uuid import UUID

    from filejobs_dagster.jobs.collecting.storage import Storage
    from filejobs_dagster.jobs.context import RunContext
    from filejobs_dagster.jobs.upload_reservations.settings import Request
    from filejobs_dagster.jobs.upload_reservations.source import ReservationSource
    from filejobs_dagster.ledger.outcome import Outcome

MOST_WITHOUT_EXPIRY = 10_000
"""Pending rows without expiry are counted up to here."""


MOST_UNUSABLE = 1_000
"""Rows without a key or a usable deadline are counted up to here."""


class Collection(collection.Collection[Reservation]):
    """One run at work. The methods follow the order in which things happen."""

    rows = "reservations"

    def __init__(
        self,
        context: RunContext,
        request: Request,
        storage: Storage,
        source: ReservationSource | None = None,
    ) -> None:
        self._request = request
        self._source: ReservationSource = source or FileTable(
            context.database, lambda: context.connection, candidates=CANDIDATES, claim=CLAIM
        )
        books = Bookkeeping(
            context,
            Totals(live=context.live, measured=request.count_bytes),
            partial(detail_of, absent=NEVER_ARRIVED),
            bucket=storage.bucket,
        )
        removal = Removal(context, storage, books, absent=NEVER_ARRIVED)
        super().__init__(context, request, storage, books, removal, place=self._source.name)

    def run(self) -> Outcome:
        """Everything, from the cutoff to the outcome."""
        cutoff = self._now() - self._request.grace
        check_access(self._storage.client, self._storage.bucket)
        self._source.preflight()
        self._require_sound_claim()
        begins = self._context.window.begins or BEGINNING
        before = min(cutoff, self._context.window.ends or cutoff)
        self._work(begins, before)
        self._count_unusable(self._source.unusable(begins, before, most=MOST_UNUSABLE))
        return self._outcome(cutoff)

    def _now(self) -> datetime:
        """The moment by which is judged, fixed before anything else is read.

        Raises:
            SourceRefused: The rows are in another database, and its clock is another one.
        """
        ours, theirs = self._context.now(), self._source.now()
        if abs(theirs - ours) > MOST_APART:
            raise SourceRefused(
                "The clocks are too far apart: by the database that holds the reservations it is "
                f"{theirs:%Y-%m-%d %H:%M:%S} UTC, by that of the record "
                f"{ours:%Y-%m-%d %H:%M:%S} UTC; at most five minutes are tolerated. Let both "
                "follow the same time (NTP). Nothing was touched."
            )
        # Both have agreed with each other, and only one of them with all other clocks.
        return min(ours, theirs)

    def _require_sound_claim(self) -> None:
        """Refuse to claim where a row that changed after the candidates were read may be taken.

        Raises:
            SourceRefused: A live run, and the settings do not vouch for the claim.
        """
        doubt = self._source.doubt()
        if doubt is None:
            return
        if self._context.live and not doubt.waived:
            raise SourceRefused(doubt.refusal())
        self._books.facts["claim_doubted"] = doubt.noted()
        if doubt.waived:
            self._context.log.info("Reservations %s: %s.", doubt.source, doubt.noted())
        else:
            self._context.log.warning(
                "Reservations %s: %s. A live run would refuse: %s, or make sure of it yourself and "
                "write %s: true.",
                doubt.source,
                doubt.noted(),
                doubt.advice,
                WAIVER,
            )

    def _read(
        self, after: Reservation | None, begins: datetime, before: datetime, size: int
    ) -> list[Reservation]:
        return self._source.read(after, begins, before, size)

    def _won(
        self, batch: Sequence[Reservation], begins: datetime, before: datetime
    ) -> Sequence[Reservation]:
        try:
            return super()._won(batch, begins, before)
        except ClaimUnconfirmed as unconfirmed:
            self._leave(unconfirmed)
            raise

    def _leave(self, unconfirmed: ClaimUnconfirmed) -> None:
        """Write that the bytes of an unconfirmed claim were left, unless it claimed nothing."""
        if not unconfirmed.keys:
            return
        try:
            left = self._books.event_of_batch(
                "objects.delete.result",
                deleted=0,
                left=list(unconfirmed.keys),
                stopped=str(unconfirmed),
            )
            self._books.commit_events([left])
        except (psycopg.Error, DatabaseUnavailable) as error:
            self._context.log.warning("The audit log has no word of it: %s", because(error))

    def _claim(
        self, wanted: Sequence[Reservation], begins: datetime, before: datetime
    ) -> list[Reservation]:
        """Rows, progress, audit: one transaction, the audit's head lock last and shortest.

        Where the rows are in another database, the intent commits before the claim does, and that
        the rows are collected is said after it.
        """
        self._context.prove_alive()
        run_id = self._context.identity.run_id
        with self._source.claiming(wanted, begins, before, run_id) as (won, cursor):
            self._books.commit_claim(
                cursor,
                Taken(self._source.table, [row.known_since for row in won]),
                self._objects_of(won),
                () if self._source.elsewhere else self._events_of(won),
                not_won=lambda totals: count_not_won(totals, len(wanted) - len(won)),
            )
        return won

    def _still_due(
        self, missed: Sequence[Reservation], begins: datetime, before: datetime
    ) -> set[UUID | str]:
        return self._source.still_due(missed, begins, before)

    def _events_of(self, won: Sequence[Reservation]) -> Iterator[dict[str, Any]]:
        for reservation in won:
            yield self._books.event(
                "upload_reservation.collected",
                **self._source.facts(reservation),
                storage_key=reservation.key,
                upload_expires_at=reservation.due.isoformat(),
            )

    def _take_bytes(self, won: Sequence[Reservation]) -> None:
        if self._source.elsewhere:
            self._books.commit_collected(list(self._events_of(won)))
        super()._take_bytes(won)

    def _outcome(self, cutoff: datetime) -> Outcome:
        oldest = self._source.oldest_left(cutoff)
        without_expiry = self._source.count_without_expiry(most=MOST_WITHOUT_EXPIRY + 1)
        # Collectable since: the grace belongs to the operator, not to what is overdue.
        since = None if oldest is None else oldest + self._request.grace
        return self._outcome_of(
            cutoff,
            since,
            without_expiry=min(without_expiry, MOST_WITHOUT_EXPIRY),
            without_expiry_is_floor=without_expiry > MOST_WITHOUT_EXPIRY,
        )
