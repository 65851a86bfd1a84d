"""One deleted file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    Place = tuple[datetime, UUID]


@dataclass(frozen=True)
class DeletedFile:
    """One row, as a candidate query or the claim returned it.

    Attributes:
        id: The row's id.
        key: The key of its object.
        deleted_at: When it was deleted.
        retain_until: Before which moment nobody may collect it, or None.
        created_at: When the row was made.
        row: The whole row as JSON text, where its claim keeps it.
    """

    id: UUID
    key: str
    deleted_at: datetime
    retain_until: datetime | None
    created_at: datetime
    row: str | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class Candidate(DeletedFile):
    """A row, and how far the two orders of candidates were read when its turn had come.

    Attributes:
        plain: Moment and id of the last row without retain_until.
        retained: Moment and id of the last row with one.
    """

    plain: Place
    retained: Place
