"""One run: candidates in order, claims in batches, and what is left at the end."""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import psycopg
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from filejobs_dagster.jobs.upload_reservations.bookkeeping import Bookkeeping
from filejobs_dagster.jobs.upload_reservations.removal import Removal
from filejobs_dagster.jobs.upload_reservations.statements import (
    BEGINNING,
    CANDIDATES,
    CLAIM,
    LAST_ID,
    count_without_expiry,
    oldest_left,
)
from filejobs_dagster.jobs.upload_reservations.totals import (
    CLAIM_REFUSED,
    KEPT,
    WON_BY_OTHERS,
    WOULD_COLLECT,
    Reservation,
)
from filejobs_dagster.ledger.outcome import Outcome
from filejobs_dagster.objects.client import check_access
from filejobs_dagster.postgres.clock import database_now

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from uuid import UUID

    from filejobs_dagster.jobs.context import RunContext
    from filejobs_dagster.jobs.upload_reservations.request import Request, Storage

MOST_WITHOUT_EXPIRY = 10_000
"""Pending rows without expiry are counted up to here."""

TRANSIENT = (
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
    psycopg.errors.LockNotAvailable,
)

UNCLAIMABLE = (psycopg.IntegrityError, psycopg.errors.RaiseException)
"""A foreign key or a trigger of the operator's refuses one row: the others must go on."""


class Collection:
    """One run at work. The methods follow the order in which things happen."""

    def __init__(self, context: RunContext, request: Request, storage: Storage) -> None:
        self._context = context
        self._request = request
        self._storage = storage
        self._books = Bookkeeping(context, storage.bucket, measured=request.count_bytes)
        self._removal = Removal(context, storage, self._books)
        self._ends_at = time.monotonic() + request.max_runtime.total_seconds()

    def run(self) -> Outcome:
        """Everything, from the cutoff to the outcome."""
        cutoff = self._fix_cutoff()
        check_access(self._storage.client, self._storage.bucket)
        self._storage.references.preflight()
        begins = self._context.window.begins or BEGINNING
        before = min(cutoff, self._context.window.ends or cutoff)
        work = self._claim_batch if self._context.live else self._report_batch
        for batch in self._pages(begins, before):
            self._books.totals.scanned += len(batch)
            work([row for row in batch if self._may_go(row)], begins, before)
            self._books.say()
        return self._outcome(cutoff)

    def _fix_cutoff(self) -> datetime:
        """The database's clock, read before anything else is."""
        with self._transaction(read_only=True) as cursor:
            return database_now(cursor) - self._request.grace

    def _transaction(self, *, read_only: bool = False) -> Any:
        return self._context.database.transaction(self._context.connection, read_only=read_only)

    def _pages(self, begins: datetime, before: datetime) -> Iterator[list[Reservation]]:
        """Candidates, oldest first, until nothing is due or a limit says stop."""
        after, after_id = begins - timedelta(microseconds=1), LAST_ID
        while (size := self._room()) > 0 and time.monotonic() < self._ends_at:
            page = self._read(after, after_id, before, size)
            if page:
                yield page
                after, after_id = page[-1].due, page[-1].id
            if len(page) < size:
                return
        if self._read(after, after_id, before, 1):
            self._books.stopped = "limit" if size <= 0 else "max_runtime"

    def _room(self) -> int:
        """How many candidates to read next; rows that others won do not use up the limit."""
        totals = self._books.totals
        used = totals.claimed if self._context.live else totals.classes[WOULD_COLLECT]
        return min(self._request.batch_size, self._request.limit - used)

    def _read(
        self, after: datetime, after_id: UUID, before: datetime, size: int
    ) -> list[Reservation]:
        values = {"before": before, "after": after, "after_id": after_id, "size": size}
        with self._transaction(read_only=True) as cursor:
            cursor.execute(CANDIDATES, values)
            return [Reservation(*row) for row in cursor.fetchall()]

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
            self._books.totals.note(WOULD_COLLECT, reservation.key, sizes.get(reservation.key))
        self._books.commit_totals()

    def _claim_batch(
        self, batch: Sequence[Reservation], begins: datetime, before: datetime
    ) -> None:
        self._books.batch += 1
        if not batch:
            self._books.commit_totals()
            return
        try:
            won = self._claim_with_retry(batch, begins, before)
        except UNCLAIMABLE as error:
            self._split(batch, begins, before, error)
            return
        if won:
            self._removal.remove([reservation.key for reservation in won])

    def _split(
        self,
        batch: Sequence[Reservation],
        begins: datetime,
        before: datetime,
        error: psycopg.Error,
    ) -> None:
        """Halve a batch that PostgreSQL refused until the row that it refuses stands alone."""
        if len(batch) > 1:
            half = len(batch) // 2
            self._claim_batch(batch[:half], begins, before)
            self._claim_batch(batch[half:], begins, before)
            return
        reason = error.diag.message_primary or type(error).__name__
        self._books.totals.note_untouched(CLAIM_REFUSED, batch[0].key, why=reason)
        self._books.commit_totals()

    def _claim_with_retry(
        self, wanted: Sequence[Reservation], begins: datetime, before: datetime
    ) -> list[Reservation]:
        attempts = Retrying(
            retry=retry_if_exception_type(TRANSIENT),
            stop=stop_after_attempt(4),
            wait=wait_random_exponential(multiplier=0.1, max=2),
            reraise=True,
        )
        won: list[Reservation] = attempts(self._claim, wanted, begins, before)
        self._books.totals.claimed += len(won)
        self._books.totals.classes[WON_BY_OTHERS] += len(wanted) - len(won)
        return won

    def _claim(
        self, wanted: Sequence[Reservation], begins: datetime, before: datetime
    ) -> list[Reservation]:
        """Rows, progress, audit: one transaction, the audit's head lock last and shortest."""
        self._context.prove_alive()
        values = {"ids": [row.id for row in wanted], "from": begins, "before": before}
        with self._transaction() as cursor:
            cursor.execute(CLAIM, values)
            won = [Reservation(*row) for row in cursor.fetchall()]
            self._books.commit_claim(cursor, won, not_won=len(wanted) - len(won))
        return won

    def _outcome(self, cutoff: datetime) -> Outcome:
        with self._transaction(read_only=True) as cursor:
            oldest = oldest_left(cursor, cutoff)
            without_expiry = count_without_expiry(cursor, most=MOST_WITHOUT_EXPIRY + 1)
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
        """A run in which every item failed has failed."""
        totals = self._books.totals
        failed = totals.untouched + totals.objects_left
        if totals.collected or not failed or not self._context.live:
            return None
        fates = ", ".join(f"{count:,} {fate}" for fate, count in sorted(totals.classes.items()))
        return (
            f"None of {totals.scanned:,} reservations could be collected ({fates}). See the "
            "samples in the record; check `owns` and `protect` of the bucket in filejobs.yaml."
        )
