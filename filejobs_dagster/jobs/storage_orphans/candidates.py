"""What a run knows of candidates: single ones, and how many there are."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Intended:
    """One object that this run has said it will delete.

    Attributes:
        key: Its bytes.
        etag: As it was seen, without quotation marks.
        size: Bytes.
        modified: As the listing said it.
        first_seen: When a run first saw it without a reference.
    """

    key: bytes
    etag: str
    size: int
    modified: datetime
    first_seen: datetime

    @property
    def modified_milliseconds(self) -> int:
        """Unix milliseconds."""
        return milliseconds(self.modified)


@dataclass(frozen=True)
class Due:
    """Orphans that may be deleted now.

    Attributes:
        count: How many.
        bytes: Their bytes.
        oldest: The oldest one's time; None without any.
        since: Since when the one that waits longest has been seen; None without any.
    """

    count: int
    bytes: int
    oldest: datetime | None
    since: datetime | None


@dataclass(frozen=True)
class Waiting:
    """Orphans of this pass that have not been seen for long enough.

    Attributes:
        count: How many.
        bytes: Their bytes.
        since: When the first of them was first seen; None without any.
    """

    count: int
    bytes: int
    since: datetime | None


@dataclass(frozen=True)
class Candidate:
    """A mark in the order of the drain.

    Attributes:
        key: Its bytes.
        modified: The object's time.
        is_due: True when it may be deleted now.
        was_refused: True when storage did not let it go in an earlier run.
    """

    key: bytes
    modified: datetime
    is_due: bool
    was_refused: bool


@dataclass(frozen=True)
class Aside:
    """An object that stays, although it is an orphan.

    Attributes:
        key: Its bytes.
        reason: Why.
        not_before: When to try again; None for the next run.
    """

    key: bytes
    reason: str
    not_before: datetime | None = None


def milliseconds(at: datetime) -> int:
    """A moment as a listing has it: unix milliseconds, cut."""
    return (at - _EPOCH) // timedelta(milliseconds=1)
