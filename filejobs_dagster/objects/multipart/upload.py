"""A multipart upload as the server lists it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True)
class MultipartUpload:
    """An upload that was neither completed nor aborted.

    Attributes:
        key: The key that the object would have; what is no UTF-8 stands as surrogates.
        upload_id: The server's name for it.
        initiated: When it began; None when the server did not say.
    """

    key: str
    upload_id: str
    initiated: datetime | None
