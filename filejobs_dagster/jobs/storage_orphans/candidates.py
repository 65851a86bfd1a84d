"""What a run knows of candidates: single ones, and how many there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from filejobs_dagster.objects.identity import milliseconds

if TYPE_CHECKING:
    from datetime import datetime


@dataclass(frozen=True)
class Intended:
    """One object that this run has said it will delete.

    Attributes:
        key: Its bytes.
        etag: As it was seen, without quotation marks.
        size: Bytes.
        modified: As the listing said it.
        first_seen: When a run first saw it without a reference.
        reason: Why an earlier run could not remove it; None when none tried.
        seen_as: The version that an earlier run found there, when it could not tell whether it is
            the one that was listed; None where that is too short ago to be the orphan's.
    """

    key: bytes
    etag: str
    size: int
    modified: datetime
    first_seen: datetime
    reason: str | None = None
    seen_as: str | None = None

    @property
    def modified_milliseconds(self) -> int:
        """Unix milliseconds."""
        return milliseconds(self.modified)

    @property
    def kind(self) -> str:
        """The kind of that reason; empty without one."""
        return (self.reason or "").split(":", 1)[0]


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
        since: When the first of them was first seen by the present rules; None without any.
        by_other_rules: Those of them that were seen for long enough, and judged by other rules.
        seen_since: When the first of these was first seen; None without any.
    """

    count: int
    bytes: int
    since: datetime | None
    by_other_rules: int = 0
    seen_since: datetime | None = None


@dataclass(frozen=True)
class PutOff:
    """Orphans that could not be removed and are not tried again yet.

    Attributes:
        count: How many.
        since: When the first of them was first seen.
    """

    count: int
    since: datetime


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
        not_before: The end of a lock; None where its pause says when to try again.
        version: The version that was found there, where nobody can tell whether it is the orphan.
    """

    key: bytes
    reason: str
    not_before: datetime | None = None
    version: str | None = None
