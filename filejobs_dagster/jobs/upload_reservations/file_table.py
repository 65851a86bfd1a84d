"""The project's own table `file` as the source of reservations.

Here stands what every source of reservations is, this table or one of the operator's.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

from filejobs_dagster.jobs.collecting.detail import kept_row
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
from filejobs_dagster.postgres.connect import database_now, reached
from filejobs_dagster.run_context import JobFailed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime
    from uuid import UUID

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.jobs.upload_reservations.claims import Doubt
    from filejobs_dagster.postgres.connect import Connection, Database, Reachable
    from filejobs_dagster.references.elsewhere.search import OwnRows

    Claiming = AbstractContextManager[tuple[list["Reservation"], psycopg.Cursor[TupleRow]]]

# One reservation.


@dataclass(frozen=True)
class Reservation:
    """One row, as the candidate query or the claim returned it.

    Attributes:
        id: The row's id; as text where the table is the operator's.
        key: The object's key.
        due: When it expired.
        declared_size: Its size in bytes as the row has it, or None.
        created_at: When the row was made, as far as its claim said so.
        row: The whole row as JSON text, where its claim keeps it.
    """

    id: UUID | str
    key: str
    due: datetime
    declared_size: int | None
    created_at: datetime | None = None
    row: str | None = None

    @property
    def known_since(self) -> datetime:
        """A moment at which the row was there already."""
        return self.due if self.created_at is None else self.created_at


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

    def keys_beside(self, rows: Sequence[Reservation] | None = None) -> list[str]:
        """None: a reservation has nothing made from it."""
        del rows
        return []

    def own_rows(self) -> list[OwnRows]:
        """None: of the project's own rows all that names them is a source."""
        return []

    def own_sources(self) -> frozenset[str]:
        """None."""
        return frozenset()

    def declared(self) -> str:
        """Nothing."""
        return ""

    def folders_below(self, key: str) -> list[str]:
        """None."""
        del key
        return []

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


# Where reservations are: the project's table `file`, or a table of the operator's.


class ClaimUnconfirmed(JobFailed):
    """The intent is committed, and whether the claim is, is not known: no bytes may go.

    Attributes:
        keys: What the intent names.
    """

    def __init__(self, message: str, keys: Sequence[str]) -> None:
        super().__init__(message)
        self.keys = tuple(keys)


class ReservationSource(Protocol):
    """The reservations of one table, in the order in which they are collected: (due, id)."""

    @property
    def name(self) -> str:
        """What the source is called."""
        ...

    @property
    def by_hand(self) -> bool:
        """True when its statements are the operator's own, and not written from a declaration."""
        ...

    @property
    def table(self) -> str | None:
        """The table from which a claim takes rows, as a pass calls it; None when it is not known.

        Known of the project's database alone, and after `preflight`.
        """
        ...

    @property
    def elsewhere(self) -> bool:
        """True when the rows are in another database than the audit log."""
        ...

    def preflight(self) -> None:
        """Make sure that every statement can be sent, before anything is claimed.

        Raises:
            SourceRefused: One of them cannot.
        """
        ...

    def doubt(self) -> Doubt | None:
        """What speaks against the claim, as far as the statements tell; nothing is sent."""
        ...

    def now(self) -> datetime:
        """The time of the database that holds the rows."""
        ...

    def read(
        self, after: Reservation | None, begins: datetime, before: datetime, size: int
    ) -> list[Reservation]:
        """The next candidates; only a guess, and nothing is locked.

        Args:
            after: The last one that was read, or None to begin.
            begins: The earliest due time, inclusive.
            before: The latest due time, exclusive.
            size: The most to return.
        """
        ...

    def claiming(
        self, wanted: Sequence[Reservation], begins: datetime, before: datetime, run_id: str
    ) -> Claiming:
        """Claim inside a transaction, which commits when the block ends well.

        Yields:
            What was won, and a cursor for what must be written down with it. Where the rows are
            elsewhere, what the cursor wrote commits right before the claim does.

        Raises:
            RowsHeld: Somebody else has locked some of the rows.
            SourceRefused: The claim returned what it was not asked for.
            ClaimUnconfirmed: The claim's commit failed after the other one.
        """
        ...

    def still_due(
        self, rows: Sequence[Reservation], begins: datetime, before: datetime
    ) -> set[UUID | str]:
        """The ids of those of the rows that are reservations as due as before."""
        ...

    def facts(self, reservation: Reservation) -> dict[str, Any]:
        """What an audit event says of a row beside its key and its due time."""
        ...

    def also_deleted(self) -> dict[str, int]:
        """Rows of other tables that the newest claim has deleted, by table."""
        ...

    def keys_beside(self, rows: Sequence[Reservation] | None = None) -> list[str]:
        """Keys that rows of other tables name which go with these; None for the newest claim's."""
        ...

    def own_rows(self) -> list[OwnRows]:
        """Where the rows name their objects, when other places are to be searched for them."""
        ...

    def own_sources(self) -> frozenset[str]:
        """The sources of references that these rows are, by their names."""
        ...

    def declared(self) -> str:
        """What the settings say of the rows, as text, to tell whether that has changed."""
        ...

    def folders_below(self, key: str) -> list[str]:
        """The folders in which objects lie that were made from the one of that key."""
        ...

    def oldest_left(self, cutoff: datetime) -> datetime | None:
        """When the oldest reservation expired that is due and still there."""
        ...

    def unusable(
        self, begins: datetime, before: datetime, *, most: int
    ) -> list[tuple[str, str, bool]]:
        """Rows that no claim can mean, up to `most` of each kind: class, id, and whether due."""
        ...

    def count_due(self, grace: timedelta, *, most: int) -> int:
        """Count the reservations that are due, up to `most`."""
        ...

    def count_without_expiry(self, *, most: int) -> int:
        """Count the rows that never expire by themselves, up to `most`."""
        ...
