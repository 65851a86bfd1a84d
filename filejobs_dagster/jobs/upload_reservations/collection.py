"""One run: candidates in order, claims in batches, and what is left at the end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import psycopg

from filejobs_dagster.jobs.context import JobFailed
from filejobs_dagster.jobs.upload_reservations.bookkeeping import Bookkeeping
from filejobs_dagster.jobs.upload_reservations.claims.doubt import WAIVER
from filejobs_dagster.jobs.upload_reservations.file_table import FileTable
from filejobs_dagster.jobs.upload_reservations.refused import refuses_a_row
from filejobs_dagster.jobs.upload_reservations.removal import Removal
from filejobs_dagster.jobs.upload_reservations.source import (
    ClaimUnconfirmed,
    RowsHeld,
    SourceRefused,
    because,
)
from filejobs_dagster.jobs.upload_reservations.statements import BEGINNING, CANDIDATES, CLAIM
from filejobs_dagster.jobs.upload_reservations.totals import (
    CLAIM_REFUSED,
    KEPT,
    WON_BY_OTHERS,
    WOULD_COLLECT,
)
from filejobs_dagster.ledger.outcome import Outcome
from filejobs_dagster.objects.client import check_access
from filejobs_dagster.postgres.connect import DatabaseUnavailable
from filejobs_dagster.postgres.transient import trying_again

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from filejobs_dagster.jobs.context import RunContext
    from filejobs_dagster.jobs.upload_reservations.request import Request, Storage
    from filejobs_dagster.jobs.upload_reservations.source import ReservationSource
    from filejobs_dagster.jobs.upload_reservations.totals import Reservation

MOST_WITHOUT_EXPIRY = 10_000
"""Pending rows without expiry are counted up to here."""


class Collection:
    """One run at work. The methods follow the order in which things happen."""

    def __init__(
        self,
        context: RunContext,
        request: Request,
        storage: Storage,
        source: ReservationSource | None = None,
    ) -> None:
        self._context = context
        self._request = request
        self._storage = storage
        self._source: ReservationSource = source or FileTable(
            context.database, context.connection, candidates=CANDIDATES, claim=CLAIM
        )
        self._books = Bookkeeping(
            context, storage.bucket, self._source, measured=request.count_bytes
        )
        self._removal = Removal(context, storage, self._books)
        self._ends_at = time.monotonic() + request.max_runtime.total_seconds()

    def run(self) -> Outcome:
        """Everything, from the cutoff to the outcome."""
        # The clock of the database that holds the rows, read before anything else is.
        cutoff = self._source.now() - self._request.grace
        check_access(self._storage.client, self._storage.bucket)
        self._source.preflight()
        self._require_sound_claim()
        self._storage.references.preflight()
        begins = self._context.window.begins or BEGINNING
        before = min(cutoff, self._context.window.ends or cutoff)
        work = self._claim_batch if self._context.live else self._report_batch
        for batch in self._batches(begins, before):
            work(batch, begins, before)
            self._books.say()
        return self._outcome(cutoff)

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
        self._books.totals.claim_doubted = doubt.noted()
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

    def _batches(self, begins: datetime, before: datetime) -> Iterator[list[Reservation]]:
        """Reservations that may go, oldest first, until nothing is due or a limit says stop.

        Pages are read whole, so that rows which may not go cost the same however little the limit
        leaves; a row counts as scanned when its turn comes.
        """
        after: Reservation | None = None
        size = self._request.batch_size
        while (room := self._room()) > 0 and time.monotonic() < self._ends_at:
            page = self._read(after, begins, before, size)
            batch: list[Reservation] = []
            for row in page:
                after = row
                self._books.totals.scanned += 1
                if self._may_go(row):
                    batch.append(row)
                if len(batch) == room:
                    break
            if page:
                yield batch
            if len(page) < size and len(batch) < room:
                return
        if self._read(after, begins, before, 1):
            self._books.stopped = "limit" if room <= 0 else "max_runtime"

    def _room(self) -> int:
        """How much of the limit is left; rows that others won do not use it up."""
        totals = self._books.totals
        used = totals.claimed if self._context.live else totals.classes[WOULD_COLLECT]
        return self._request.limit - used

    def _read(
        self, after: Reservation | None, begins: datetime, before: datetime, size: int
    ) -> list[Reservation]:
        return self._source.read(after, begins, before, size)

    def _may_go(self, reservation: Reservation) -> bool:
        """Leave rows alone whose bytes the gate would never let go for their name's sake."""
        reason = self._storage.gate.owned(reservation.key)
        if reason is not None:
            self._books.totals.note_untouched(KEPT + reason, reservation.key)
        return reason is None

    def _report_batch(self, batch: Sequence[Reservation], *_: datetime) -> None:
        """A dry run: what would happen, and no mutating call."""
        self._books.batch += 1
        sizes = self._removal.sizes([reservation.key for reservation in batch])
        for reservation in batch:
            self._books.totals.note_measured(WOULD_COLLECT, reservation.key, sizes)
        self._books.commit_totals()

    def _claim_batch(
        self, batch: Sequence[Reservation], begins: datetime, before: datetime
    ) -> None:
        self._books.batch += 1
        if not batch:
            self._books.commit_totals()
            return
        try:
            won = trying_again(self._claim, batch, begins, before)
        except RowsHeld as held:
            self._split(batch, begins, before, held)
            return
        except ClaimUnconfirmed as unconfirmed:
            self._leave(unconfirmed)
            raise
        except psycopg.Error as error:
            if not refuses_a_row(error):
                raise
            self._split(batch, begins, before, error)
            return
        self._books.totals.claimed += len(won)
        self._books.totals.classes[WON_BY_OTHERS] += len(batch) - len(won)
        if won:
            if self._source.elsewhere:
                self._books.commit_collected(won)
            self._removal.remove([reservation.key for reservation in won])

    def _split(
        self,
        batch: Sequence[Reservation],
        begins: datetime,
        before: datetime,
        error: psycopg.Error | RowsHeld,
    ) -> None:
        """Halve a batch that PostgreSQL refused until the row that it refuses stands alone."""
        if time.monotonic() >= self._ends_at:
            self._books.stopped = "max_runtime"
            self._books.commit_totals()
            return
        if len(batch) > 1:
            half = len(batch) // 2
            self._claim_batch(batch[:half], begins, before)
            self._claim_batch(batch[half:], begins, before)
            return
        if isinstance(error, RowsHeld):
            self._books.totals.classes[WON_BY_OTHERS] += 1
        else:
            self._books.totals.note_untouched(CLAIM_REFUSED, batch[0].key, why=because(error))
        self._books.commit_totals()

    def _leave(self, unconfirmed: ClaimUnconfirmed) -> None:
        """Write that the bytes of an unconfirmed claim were left, unless it claimed nothing."""
        if not unconfirmed.keys:
            return
        try:
            self._books.commit_event_of_result(
                deleted=0, left=list(unconfirmed.keys), stopped=str(unconfirmed)
            )
        except (psycopg.Error, DatabaseUnavailable) as error:
            self._context.log.warning("The audit log has no word of it: %s", because(error))

    def _claim(
        self, wanted: Sequence[Reservation], begins: datetime, before: datetime
    ) -> list[Reservation]:
        """Rows, progress, audit: one transaction, the audit's head lock last and shortest."""
        self._context.prove_alive()
        run_id = self._context.identity.run_id
        with self._source.claiming(wanted, begins, before, run_id) as (won, cursor):
            self._books.commit_claim(cursor, won, not_won=len(wanted) - len(won))
        return won

    def _outcome(self, cutoff: datetime) -> Outcome:
        if self._books.stopped is not None and not self._books.totals.scanned:
            raise JobFailed(
                f"The run's time ({self._request.max_runtime}) was over before it had "
                "looked at one reservation, although some are due. Give it more max_runtime, or "
                "find out what took so long: the bucket and the sources are asked first."
            )
        oldest = self._source.oldest_left(cutoff)
        without_expiry = self._source.count_without_expiry(most=MOST_WITHOUT_EXPIRY + 1)
        totals, stopped = self._books.totals, self._books.stopped
        # Collectable since: the grace belongs to the operator, not to what is overdue.
        since = None if oldest is None else oldest + self._request.grace
        detail = totals.as_detail() | {
            "cutoff": cutoff.isoformat(),
            "truncated": stopped is not None,
            "stopped_reason": stopped,
            "swept": self._context.live
            and stopped is None
            and not totals.untouched
            and not totals.objects_left,
            "oldest_left": None if since is None else since.isoformat(),
            "without_expiry": min(without_expiry, MOST_WITHOUT_EXPIRY),
            "without_expiry_is_floor": without_expiry > MOST_WITHOUT_EXPIRY,
        }
        return Outcome(
            scanned=totals.scanned,
            acted=totals.collected,
            detail=detail,
            error=self._nothing_worked(),
        )

    def _nothing_worked(self) -> str | None:
        """A run in which every item failed has failed.

        An upload that never arrived has nothing to delete, so it does not show that deleting
        works: with bytes left, only an object that storage let go does.
        """
        totals = self._books.totals
        worked = totals.let_go if totals.objects_left else totals.collected
        if worked or not (totals.untouched or totals.objects_left) or not self._context.live:
            return None
        fates = ", ".join(f"{count:,} {fate}" for fate, count in sorted(totals.classes.items()))
        advice = (
            "the constraints and triggers that refuse a claim"
            if totals.classes[CLAIM_REFUSED]
            else "the bucket's permissions, and `owns` and `protect` in filejobs.yaml"
        )
        return (
            f"Of {totals.scanned:,} reservations none could be collected whose bytes are in "
            f"storage ({fates}). See the samples in the record; check {advice}."
        )
