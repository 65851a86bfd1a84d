"""Where reservations are: the project's table `file`, or a table of the operator's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from filejobs_dagster.jobs.context import JobFailed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime, timedelta
    from uuid import UUID

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.jobs.upload_reservations.claims.doubt import Doubt
    from filejobs_dagster.jobs.upload_reservations.reservation import Reservation

    Claiming = AbstractContextManager[tuple[list[Reservation], psycopg.Cursor[TupleRow]]]


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
