"""What became of a multipart upload that was to be aborted."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class AbortFate(Enum):
    """What became of an upload."""

    ABORTED = "aborted"
    """It was there, and no part of it is listed any more."""

    ALREADY_GONE = "already gone"
    """There was no such upload any more, and its key has no object."""

    OBJECT_THERE = "gone, and its key has an object"
    """There was no such upload any more, and its key has an object: as a rule, it was completed."""

    PARTS_LEFT = "parts left"
    """It was aborted, and parts are still listed: some were on their way."""

    ACTIVE = "still active"
    """A part has come since it was judged; nothing was sent."""

    KEPT = "kept"
    """The gate did not let it go; nothing more was sent."""

    FAILED = "failed"
    """Storage refused, or did not say. Parts may be left."""

    @property
    def gone(self) -> bool:
        """True when the upload is known not to be there any more, whoever ended it."""
        return self in (AbortFate.ABORTED, AbortFate.ALREADY_GONE, AbortFate.OBJECT_THERE)


@dataclass(frozen=True)
class Aborted:
    """The fate of one upload.

    Attributes:
        fate: What became of it.
        reason: Without secrets; empty where the fate says it all.
        parts: Parts that were listed before an abort and are not any more.
        bytes_freed: Their bytes.
        requests: How often the abort was sent, the client's own tries included.
        parts_left: Parts that are still listed.
        bytes_left: Their bytes.
        object_size: Bytes of the key's object, where one was found.
        object_etag: Its ETag without quotes, where one was found.
    """

    fate: AbortFate
    reason: str = ""
    parts: int = 0
    bytes_freed: int = 0
    requests: int = 0
    parts_left: int = 0
    bytes_left: int = 0
    object_size: int | None = None
    object_etag: str | None = None

    @property
    def gone(self) -> bool:
        """True when the upload is known not to be there any more."""
        return self.fate.gone
