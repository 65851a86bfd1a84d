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
    """

    id: UUID | str
    key: str
    due: datetime
    declared_size: int | None
