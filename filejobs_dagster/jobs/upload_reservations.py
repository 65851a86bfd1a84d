"""upload_reservations: takes away reservations whose upload never finished.

A reservation is a `file` row in state `pending` with `upload_expires_at`. Its client may be slow
rather than gone, and complete the upload at any moment, so:

- The claim is the write. Candidates are only a guess; the DELETE repeats every predicate, and a
  row that it does not return belongs to somebody else, together with its bytes.
- Row, commit, bytes. A crash in between leaves an object without a row, which storage_orphans
  takes; never a row without an object.
- The audit events of the claimed rows, and the intent to delete their objects, commit with the
  claim.
- Bytes that storage did not let go are counted as left, never as collected. When storage rejects
  a whole batch, no further row is claimed and the run fails.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import UUID

import psycopg
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from filejobs_dagster.audit.append import append
from filejobs_dagster.jobs.context import JobFailed
from filejobs_dagster.ledger.outcome import Outcome
from filejobs_dagster.objects.client import check_access
from filejobs_dagster.objects.deletion import (
    AdmissionFailed,
    Deletion,
    DeletionStopped,
    ProofRefused,
    StorageRejected,
)
from filejobs_dagster.objects.errors import StorageError
from filejobs_dagster.objects.keys import display_key
from filejobs_dagster.objects.measure import measure
from filejobs_dagster.postgres.clock import database_now
from filejobs_dagster.postgres.rows import one

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mypy_boto3_s3 import S3Client
    from psycopg.rows import TupleRow

    from filejobs_dagster.jobs.context import RunContext
    from filejobs_dagster.objects.gate import Gate
    from filejobs_dagster.references.check import ReferenceCheck

JOB = "upload_reservations"

SAMPLE = 20
"""How many keys a record shows of each class."""

MOST_WITHOUT_EXPIRY = 10_000
"""Pending rows without expiry are counted up to here."""

# Keyset, never OFFSET: rows that were collected would shift the pages. The order and the first
# three predicates are those of the partial index file_reservation_due.
CANDIDATES = """
SELECT id, storage_key, upload_expires_at, size_bytes
  FROM file
 WHERE state = 'pending'
   AND upload_expires_at IS NOT NULL
   AND upload_expires_at < %(before)s
   AND (upload_expires_at, id) > (%(after)s, %(after_id)s)
 ORDER BY upload_expires_at, id
 LIMIT %(size)s
"""

# The claim: it repeats state and expiry, and says by RETURNING what it won. SKIP LOCKED: a row
# that a client is completing at this moment is not waited for, it is left to the client.
CLAIM = """
DELETE FROM file
 WHERE id IN (SELECT id
                FROM file
               WHERE id = ANY(%(ids)s)
                 AND state = 'pending'
                 AND upload_expires_at IS NOT NULL
                 AND upload_expires_at >= %(from)s
                 AND upload_expires_at < %(before)s
               ORDER BY id
                 FOR UPDATE SKIP LOCKED)
   AND state = 'pending'
   AND upload_expires_at IS NOT NULL
   AND upload_expires_at >= %(from)s
   AND upload_expires_at < %(before)s
RETURNING id, storage_key, upload_expires_at, size_bytes
"""

OLDEST_LEFT = """
SELECT min(upload_expires_at)
  FROM file
 WHERE state = 'pending'
   AND upload_expires_at IS NOT NULL
   AND upload_expires_at < %(cutoff)s
"""

WITHOUT_EXPIRY = """
SELECT count(*)
  FROM (SELECT
          FROM file
         WHERE state = 'pending'
           AND upload_expires_at IS NULL
         LIMIT %(most)s) AS pending_without_expiry
"""

DUE = """
SELECT count(*)
  FROM (SELECT
          FROM file
         WHERE state = 'pending'
           AND upload_expires_at IS NOT NULL
           AND upload_expires_at < clock_timestamp() - %(grace)s
         LIMIT %(most)s) AS due
"""

BEGINNING = datetime(1, 1, 2, tzinfo=timezone.utc)
"""Before any reservation (the table's CHECK says so): `from` of a window without beginning."""

LAST_ID = UUID(int=2**128 - 1)
"""No row comes between it and the first row of the next microsecond."""

_TRANSIENT = (
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
    psycopg.errors.LockNotAvailable,
)

_WHY_STOPPED: Mapping[type[DeletionStopped], str] = {
    StorageRejected: "storage rejected a batch",
    AdmissionFailed: "a source of references could not be read",
    ProofRefused: "the run was no longer allowed to delete",
}

_WHAT_STOPPED: Mapping[type[DeletionStopped], str] = {
    StorageRejected: "Storage rejected a whole request.",
    AdmissionFailed: "A source of references could not be read.",
    ProofRefused: "The run was no longer allowed to delete.",
}

_UNCLAIMABLE = (psycopg.IntegrityError, psycopg.errors.RaiseException)
"""A foreign key or a trigger of the operator's refuses one row: the others must go on."""


@dataclass(frozen=True)
class Request:
    """Limits of one run.

    Attributes:
        limit: Most reservations to act on.
        batch_size: Reservations in one transaction, and objects in one DeleteObjects request.
        grace: How long after its expiry a reservation is still left alone.
        max_runtime: No further batch is begun after this.
        count_bytes: Ask storage for each object's size first; one request per object.
    """

    limit: int = 10_000
    batch_size: int = 500
    grace: timedelta = timedelta(0)
    max_runtime: timedelta = timedelta(minutes=30)
    count_bytes: bool = True


@dataclass(frozen=True)
class Storage:
    """The bucket that holds the reservations' objects.

    Attributes:
        bucket: Its name.
        client: For sizes; it deletes nothing.
        gate: The only way to delete.
        references: The gate's sources, which must all answer before anything is claimed.
    """

    bucket: str
    client: S3Client
    gate: Gate
    references: ReferenceCheck


@dataclass(frozen=True)
class Reservation:
    """One row, as the candidate query or the claim returned it."""

    id: UUID
    key: str
    due: datetime
    declared_size: int | None


@dataclass
class Totals:
    """What a run has reached; every number is written with the batch that it belongs to.

    Attributes:
        scanned: Candidates looked at.
        claimed: Rows removed by this run.
        collected: Claimed rows whose bytes are accounted for: deleted, marked, never arrived, gone
            already, or kept because something else names the key.
        classes: Every candidate's fate, by class.
        bytes_by_class: The bytes of those classes, where they were measured.
        samples: A few keys of each class that somebody may want to look at.
    """

    scanned: int = 0
    claimed: int = 0
    collected: int = 0
    classes: Counter[str] = field(default_factory=Counter)
    bytes_by_class: Counter[str] = field(default_factory=Counter)
    samples: dict[str, list[str]] = field(default_factory=dict)

    def note(self, fate: str, key: str, size: int | None = None, why: str | None = None) -> None:
        """Count one key under its fate."""
        self.classes[fate] += 1
        if size is not None:
            self.bytes_by_class[fate] += size
        shown = self.samples.setdefault(fate, [])
        if len(shown) < SAMPLE:
            shown.append(display_key(key) if why is None else f"{display_key(key)}: {why}")

    def as_detail(self, *, live: bool) -> dict[str, Any]:
        """The totals as `job_run.detail` holds them; a dry run has no number of things done."""
        detail = {
            "classes": dict(self.classes),
            "bytes_by_class": dict(self.bytes_by_class),
            "samples": self.samples,
        }
        if not live:
            return detail | {
                "would_collect": self.classes["would collect"],
                "would_free_bytes": self.bytes_by_class["would collect"],
            }
        return detail | {
            "claimed": self.claimed,
            "bytes_freed": self.bytes_by_class["deleted"],
            "bytes_left": self.classes["bytes left"],
            "never_arrived": self.classes["never arrived"],
        }


def run(context: RunContext, request: Request, storage: Storage) -> Outcome:
    """Collect, or in a dry run report, the reservations that are due.

    Args:
        context: The run.
        request: Its limits.
        storage: Where the bytes are.

    Returns:
        The outcome: failed when every claimed item failed.

    Raises:
        JobFailed: Storage rejected a batch, or a source of references could not be read.
        BucketUnavailable: The bucket cannot be reached; nothing was claimed.
        ReferencesUnknown: A source could not be read; nothing was claimed.
    """
    return _Collection(context, request, storage).run()


def count_due(cursor: psycopg.Cursor[TupleRow], grace: timedelta, *, most: int) -> int:
    """Count the reservations that are due, up to `most`."""
    cursor.execute(DUE, {"grace": grace, "most": most})
    return int(one(cursor)[0])


class _Collection:
    """One run at work. The methods follow the order in which things happen."""

    def __init__(self, context: RunContext, request: Request, storage: Storage) -> None:
        self._context = context
        self._request = request
        self._storage = storage
        self._totals = Totals()
        self._stopped: str | None = None
        self._batch = 0
        self._ends_at = time.monotonic() + request.max_runtime.total_seconds()

    def run(self) -> Outcome:
        """Everything, from the cutoff to the outcome."""
        cutoff = self._fix_cutoff()
        check_access(self._storage.client, self._storage.bucket)
        self._storage.references.preflight()
        begins = self._context.window.begins or BEGINNING
        before = min(cutoff, self._context.window.ends or cutoff)
        collect = self._claim_batch if self._context.live else self._report_batch
        for batch in self._pages(begins, before):
            self._batch += 1
            self._totals.scanned += len(batch)
            collect(batch, begins, before)
            self._say()
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
            self._stopped = "limit" if size <= 0 else "max_runtime"

    def _room(self) -> int:
        """How many candidates to read next; rows that others won do not use up the limit."""
        used = self._totals.claimed if self._context.live else self._totals.classes["would collect"]
        return min(self._request.batch_size, self._request.limit - used)

    def _read(
        self, after: datetime, after_id: UUID, before: datetime, size: int
    ) -> list[Reservation]:
        values = {"before": before, "after": after, "after_id": after_id, "size": size}
        with self._transaction(read_only=True) as cursor:
            cursor.execute(CANDIDATES, values)
            return [Reservation(*row) for row in cursor.fetchall()]

    def _report_batch(self, batch: Sequence[Reservation], *_: datetime) -> None:
        """A dry run: what would happen, and no mutating call."""
        would = [reservation for reservation in batch if self._may_go(reservation)]
        sizes = self._sizes([reservation.key for reservation in would])
        for reservation in would:
            size = sizes.get(reservation.key)
            self._totals.note("would collect", reservation.key, size)
        with self._transaction() as cursor:
            self._advance(cursor)

    def _may_go(self, reservation: Reservation) -> bool:
        """Leave rows alone whose bytes the gate would never let go for their name's sake."""
        reason = self._storage.gate.owned(reservation.key)
        if reason is not None:
            self._totals.note(f"kept: {reason}", reservation.key)
        return reason is None

    def _claim_batch(
        self, batch: Sequence[Reservation], begins: datetime, before: datetime
    ) -> None:
        wanted = [reservation for reservation in batch if self._may_go(reservation)]
        if not wanted:
            with self._transaction() as cursor:
                self._advance(cursor)
            return
        try:
            won = self._claim_with_retry(wanted, begins, before)
        except _UNCLAIMABLE as error:
            self._split(wanted, begins, before, error)
            return
        if won:
            self._delete_bytes(won)

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
        self._totals.note("claim refused", batch[0].key, why=reason)
        with self._transaction() as cursor:
            self._advance(cursor)

    def _claim_with_retry(
        self, wanted: Sequence[Reservation], begins: datetime, before: datetime
    ) -> list[Reservation]:
        attempts = Retrying(
            retry=retry_if_exception_type(_TRANSIENT),
            stop=stop_after_attempt(4),
            wait=wait_random_exponential(multiplier=0.1, max=2),
            reraise=True,
        )
        won: list[Reservation] = attempts(self._claim, wanted, begins, before)
        self._totals.claimed += len(won)
        if len(won) < len(wanted):
            self._totals.classes["won by others"] += len(wanted) - len(won)
        return won

    def _claim(
        self, wanted: Sequence[Reservation], begins: datetime, before: datetime
    ) -> list[Reservation]:
        """Rows, progress, audit: one transaction, the audit's head lock last and shortest."""
        self._context.prove_alive()
        with self._transaction() as cursor:
            cursor.execute(
                CLAIM,
                {"ids": [row.id for row in wanted], "from": begins, "before": before},
            )
            won = [Reservation(*row) for row in cursor.fetchall()]
            self._advance(cursor, newly_claimed=len(won), not_won=len(wanted) - len(won))
            append(cursor, self._events(won))
        return won

    def _events(self, won: Sequence[Reservation]) -> Iterator[dict[str, Any]]:
        if not won:
            return
        identity = self._context.identity
        for reservation in won:
            yield {
                "kind": "upload_reservation.collected",
                "job": JOB,
                "run_id": identity.run_id,
                "file_id": str(reservation.id),
                "storage_key": reservation.key,
                "upload_expires_at": reservation.due.isoformat(),
            }
        yield self._event_of_objects(
            "objects.delete.intent", keys=[reservation.key for reservation in won]
        )

    def _event_of_objects(self, kind: str, **facts: Any) -> dict[str, Any]:
        return {
            "kind": kind,
            "job": JOB,
            "run_id": self._context.identity.run_id,
            "bucket": self._storage.bucket,
            "batch": self._batch,
            **facts,
        }

    def _delete_bytes(self, won: Sequence[Reservation]) -> None:
        """After the commit: measure, then delete through the gate, then write down the result."""
        keys = [reservation.key for reservation in won]
        sizes: Mapping[str, int | None] = {}
        absent: list[str] = []
        try:
            self._context.prove_alive()
            sizes = self._sizes(keys)
            absent = [key for key in keys if sizes.get(key, 0) is None]
            present = [key for key in keys if sizes.get(key, 0) is not None]
            result = self._storage.gate.delete(present, self._context.prove_alive)
        except DeletionStopped as stopped:
            self._stop(keys, absent, sizes, stopped)
        else:
            self._note_deletion(absent, result.deletion, result.kept, sizes)
            refused = self._refused_as_a_whole(result.deletion)
            self._stopped = _WHY_STOPPED[StorageRejected] if refused else None
            self._record_result(absent, result.deletion, result.kept)
            if refused:
                raise JobFailed(refused)

    def _sizes(self, keys: Sequence[str]) -> Mapping[str, int | None]:
        """Size by key; None where no object is there; no entry where storage would not say."""
        if not self._request.count_bytes or not keys:
            return {}
        found = measure(self._storage.client, self._storage.bucket, keys)
        return {
            key: None if it is None else it.size
            for key, it in found.items()
            if not isinstance(it, StorageError)
        }

    def _note_deletion(
        self,
        absent: Sequence[str],
        deletion: Deletion,
        kept: Mapping[str, str],
        sizes: Mapping[str, int | None],
    ) -> None:
        totals = self._totals
        for key in absent:
            totals.note("never arrived", key)
        for key in deletion.deleted:
            totals.note("deleted", key, sizes.get(key))
        for key in deletion.marked:
            totals.note("marked", key, sizes.get(key))
        for key in deletion.already_gone:
            totals.note("already gone", key)
        for key, reason in kept.items():
            totals.note(f"kept: {reason}", key)
        for key, reason in deletion.failed.items():
            totals.note("bytes left", key, why=reason)
        totals.collected += (
            len(absent) + len(kept) + len(deletion.answered()) - len(deletion.failed)
        )

    def _record_result(
        self, absent: Sequence[str], deletion: Deletion, kept: Mapping[str, str], **facts: Any
    ) -> None:
        """What became of the intent: counts, and by name whatever was not simply deleted."""
        self._commit_result(
            {
                "never_arrived": list(absent),
                "deleted": len(deletion.deleted),
                "marked": len(deletion.marked),
                "already_gone": list(deletion.already_gone),
                "kept": dict(kept),
                "failed": dict(deletion.failed),
                **facts,
            }
        )

    def _stop(
        self,
        keys: Sequence[str],
        absent: Sequence[str],
        sizes: Mapping[str, int | None],
        stopped: DeletionStopped,
    ) -> NoReturn:
        """The batch ended early: what was not answered counts as left, and the run fails."""
        if isinstance(stopped, ProofRefused) and stopped.__cause__ is not None:
            # This run may not write its numbers any more either.
            raise stopped.__cause__
        done = stopped.deleted_so_far
        self._note_deletion(absent, done, stopped.kept, sizes)
        answered = {*absent, *done.answered(), *stopped.kept}
        left = [key for key in keys if key not in answered]
        for key in left:
            self._totals.note("bytes left", key, why=stopped.reason)
        self._stopped = _WHY_STOPPED[type(stopped)]
        self._record_result(absent, done, stopped.kept, left=left, stopped=stopped.reason)
        raise JobFailed(
            f"{_WHAT_STOPPED[type(stopped)]} {stopped.reason} The bytes of {len(left)} of the "
            f"{len(keys)} reservations in batch {self._batch} may be left; their rows are gone, no "
            "further row was claimed, and storage_orphans takes what is left."
        ) from stopped

    def _commit_result(self, facts: Mapping[str, Any]) -> None:
        with self._transaction() as cursor:
            self._advance(cursor)
            append(cursor, [self._event_of_objects("objects.delete.result", **facts)])

    def _refused_as_a_whole(self, deletion: Deletion) -> str | None:
        """A 200 in which every key is refused is a rejection too, but one poison item is not."""
        failed = deletion.failed
        poison = len(failed) == 1 and self._totals.collected > 0
        if not failed or len(failed) < len(deletion.answered()) or poison:
            return None
        return (
            f"Storage refused every one of the {len(failed)} objects of batch {self._batch} "
            f"({next(iter(failed.values()))}). Their rows are gone and no further row was claimed; "
            "storage_orphans takes the objects. Check the bucket's permissions, holds and locks."
        )

    def _advance(
        self, cursor: psycopg.Cursor[TupleRow], *, newly_claimed: int = 0, not_won: int = 0
    ) -> None:
        """Write the totals; those of a claim that may still roll back are added in the row only."""
        detail = self._totals.as_detail(live=self._context.live)
        if self._stopped is not None:
            detail |= {"truncated": True, "stopped_reason": self._stopped}
        if newly_claimed:
            detail["claimed"] += newly_claimed
        if not_won:
            detail["classes"]["won by others"] = detail["classes"].get("won by others", 0) + not_won
        self._context.progress.advance(
            cursor,
            scanned=self._totals.scanned,
            acted=self._totals.collected,
            detail=detail,
        )

    def _say(self) -> None:
        totals = self._totals
        if self._context.live:
            did = f"collected {totals.collected:,}"
        else:
            did = f"would collect {totals.classes['would collect']:,}"
        self._context.log.info(
            "batch %d: scanned %s, %s, %s objects left behind",
            self._batch, f"{totals.scanned:,}", did, f"{totals.classes['bytes left']:,}",
        )  # fmt: skip

    def _outcome(self, cutoff: datetime) -> Outcome:
        with self._transaction(read_only=True) as cursor:
            cursor.execute(OLDEST_LEFT, {"cutoff": cutoff})
            oldest_left: datetime | None = one(cursor)[0]
            cursor.execute(WITHOUT_EXPIRY, {"most": MOST_WITHOUT_EXPIRY + 1})
            without_expiry: int = one(cursor)[0]
        totals = self._totals
        detail = totals.as_detail(live=self._context.live) | {
            "cutoff": cutoff.isoformat(),
            "truncated": self._stopped is not None,
            "stopped_reason": self._stopped,
            "oldest_left": None if oldest_left is None else oldest_left.isoformat(),
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
        totals = self._totals
        refused = totals.classes["claim refused"] + totals.classes["bytes left"] + sum(
            count for fate, count in totals.classes.items()
            if fate in ("kept: not owned", "kept: protected", "kept: directory marker")
        )  # fmt: skip
        if totals.collected or not refused or not self._context.live:
            return None
        reasons = ", ".join(f"{count:,} {fate}" for fate, count in sorted(totals.classes.items()))
        return (
            f"None of {totals.scanned:,} reservations could be collected ({reasons}). See the "
            "samples in the record; check `owns` and `protect` of the bucket in filejobs.yaml."
        )
