"""A multipart upload as the server lists it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


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


def known_date(said: datetime | None) -> datetime | None:
    """What a server said of a time, or None where it means that it does not know: none, or zero."""
    return None if said is None or said <= _EPOCH else said
