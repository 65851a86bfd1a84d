"""Rows whose state storage decides: silent writers, uncertain uploads, locks that may be over."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from filejobs_dagster.book.outcomes import StorageRejected
from filejobs_dagster.jobs.context import JobFailed
from filejobs_dagster.jobs.setbacks import as_item
from filejobs_dagster.jobs.upload_cleanup import uncertain_statements as statements
from filejobs_dagster.jobs.upload_cleanup.detail import (
    MEANS,
    NOW_UNCERTAIN,
    RESOLVED_CLEANUP,
    RESOLVED_STORED,
    STILL_UNCERTAIN,
)
from filejobs_dagster.jobs.upload_cleanup.locks import Locks
from filejobs_dagster.jobs.upload_cleanup.rows import Retained, Uncertain
from filejobs_dagster.jobs.upload_cleanup.statements import BEGINNING, FIRST_ID
from filejobs_dagster.jobs.upload_cleanup.verdicts import IsOpen, IsOver, IsStored, judge
from filejobs_dagster.ledger.sanitize import sanitize
from filejobs_dagster.objects.heads import Absent, look_at_targets, require_bucket
from filejobs_dagster.objects.identity import NULL_VERSION
from filejobs_dagster.objects.multipart import PartsUnknown, list_parts
from filejobs_dagster.objects.targets import Target
from filejobs_dagster.postgres.rows import one
from filejobs_dagster.postgres.transient import trying_again

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.book.bookkeeping import Bookkeeping
    from filejobs_dagster.jobs.context import RunContext
    from filejobs_dagster.jobs.setbacks import Setbacks
    from filejobs_dagster.jobs.upload_cleanup import Request, Storage
    from filejobs_dagster.jobs.upload_cleanup.verdicts import PartsSeen, Verdict
    from filejobs_dagster.objects.heads import CloseSighting, Present

MOST_SILENT = 10_000
"""In a dry run, silent writers are counted up to here."""


class Reconciliation:
    """One pass over the rows that are not in `cleanup`."""

    def __init__(
        self,
        context: RunContext,
        request: Request,
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
