"""What an upload is, in the words of its table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from uuid import UUID

UploadState: TypeAlias = Literal[
    "writing", "stored", "ready", "cleanup", "cleaned", "uncertain", "retained"
]
"""Of a row of `upload`; the transitions between them are in the migration that makes the table."""


class NoSuchUpload(LookupError):
    """There is no row of `upload` with that id: never begun, or its beginning rolled back."""

    def __init__(self, upload: UUID) -> None:
        super().__init__(
            f"There is no upload {upload}. Was the transaction committed that began it? Begin a "
            "new one; its key is a new one, too."
        )
        self.upload = upload


@dataclass(frozen=True)
class BegunUpload:
    """An upload whose row stands.

    Attributes:
        id: The row's.
        key: The exact key to store the object under; no other upload has it, nor ever will.
    """

    id: UUID
    key: str
