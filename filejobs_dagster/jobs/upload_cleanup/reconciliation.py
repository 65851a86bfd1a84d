"""Rows whose state storage decides: silent writers, uncertain uploads, locks that may be over.

`judge` says what storage's answer means for an uncertain upload; `Locks` looks at retained rows
whose date has come.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from filejobs_dagster.book.outcomes import StorageRejected
from filejobs_dagster.jobs.setbacks import as_item
from filejobs_dagster.jobs.upload_cleanup import statements
from filejobs_dagster.jobs.upload_cleanup.claims import Retained, Uncertain, within_calendar
from filejobs_dagster.jobs.upload_cleanup.detail import (
    LOCK_OVER,
    MEANS,
    NOW_UNCERTAIN,
    RESOLVED_CLEANUP,
    RESOLVED_STORED,
    STILL_RETAINED,
    STILL_UNCERTAIN,
)
from filejobs_dagster.jobs.upload_cleanup.statements import BEGINNING, FIRST_ID
from filejobs_dagster.objects.errors import StorageError
from filejobs_dagster.objects.finding import Present
from filejobs_dagster.objects.heads import Absent, look_at_targets, require_bucket
from filejobs_dagster.objects.identity import NULL_VERSION, Seen, compare, found
from filejobs_dagster.objects.multipart import PartsUnknown, list_parts
from filejobs_dagster.objects.targets import Target
from filejobs_dagster.postgres.connect import one, trying_again
from filejobs_dagster.run_context import JobFailed
from filejobs_dagster.text import sanitize

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.book.bookkeeping import Bookkeeping
    from filejobs_dagster.jobs.setbacks import Setbacks
    from filejobs_dagster.jobs.upload_cleanup import Storage, UploadCleanupRun
    from filejobs_dagster.objects.heads import CloseSighting
    from filejobs_dagster.objects.multipart import Parts
    from filejobs_dagster.run_context import RunContext

# Retained rows whose date has come: is the lock over?


class Locks:
    """Looks at locks again; a look is no attempt."""

    def __init__(
        self,
        context: RunContext,
        request: UploadCleanupRun,
        storage: Storage,
        books: Bookkeeping,
        setbacks: Setbacks,
    ) -> None:
        self._context = context
        self._request = request
        self._storage = storage
        self._books = books
        self._setbacks = setbacks

    def look(self, rows: Sequence[Retained], cutoff: datetime) -> None:
        """Send those back to cleanup whose lock is over, and give the others their next date.

        Raises:
            StorageRejected: Storage did not say anything.
        """
        targets = {row.id: Target(row.key, row.version) for row in rows}
        seen = look_at_targets(self._storage.client, self._storage.bucket, list(targets.values()))
        trying_again(self._write, [(row, seen[targets[row.id]]) for row in rows], cutoff)

    def _write(self, seen: Sequence[tuple[Retained, CloseSighting]], cutoff: datetime) -> None:
        over, locked, unseen = [], [], []
        for row, it in seen:
            if isinstance(it, Present) and it.lock is not None:
                locked.append((row, it.lock))
            elif isinstance(it, Present | Absent):
                over.append(row)
            else:
                unseen.append(row)
        with self._books.writing() as (cursor, totals, events):
            totals.scanned += len(seen)
            for row in over:
                totals.note(LOCK_OVER, row.key, MEANS[LOCK_OVER])
            for row, lock in locked:
                totals.note(STILL_RETAINED, row.key, MEANS[STILL_RETAINED], why=str(lock))
            for row in unseen:
                totals.note(
                    STILL_RETAINED, row.key, MEANS[STILL_RETAINED], why="storage did not say"
                )
            if not self._context.live:
                return
            again = {"look_again": self._request.look_again, "cutoff": cutoff}
            cursor.execute(statements.LOCK_OVER, {"ids": [row.id for row in over], **again})
            events.extend(
                self._books.event(
                    "upload.released",
                    upload=str(row.id),
                    storage_key=row.key,
                )
                for row in over
            )
            cursor.execute(
                statements.STILL_RETAINED,
                {
                    "ids": [row.id for row, _ in locked],
                    "untils": [within_calendar(lock.until) for _, lock in locked],
                    "holds": [lock.legal_hold for _, lock in locked],
                    **again,
                },
            )
            why = "whether the lock is over could not be seen"
            cursor.execute(
                statements.RETAINED_UNSEEN, {"ids": [row.id for row in unseen], "reason": why}
            )
            told = [as_item(row.id) for row in (*over, *(row for row, _ in locked))]
            self._setbacks.write(cursor, {as_item(row.id): why for row in unseen}, told)


# What storage's answer says of an uncertain upload.

SOON = timedelta(minutes=1)


@dataclass(frozen=True)
class IsStored:
    """The object is there, whole."""

    object: Present


@dataclass(frozen=True)
class IsOver:
    """There is no object, and nobody has written for long enough: it may be cleaned up.

    Attributes:
        why: For the record.
    """

    why: str


@dataclass(frozen=True)
class IsOpen:
    """Nothing can be concluded yet.

    Attributes:
        why: For the record.
        again: When to ask again; None when storage did not say, which is a failure, with the pause
            of all failures.
    """

    why: str
    again: timedelta | None


Verdict: TypeAlias = "IsStored | IsOver | IsOpen"

PartsSeen: TypeAlias = "Parts | StorageError | None"
"""None: there is no such multipart upload, or the row has none."""


def judge(
    row: Uncertain,
    sighting: CloseSighting,
    parts: PartsSeen,
    now: datetime,
    request: UploadCleanupRun,
) -> Verdict:
    """Resolve one row, or leave it open.

    An object under the row's key is the row's: the key holds its id. That there is none concludes
    nothing at first, since a server may still complete what it was asked to: `settle_after` must
    have passed since the row became uncertain. With parts somebody was at work, so that since the
    newest `writing_limit` must have passed as well, once, unless the upload was cancelled. Parts
    of which nobody knows the age are young.
    """
    if isinstance(sighting, Present):
        return _judge_object(row, sighting, request)
    if not isinstance(sighting, Absent):
        return IsOpen(f"the object could not be looked at: {sighting}", None)
    if isinstance(parts, StorageError):
        return IsOpen(f"its parts could not be listed: {parts}", None)
    newest = None if parts is None else parts.newest
    quiet_since = row.active if newest is None else max(row.active, newest)
    has_parts = parts is not None and not row.cancelled
    if has_parts and parts is not None and parts.count and newest is None:
        return IsOpen("the server does not say when each of its parts came", request.look_again)
    limit = request.writing_limit if has_parts else request.settle_after
    missing = max(limit - (now - quiet_since), request.settle_after - (now - row.since))
    if missing <= timedelta(0):
        what = "parts and no object" if parts is not None else "no object"
        return IsOver(f"{what}, and nobody has written since {quiet_since.isoformat()}")
    what = "parts, and no object yet" if parts is not None else "no object yet"
    return IsOpen(what, min(max(missing, SOON), request.look_again))


def _judge_object(row: Uncertain, there: Present, request: UploadCleanupRun) -> Verdict:
    same = compare(Seen(row.etag, row.size), found(there, there.version), only_one=True)
    if same.same:
        return IsStored(there)
    differs = f"it is not the object that was to be stored: {same.why}"
    if row.cancelled:
        return IsOver(f"{differs}; it was cancelled, and the cleanup keeps what is another object")
    return IsOpen(
        f"{differs}: look at it, and cancel the upload if it is not the one that was to be stored",
        request.look_again,
    )


MOST_SILENT = 10_000
"""In a dry run, silent writers are counted up to here."""


class Reconciliation:
    """One pass over the rows that are not in `cleanup`."""

    def __init__(
        self,
        context: RunContext,
        request: UploadCleanupRun,
        storage: Storage,
        books: Bookkeeping,
        setbacks: Setbacks,
        ends_at: float,
    ) -> None:
        self._context = context
        self._request = request
        self._storage = storage
        self._books = books
        self._setbacks = setbacks
        self._ends_at = ends_at

    def run(self, cutoff: datetime) -> None:
        """Everything that is due, up to the limit of each kind.

        Raises:
            JobFailed: Storage did not say what is there; what is undecided stays as it is.
        """
        before = cutoff - self._request.writing_limit
        if self._context.live:
            self._mark_silent(before, cutoff)
        else:
            self._report_silent(before)
        locks = Locks(self._context, self._request, self._storage, self._books, self._setbacks)
        try:
            for uncertain in self._pages(statements.UNCERTAIN, Uncertain, cutoff):
                self._resolve(uncertain, cutoff)
            for retained in self._pages(statements.RETAINED, Retained, cutoff):
                locks.look(retained, cutoff)
        except StorageRejected as rejected:
            self._books.stopped = "storage did not answer"
            raise JobFailed(rejected.reason) from rejected

    # Silent writers ----------------------------------------------------------------------------

    def _mark_silent(self, before: datetime, cutoff: datetime) -> None:
        done = 0
        while done < self._request.limit and self._in_time():
            self._context.prove_alive()
            size = min(self._request.batch_size, self._request.limit - done)
            marked = trying_again(self._mark_some, before, cutoff, size)
            done += marked
            if marked < size:
                return

    def _mark_some(self, before: datetime, cutoff: datetime, size: int) -> int:
        limit = self._request.writing_limit
        values = {
            "before": before,
            "cutoff": cutoff,
            "size": size,
            "reason": f"its writer gave no sign of life for {limit}",
        }
        with self._books.writing() as (cursor, totals, events):
            cursor.execute(statements.SILENT, values)
            rows = cursor.fetchall()
            for row, key, active in rows:
                totals.scanned += 1
                why = f"silent since {active.isoformat()}"
                totals.note(NOW_UNCERTAIN, key, MEANS[NOW_UNCERTAIN], why=why)
                events.append(
                    self._books.event(
                        "upload.uncertain",
                        upload=str(row),
                        storage_key=key,
                        silent_since=active.isoformat(),
                    )
                )
        return len(rows)

    def _report_silent(self, before: datetime) -> None:
        with self._books.writing() as (cursor, totals, _):
            cursor.execute(statements.COUNT_SILENT, {"before": before, "most": MOST_SILENT})
            count = int(one(cursor)[0])
            totals.scanned += count
            totals.count(NOW_UNCERTAIN, MEANS[NOW_UNCERTAIN], count)

    # Uncertain uploads -------------------------------------------------------------------------

    def _resolve(self, rows: Sequence[Uncertain], cutoff: datetime) -> None:
        client, bucket = self._storage.client, self._storage.bucket
        targets = {row.id: Target(row.key) for row in rows}
        seen = look_at_targets(client, bucket, list(targets.values()))
        if any(isinstance(sighting, Absent) for sighting in seen.values()):
            require_bucket(client, bucket)
        verdicts: list[tuple[Uncertain, Verdict]] = []
        for row in rows:
            sighting = seen[targets[row.id]]
            parts = self._parts_of(row, sighting)
            verdicts.append((row, judge(row, sighting, parts, cutoff, self._request)))
        trying_again(self._write_verdicts, verdicts, cutoff)

    def _parts_of(self, row: Uncertain, sighting: CloseSighting) -> PartsSeen:
        if row.provider_id is None or not isinstance(sighting, Absent):
            return None
        try:
            return list_parts(self._storage.client, self._storage.bucket, row.key, row.provider_id)
        except PartsUnknown as unknown:
            return unknown.error

    def _write_verdicts(
        self, verdicts: Sequence[tuple[Uncertain, Verdict]], cutoff: datetime
    ) -> None:
        with self._books.writing() as (cursor, totals, events):
            came_to: dict[UUID, str] = {}
            if self._context.live:
                for statement, values in self._writes(verdicts):
                    cursor.execute(statement, {"cutoff": cutoff, **values})
                    came_to.update((row[0], row[1]) for row in cursor.fetchall())
                self._remember(cursor, verdicts, set(came_to))
            for row, verdict in verdicts:
                totals.scanned += 1
                state = came_to.get(row.id) if self._context.live else _would_be(row, verdict)
                if state is None:
                    # What was seen is old, or is about to be.
                    why = "its writer came back, or a transaction holds its row"
                    totals.note(STILL_UNCERTAIN, row.key, MEANS[STILL_UNCERTAIN], why=why)
                    continue
                why = verdict.why if isinstance(verdict, IsOpen | IsOver) else "the object is there"
                fate = _CLASSES[state]
                totals.note(fate, row.key, MEANS[fate], why=why)
                if self._context.live and state != "uncertain":
                    events.append(
                        self._books.event(
                            "upload.resolved",
                            upload=str(row.id),
                            storage_key=row.key,
                            state=state,
                            why=sanitize(why),
                        )
                    )

    def _remember(
        self,
        cursor: psycopg.Cursor[TupleRow],
        verdicts: Sequence[tuple[Uncertain, Verdict]],
        written: set[UUID],
    ) -> None:
        """Storage that did not say is a failure as any other; what it did say ends the pauses."""
        failed = {
            as_item(row.id): sanitize(it.why, limit=500)
            for row, it in verdicts
            if row.id in written and isinstance(it, IsOpen) and it.again is None
        }
        seen = [as_item(row.id) for row, _ in verdicts]
        self._setbacks.write(cursor, failed, [item for item in seen if item not in failed])

    def _writes(
        self, verdicts: Sequence[tuple[Uncertain, Verdict]]
    ) -> Iterator[tuple[str, Mapping[str, Any]]]:
        stored = [(row, it.object) for row, it in verdicts if isinstance(it, IsStored)]
        over = [row for row, it in verdicts if isinstance(it, IsOver)]
        still = [(row, it) for row, it in verdicts if isinstance(it, IsOpen)]
        if stored:
            yield (
                statements.RESOLVE_STORED,
                {
                    **_as_seen([row for row, _ in stored]),
                    "etags": [found.etag or None for _, found in stored],
                    "sizes": [found.size for _, found in stored],
                    "versions": [_version_of(found) for _, found in stored],
                },
            )
        if over:
            yield statements.RESOLVE_CLEANUP, _as_seen(over)
        if still:
            yield (
                statements.STILL_UNCERTAIN,
                {
                    **_as_seen([row for row, _ in still]),
                    "agains": [it.again or timedelta(0) for _, it in still],
                    "reasons": [sanitize(it.why, limit=500) for _, it in still],
                },
            )

    # Common ------------------------------------------------------------------------------------

    def _pages(self, statement: str, kind: Any, cutoff: datetime) -> Iterator[list[Any]]:
        """Rows in the order in which they are due, a batch at a time; none comes twice."""
        after, after_id = BEGINNING, FIRST_ID
        done = 0
        while done < self._request.limit and self._in_time():
            self._context.prove_alive()
            size = min(self._request.batch_size, self._request.limit - done)
            with self._books.reading() as cursor:
                cursor.execute(
                    statement,
                    {"cutoff": cutoff, "after": after, "after_id": after_id, "size": size},
                )
                rows = [kind(*row) for row in cursor.fetchall()]
            if not rows:
                return
            done += len(rows)
            after, after_id = rows[-1].due, rows[-1].id
            yield rows
            if len(rows) < size:
                return

    def _in_time(self) -> bool:
        return time.monotonic() < self._ends_at


_CLASSES = {
    "stored": RESOLVED_STORED,
    "cleanup": RESOLVED_CLEANUP,
    "uncertain": STILL_UNCERTAIN,
}


def _would_be(row: Uncertain, verdict: Verdict) -> str:
    if isinstance(verdict, IsStored):
        return "cleanup" if row.cancelled else "stored"
    return "cleanup" if isinstance(verdict, IsOver) else "uncertain"


def _as_seen(rows: Sequence[Uncertain]) -> Mapping[str, Any]:
    return {
        "ids": [row.id for row in rows],
        "since": [row.since for row in rows],
        "active": [row.active for row in rows],
    }


def _version_of(found: Present) -> str | None:
    # `null` names whatever was written last while versions were suspended: no identity.
    return None if found.version in (None, "", NULL_VERSION) else found.version
