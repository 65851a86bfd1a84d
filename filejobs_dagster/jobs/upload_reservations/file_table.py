"""The project's own table `file` as the source of reservations."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from filejobs_dagster.jobs.collecting.detail import kept_row
from filejobs_dagster.jobs.upload_reservations.reservation import Reservation
from filejobs_dagster.jobs.upload_reservations.statements import (
    CANDIDATES,
    CLAIM,
    IN_INDEX_ORDER,
    LAST_ID,
    STILL_DUE,
    WITH_ROW,
    count_due,
    count_without_expiry,
    oldest_left,
)
from filejobs_dagster.postgres.clock import database_now
from filejobs_dagster.postgres.connect import reached

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime
    from uuid import UUID

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.jobs.upload_reservations.claims.doubt import Doubt
    from filejobs_dagster.postgres.connect import Connection, Database, Reachable


class FileTable:
    """The table `file`; each call is one transaction."""

    name = table = "file"
    by_hand = False
    elsewhere = False

    def __init__(
        self,
        database: Database,
        connection: Reachable,
        *,
        candidates: str = CANDIDATES,
        claim: str = CLAIM,
        leave_out: Sequence[str] | None = None,
    ) -> None:
        self._database = database
        self._reachable = connection
        self._candidates = candidates
        self._claim = claim if leave_out is None else WITH_ROW
        self._leave_out = leave_out

    @property
    def _connection(self) -> Connection:
        return reached(self._reachable)

    def _reading(self) -> Any:
        return self._database.transaction(self._connection, read_only=True)

    def preflight(self) -> None:
        """Nothing: the statements belong to the migrations that are checked elsewhere."""

    def doubt(self) -> Doubt | None:
        """Nothing: the claim is the project's own."""
        return None

    def now(self) -> datetime:
        """The database's time."""
        with self._reading() as cursor:
            return database_now(cursor)

    def read(
        self, after: Reservation | None, begins: datetime, before: datetime, size: int
    ) -> list[Reservation]:
        """The next candidates, by the partial index `file_reservation_due`."""
        last, last_id = (
            (begins - timedelta(microseconds=1), LAST_ID)
            if after is None
            else (after.due, after.id)
        )
        values = {"before": before, "after": last, "after_id": last_id, "size": size}
        with self._reading() as cursor:
            cursor.execute(IN_INDEX_ORDER)
            cursor.execute(self._candidates, values)
            return [Reservation(*row) for row in cursor.fetchall()]

    @contextmanager
    def claiming(
        self, wanted: Sequence[Reservation], begins: datetime, before: datetime, run_id: str
    ) -> Iterator[tuple[list[Reservation], psycopg.Cursor[TupleRow]]]:
        """Delete the rows that are still reservations, in one transaction with the records."""
        del run_id
        values: dict[str, Any] = {
            "ids": [row.id for row in wanted],
            "from": begins,
            "before": before,
        }
        if self._leave_out is not None:
            values["leave_out"] = list(self._leave_out)
        with self._database.transaction(self._connection) as cursor:
            cursor.execute(self._claim, values)
            yield [Reservation(*row) for row in cursor.fetchall()], cursor

    def still_due(
        self, rows: Sequence[Reservation], begins: datetime, before: datetime
    ) -> set[UUID | str]:
        """The ids of those of the rows that are reservations as due as before."""
        with self._reading() as cursor:
            values = {"ids": [row.id for row in rows], "from": begins, "before": before}
            cursor.execute(STILL_DUE, values)
            return {row[0] for row in cursor.fetchall()}

    def facts(self, reservation: Reservation) -> dict[str, Any]:
        """The row's id, and the row where it is kept."""
        kept = kept_row(reservation.row, self.table, self._leave_out)
        return {"file_id": str(reservation.id), **kept}

    def also_deleted(self) -> dict[str, int]:
        """None: foreign keys do what is to be done."""
        return {}

    def oldest_left(self, cutoff: datetime) -> datetime | None:
        """When the oldest reservation expired that is due and still there."""
        with self._reading() as cursor:
            return oldest_left(cursor, cutoff)

    def unusable(
        self, begins: datetime, before: datetime, *, most: int
    ) -> list[tuple[str, str, bool]]:
        """None: the table's own constraints keep such rows out."""
        del begins, before, most
        return []

    def count_due(self, grace: timedelta, *, most: int) -> int:
        """Count the reservations that are due, up to `most`."""
        with self._reading() as cursor:
            return count_due(cursor, grace, most=most)

    def count_without_expiry(self, *, most: int) -> int:
        """Count the pending rows without expiry, up to `most`."""
        with self._reading() as cursor:
            return count_without_expiry(cursor, most=most)
