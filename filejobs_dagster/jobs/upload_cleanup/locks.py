"""Retained rows whose date has come: is the lock over?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.jobs.setbacks import as_item
from filejobs_dagster.jobs.upload_cleanup import uncertain_statements as statements
from filejobs_dagster.jobs.upload_cleanup.claims import within_calendar
from filejobs_dagster.jobs.upload_cleanup.detail import LOCK_OVER, MEANS, STILL_RETAINED
from filejobs_dagster.objects.heads import Absent, Present, look_at_targets
from filejobs_dagster.objects.targets import Target
from filejobs_dagster.postgres.transient import trying_again

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from filejobs_dagster.book.bookkeeping import Bookkeeping
    from filejobs_dagster.jobs.context import RunContext
    from filejobs_dagster.jobs.setbacks import Setbacks
    from filejobs_dagster.jobs.upload_cleanup import Request, Storage
    from filejobs_dagster.jobs.upload_cleanup.rows import Retained
    from filejobs_dagster.objects.heads import CloseSighting


class Locks:
    """Looks at locks again; a look is no attempt."""

    def __init__(
        self,
        context: RunContext,
        request: Request,
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
