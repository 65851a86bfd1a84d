"""The deleted files of the table `file`: looking for them, locking them, claiming them."""

from __future__ import annotations

import heapq
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from filejobs_dagster.jobs.collecting.detail import NO_USABLE_TIME
from filejobs_dagster.jobs.deleted_files import statements
from filejobs_dagster.jobs.deleted_files.deleted_file import Candidate, DeletedFile
from filejobs_dagster.jobs.deleted_files.statements import BEGINNING, LAST_ID
from filejobs_dagster.postgres.rows import one

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.jobs.deleted_files.deleted_file import Place

    Cursor = psycopg.Cursor[TupleRow]


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
