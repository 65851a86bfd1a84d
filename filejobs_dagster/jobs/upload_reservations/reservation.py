"""One reservation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID


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
