"""One run over deleted files, and the table `file` as it looks for, locks and claims them."""

from __future__ import annotations

import heapq
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import psycopg

from filejobs_dagster.book.bookkeeping import Bookkeeping, Taken
from filejobs_dagster.book.totals import KEPT, Meaning, Totals
from filejobs_dagster.jobs.collecting import collection
from filejobs_dagster.jobs.collecting.collection import count_not_won
from filejobs_dagster.jobs.collecting.detail import (
    DERIVED,
    NO_USABLE_TIME,
    RowsHeld,
    SmallerBatch,
    because,
    detail_of,
    kept_row,
)
from filejobs_dagster.jobs.collecting.removal import Removal
from filejobs_dagster.jobs.deleted_files import statements
from filejobs_dagster.jobs.deleted_files.derived import DerivedObjects
from filejobs_dagster.jobs.deleted_files.statements import (
    BEGINNING,
    LAST_ID,
    Candidate,
    DeletedFile,
)
from filejobs_dagster.objects.client import check_access
from filejobs_dagster.postgres.connect import one

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from psycopg.rows import TupleRow

    from filejobs_dagster.jobs.deleted_files.statements import Place

    Cursor = psycopg.Cursor[TupleRow]
    from collections.abc import Collection as Keys

    from filejobs_dagster.jobs.collecting import Storage
    from filejobs_dagster.jobs.deleted_files.settings import DeletedFilesRun
    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.run_context import RunContext

# The deleted files of the table `file`: looking for them, locking them, claiming them.


class FileTable:
    """What is sent about deleted files; the transactions are the caller's."""

    def __init__(self, restore_window: timedelta) -> None:
        self._restore_window = restore_window

    def collectable_at(self, file: DeletedFile) -> datetime:
        """The moment since when a file may be collected."""
        over = file.deleted_at + self._restore_window
        return over if file.retain_until is None else max(over, file.retain_until)

    def read(
        self,
        cursor: Cursor,
        after: Candidate | None,
        begins: datetime,
        before: datetime,
        size: int,
    ) -> list[Candidate]:
        """The next candidates of both orders, the older one first.

        Args:
            cursor: In a transaction that only reads.
            after: The last one that was read, or None to begin.
            begins: The earliest moment at which they became collectable, inclusive.
            before: The latest, exclusive.
            size: The most to return.
        """
        values = self._moments(begins, before)
        plain: Place = after.plain if after else (_before(values["deleted_from"]), LAST_ID)
        retained: Place = after.retained if after else (BEGINNING, LAST_ID)
        cursor.execute(statements.IN_INDEX_ORDER)
        found = [
            self._page(cursor, statement, place, values | {"size": size})
            for statement, place in (
                (statements.PLAIN_CANDIDATES, plain),
                (statements.RETAINED_CANDIDATES, retained),
            )
        ]
        return list(_placed(heapq.merge(*found, key=self.collectable_at), plain, retained))[:size]

    def lock(
        self, cursor: Cursor, ids: Sequence[UUID], begins: datetime, before: datetime
    ) -> list[UUID]:
        """Lock those of the rows that may still go, and that nobody else holds."""
        return [row[0] for row in self._by_key(cursor, statements.LOCK, ids, begins, before)]

    def still_due(
        self, cursor: Cursor, ids: Sequence[UUID], begins: datetime, before: datetime
    ) -> set[UUID]:
        """Those of the rows that may still go, whoever holds them."""
        return {row[0] for row in self._by_key(cursor, statements.STILL_DUE, ids, begins, before)}

    def claim(
        self,
        cursor: Cursor,
        ids: Sequence[UUID],
        begins: datetime,
        before: datetime,
        *,
        leave_out: Sequence[str] | None = None,
    ) -> list[DeletedFile]:
        """Delete those of the rows that may still go, and return them.

        Args:
            cursor: In the claim's transaction.
            ids: Which.
            begins: The earliest moment at which they became due.
            before: The latest.
            leave_out: Columns that the whole row leaves out; None to return no whole row.
        """
        if leave_out is None:
            rows = self._by_key(cursor, statements.CLAIM, ids, begins, before)
            return [DeletedFile(*row) for row in rows]
        more = {"leave_out": list(leave_out)}
        rows = self._by_key(cursor, statements.WITH_ROW, ids, begins, before, more)
        return [DeletedFile(*known, row=row) for *known, row in rows]

    def oldest_left(self, cursor: Cursor, before: datetime) -> datetime | None:
        """Since when the oldest file that is there could have been collected."""
        values = self._moments(BEGINNING, before) | {"restore_window": self._restore_window}
        cursor.execute(statements.BY_INDEX_ALONE)
        cursor.execute(statements.OLDEST_LEFT, values)
        moment: datetime | None = one(cursor)[0]
        return moment

    def unusable(
        self, cursor: Cursor, before: datetime, *, most: int
    ) -> list[tuple[str, str, bool]]:
        """Rows whose dates no calendar holds, up to `most` of each kind: class, id, whether due."""
        cursor.execute(statements.UNUSABLE, {"before": before, "most": most})
        return [(NO_USABLE_TIME, row, due) for row, due in cursor.fetchall()]

    def count_without_date(self, cursor: Cursor, *, most: int) -> int:
        """Count the deleted files of which nobody knows since when, up to `most`."""
        cursor.execute(statements.WITHOUT_DATE, {"most": most})
        return int(one(cursor)[0])

    def _by_key(
        self,
        cursor: Cursor,
        statement: str,
        ids: Sequence[UUID],
        begins: datetime,
        before: datetime,
        more: Mapping[str, Any] | None = None,
    ) -> list[TupleRow]:
        """Rows by the primary key: a bitmap of both partial indexes would hold all that is due."""
        cursor.execute(statements.IN_INDEX_ORDER)
        cursor.execute(
            statement, {"ids": list(ids), **self._moments(begins, before), **(more or {})}
        )
        rows = cursor.fetchall()
        cursor.execute(statements.IN_ANY_ORDER)
        return rows

    def _moments(self, begins: datetime, before: datetime) -> dict[str, Any]:
        return {
            "begins": begins,
            "before": before,
            "deleted_from": _back(begins, self._restore_window),
            "deleted_before": _back(before, self._restore_window),
        }

    def _page(
        self, cursor: Cursor, statement: str, after: Place, values: dict[str, Any]
    ) -> list[DeletedFile]:
        moment, identity = after
        cursor.execute(statement, values | {"after": moment, "after_id": identity})
        return [DeletedFile(*row) for row in cursor.fetchall()]


def _placed(files: Iterator[DeletedFile], plain: Place, retained: Place) -> Iterator[Candidate]:
    for file in files:
        if file.retain_until is None:
            plain = (file.deleted_at, file.id)
        else:
            retained = (file.retain_until, file.id)
        yield Candidate(**vars(file), plain=plain, retained=retained)


def _back(moment: datetime, duration: timedelta) -> datetime:
    """The moment less the duration, not before the beginning of dates."""
    return BEGINNING if moment - BEGINNING < duration else moment - duration


def _before(moment: datetime) -> datetime:
    return moment - timedelta(microseconds=1)


MOST_WITHOUT_DATE = 10_000
"""Deleted rows without deleted_at are counted up to here."""

MOST_UNUSABLE = 1_000
"""Rows whose dates no calendar holds are counted up to here."""

MOST_DERIVED = 5_000
"""Derived keys of one query in one batch. One file with more goes by itself, with all of them."""

MISSING: Final = "missing"
"""The class of a claimed file whose object was not there."""

OUTLIVED = "its row stays"
"""A derived key that is still named by its query when the claim has taken the file."""


class Collection(collection.Collection[DeletedFile]):
    """One run at work. The methods follow the order in which things happen."""

    rows = "deleted files"

    def __init__(self, context: RunContext, request: DeletedFilesRun, storage: Storage) -> None:
        self._request = request
        self._files = FileTable(request.restore_window)
        self._derived = DerivedObjects(request.derived, lambda: context.connection)
        self._derived_keys: Keys[str] = ()
        self._outlived: Keys[str] = ()
        books = Bookkeeping(
            context,
            Totals(live=context.live, measured=request.count_bytes),
            partial(detail_of, absent=MISSING),
            bucket=storage.bucket,
        )
        removal = Removal(context, storage, books, absent=MISSING)
        super().__init__(context, request, storage, books, removal, place="file")

    def run(self) -> Outcome:
        """Everything, from the cutoff to the outcome."""
        now = self._context.now()
        check_access(self._storage.client, self._storage.bucket)
        with self._reading():
            self._derived.preflight()
        with self._reading():
            sources = self._storage.references.queries_here
            self._derived.require_sources(sources, self._context.database.schema)
        begins = self._context.window.begins or BEGINNING
        self._work(begins, min(now, self._context.window.ends or now))
        return self._outcome(now)

    def _reading(self) -> Any:
        return self._context.database.transaction(self._context.connection, read_only=True)

    def _read(
        self, after: DeletedFile | None, begins: datetime, before: datetime, size: int
    ) -> list[DeletedFile]:
        last = after if isinstance(after, Candidate) else None
        with self._reading() as cursor:
            return [*self._files.read(cursor, last, begins, before, size)]

    def _report_batch(self, batch: Sequence[DeletedFile], *moments: datetime) -> None:
        with self._reading():
            keys = self._derived_of(batch)
        if keys is None:
            half = len(batch) // 2
            self._report_batch(batch[:half], *moments)
            self._report_batch(batch[half:], *moments)
            return
        self._now_at_work(batch, keys)
        self._derived_keys = self._owned_beside(self._derived_keys)
        super()._report_batch(batch, *moments)

    def _claim(
        self, wanted: Sequence[DeletedFile], begins: datetime, before: datetime
    ) -> list[DeletedFile]:
        """Rows, progress, audit: one transaction, the audit's head lock last and shortest."""
        self._context.prove_alive()
        ids = [file.id for file in wanted]
        derived: dict[str, None] = {}
        outlived: dict[str, None] = {}
        with self._context.database.transaction(self._context.connection) as cursor:
            if self._derived:
                ids = self._files.lock(cursor, ids, begins, before)
                held = set(ids)
                found = self._derived_of([file for file in wanted if file.id in held])
                if found is None:
                    raise SmallerBatch(f"{len(ids)} files have too many derived objects")
                derived = found
            try:
                won = self._files.claim(
                    cursor, ids, begins, before, leave_out=self._request.rows_left_out
                )
            except psycopg.errors.LockNotAvailable as error:
                # Somebody holds a row that the cascade would take; the other files can go.
                raise RowsHeld(because(error)) from error
            if derived:
                # Rows that no cascade took, or of a file that a trigger has kept, name them still.
                outlived = self._derived.keys(ids) or {}
            going = [key for key in derived if key not in outlived] if won else []
            keys = dict.fromkeys([*(file.key for file in won), *going])
            self._books.commit_claim(
                cursor,
                Taken("file", [file.created_at for file in won]),
                list(keys),
                self._events_of(won),
                not_won=lambda totals: count_not_won(totals, len(wanted) - len(won)),
            )
        self._now_at_work(won, going)
        self._outlived = outlived
        return won

    def _still_due(
        self, missed: Sequence[DeletedFile], begins: datetime, before: datetime
    ) -> set[UUID]:
        with self._books.reading() as cursor:
            return self._files.still_due(cursor, [file.id for file in missed], begins, before)

    def _events_of(self, won: Sequence[DeletedFile]) -> Iterator[dict[str, Any]]:
        for file in won:
            until = file.retain_until
            yield self._books.event(
                "deleted_file.collected",
                file_id=str(file.id),
                storage_key=file.key,
                deleted_at=file.deleted_at.isoformat(),
                retain_until=None if until is None else until.isoformat(),
                **kept_row(file.row, "file", self._request.rows_left_out),
            )

    def _derived_of(self, files: Sequence[DeletedFile]) -> dict[str, None] | None:
        """The keys that were made from these files; None when fewer files must be asked for."""
        most = MOST_DERIVED if len(files) > 1 else None
        return self._derived.keys([file.id for file in files], most=most) if files else {}

    def _now_at_work(self, files: Sequence[DeletedFile], derived: Keys[str]) -> None:
        own = {file.key for file in files}
        self._derived_keys = [key for key in derived if key not in own]
        self._removal.derived = frozenset(self._derived_keys)

    def _objects_of(self, won: Sequence[DeletedFile]) -> list[str]:
        return [*super()._objects_of(won), *self._derived_keys]

    def _take_bytes(self, won: Sequence[DeletedFile]) -> None:
        for key in self._outlived:
            self._books.totals.note(DERIVED + KEPT + OUTLIVED, key, Meaning.STAYS)
        super()._take_bytes(won)

    def _outcome(self, now: datetime) -> Outcome:
        with self._reading() as cursor:
            oldest = self._files.oldest_left(cursor, now)
            self._count_unusable(self._files.unusable(cursor, now, most=MOST_UNUSABLE))
            without_date = self._files.count_without_date(cursor, most=MOST_WITHOUT_DATE + 1)
        return self._outcome_of(
            now - self._request.restore_window,
            oldest,
            restore_window_seconds=round(self._request.restore_window.total_seconds()),
            without_deleted_at=min(without_date, MOST_WITHOUT_DATE),
            without_deleted_at_is_floor=without_date > MOST_WITHOUT_DATE,
        )
