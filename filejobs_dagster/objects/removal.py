"""What is to be removed as orphans, and what became of each."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from typing_extensions import Self


@dataclass(frozen=True)
class Expected:
    """An object as it was seen when it was judged.

    Attributes:
        key: Exact bytes.
        etag: Without quotes; empty when the server gave none.
        size: In bytes.
        modified: Unix milliseconds; -1 when the server did not say.
        owners: The keys that the object is derived from: while one of them is referenced, it stays.
        version: Exactly this version is looked at and removed, whatever stands above it; None for
            the current one, in the manner of the bucket.
    """

    key: bytes
    etag: str
    size: int
    modified: int
    owners: tuple[str, ...] = ()
    version: str | None = None


@dataclass(frozen=True)
class Locked:
    """What forbids to delete a version.

    Attributes:
        until: The end of its retention; None when a legal hold alone keeps it.
        legal_hold: True while somebody holds it; that has no end of its own.
    """

    until: datetime | None
    legal_hold: bool

    @classmethod
    def in_force(cls, *, until: datetime | None, legal_hold: bool) -> Self | None:
        """What still forbids it; None when nothing does any more.

        Servers go on naming a retention that has ended. By a clock that is fast, one that has not
        ended is taken for over: the server then refuses, and nothing is lost.
        """
        if until is not None and until <= datetime.now(timezone.utc):
            until = None
        return cls(until, legal_hold) if until is not None or legal_hold else None

    def __str__(self) -> str:
        """For a report."""
        held = "under a legal hold" if self.legal_hold else ""
        until = "" if self.until is None else f"retained until {self.until.isoformat()}"
        return " and ".join(part for part in (until, held) if part)


@dataclass(frozen=True)
class Removal:
    """The fate of each key; every key stands in exactly one group, `unsettled` aside.

    Attributes:
        deleted: The object is gone, and its bytes are freed.
        marked: The bucket keeps versions: a delete marker was added, and no byte was freed.
        purged: Every version is gone: key to how many there were, delete markers included.
        already_gone: There was no such object any more.
        changed: Another object has this key by now, so it was kept: key to what differs.
        undecided: Nobody can tell whether it is the object that was seen, so it was kept: key to
            why.
        unseen: The object may not or cannot be looked at, so it was kept: key to why.
        locked: Retained by a lock or a legal hold, so it was kept.
        failed: The object is, or may be, still there: key to reason, without secrets.
        kept: The gate did not let it go: key to reason.
        unsettled: Those of the keys that are still there after a request that the server may yet
            carry out: whoever refers to one of them may lose it.
        freed: Bytes of all that was deleted or purged, older versions included.
    """

    deleted: tuple[bytes, ...] = ()
    marked: tuple[bytes, ...] = ()
    purged: Mapping[bytes, int] = field(default_factory=dict)
    already_gone: tuple[bytes, ...] = ()
    changed: Mapping[bytes, str] = field(default_factory=dict)
    undecided: Mapping[bytes, str] = field(default_factory=dict)
    unseen: Mapping[bytes, str] = field(default_factory=dict)
    locked: Mapping[bytes, Locked] = field(default_factory=dict)
    failed: Mapping[bytes, str] = field(default_factory=dict)
    kept: Mapping[bytes, str] = field(default_factory=dict)
    freed: int = 0
    unsettled: frozenset[bytes] = frozenset()

    def removed(self) -> tuple[bytes, ...]:
        """All keys that a listing does not show any more because of this removal."""
        return (*self.deleted, *self.marked, *self.purged)

    def answered(self) -> tuple[bytes, ...]:
        """All keys whose fate is known."""
        return (
            *self.removed(),
            *self.already_gone,
            *self.changed,
            *self.undecided,
            *self.unseen,
            *self.locked,
            *self.failed,
            *self.kept,
        )


StopKind = Literal["storage", "proof", "references", "verification"]


class RemovalStopped(Exception):
    """A removal ended before every key was answered; what it had done is not lost.

    Attributes:
        reason: One sentence without secrets.
        kind: `storage` refused, `proof` that the caller may delete was not given, `references`
            could not be asked, or `verification` found what had been reported as gone.
        so_far: The fate of the keys that were answered.
        unanswered: Keys that were not asked for, or whose answer never came. Each may be gone.

    `__cause__` is the error itself: of `proof`, what the caller's own function raised.
    """

    def __init__(
        self, reason: str, kind: StopKind, so_far: Removal, unanswered: Sequence[bytes]
    ) -> None:
        """Say why it stopped and how far it had come."""
        super().__init__(reason)
        self.reason = reason
        self.kind: StopKind = kind
        self.so_far = so_far
        self.unanswered = tuple(unanswered)
