"""What became of each item that a run set out to take away.

One record for each, made where it is decided and read by all who write of it: totals, marks, audit
events and the record of the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from typing_extensions import Self

Key = TypeVar("Key", str, bytes)


class Fate(Enum):
    """What became of an item."""

    DELETED = "deleted"
    """It is gone, and its bytes are freed. S3 also says this of a key that had no object."""

    MARKED = "marked"
    """The bucket keeps versions: a delete marker was added, and no byte was freed."""

    QUARANTINED = "quarantined"
    """It is gone, a verified copy lies in quarantine, and no byte was freed."""

    PURGED = "purged"
    """Every version is gone."""

    ALREADY_GONE = "already gone"
    """There was no such object any more."""

    CHANGED = "changed"
    """Another object has this key by now, so it was kept."""

    UNDECIDED = "undecided"
    """Nobody can tell whether it is the object that was seen, so it was kept."""

    UNSEEN = "cannot be looked at"
    """The object may not or cannot be looked at, so it was kept."""

    LOCKED = "locked"
    """A lock or a legal hold keeps it."""

    KEPT = "kept"
    """The gate did not let it go."""

    FAILED = "failed"
    """Storage refused, or did not say: it is, or may be, still there."""

    UNANSWERED = "unanswered"
    """It was not asked for, or the answer never came: it may be gone."""


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
class ItemOutcome(Generic[Key]):
    """What became of one item.

    Attributes:
        key: Exact.
        fate: What became of it.
        reason: Without secrets; empty where the fate says it all.
        freed: Bytes that are gone, older versions included; also of a key that could not go whole.
        versions: How many were purged, delete markers included.
        lock: What keeps a locked one.
        unsettled: True when it is still there after a request that the server may yet carry out:
            whoever refers to it may lose it.
        version: Of an undecided one, the identifier of the version that is there; None without any.
    """

    key: Key
    fate: Fate
    reason: str = ""
    freed: int = 0
    versions: int = 0
    lock: Locked | None = None
    unsettled: bool = False
    version: str | None = None


@dataclass(frozen=True)
class Outcomes(Generic[Key]):
    """The outcomes of some items, each item once."""

    items: tuple[ItemOutcome[Key], ...] = ()

    def __iter__(self) -> Iterator[ItemOutcome[Key]]:
        """One after the other."""
        return iter(self.items)

    def as_text(self: Outcomes[bytes]) -> Outcomes[str]:
        """The same, of keys that are UTF-8."""
        return Outcomes(
            tuple(
                ItemOutcome(
                    it.key.decode(),
                    it.fate,
                    it.reason,
                    freed=it.freed,
                    versions=it.versions,
                    lock=it.lock,
                    unsettled=it.unsettled,
                )
                for it in self.items
            )
        )

    def of(self, *fates: Fate) -> tuple[Key, ...]:
        """The keys of those with one of the fates."""
        return tuple(it.key for it in self.items if it.fate in fates)

    def why(self, *fates: Fate) -> dict[Key, str]:
        """Key to reason, for those with one of the fates."""
        return {it.key: it.reason for it in self.items if it.fate in fates}

    @property
    def deleted(self) -> tuple[Key, ...]:
        """Gone, with their bytes."""
        return self.of(Fate.DELETED)

    @property
    def marked(self) -> tuple[Key, ...]:
        """Behind a delete marker."""
        return self.of(Fate.MARKED)

    @property
    def quarantined(self) -> tuple[Key, ...]:
        """Gone, with a copy in quarantine."""
        return self.of(Fate.QUARANTINED)

    @property
    def purged(self) -> dict[Key, int]:
        """Gone with all their versions: key to how many there were."""
        return {it.key: it.versions for it in self.items if it.fate is Fate.PURGED}

    @property
    def already_gone(self) -> tuple[Key, ...]:
        """Not there any more."""
        return self.of(Fate.ALREADY_GONE)

    @property
    def changed(self) -> dict[Key, str]:
        """Key to what differs."""
        return self.why(Fate.CHANGED)

    @property
    def undecided(self) -> dict[Key, str]:
        """Key to why nobody can tell whether it is the object that was seen."""
        return self.why(Fate.UNDECIDED)

    @property
    def unseen(self) -> dict[Key, str]:
        """Key to why it cannot be looked at."""
        return self.why(Fate.UNSEEN)

    @property
    def locked(self) -> dict[Key, Locked]:
        """Key to what keeps it."""
        return {it.key: it.lock for it in self.items if it.lock and it.fate is Fate.LOCKED}

    @property
    def failed(self) -> dict[Key, str]:
        """Key to reason, for what storage refused."""
        return self.why(Fate.FAILED)

    @property
    def kept(self) -> dict[Key, str]:
        """Key to reason, for what the gate did not let go."""
        return self.why(Fate.KEPT)

    def removed(self) -> tuple[Key, ...]:
        """What a listing does not show any more because of this."""
        return self.of(Fate.DELETED, Fate.MARKED, Fate.QUARANTINED, Fate.PURGED)

    @property
    def let_go(self) -> bool:
        """True when storage let anything go; nothing else shows that deleting works at all."""
        return bool(self.removed() or self.already_gone)

    @property
    def unanswered(self) -> tuple[Key, ...]:
        """What was not asked for, or whose answer never came."""
        return self.of(Fate.UNANSWERED)

    def answered(self) -> tuple[Key, ...]:
        """All keys whose fate is known."""
        return tuple(it.key for it in self.items if it.fate is not Fate.UNANSWERED)

    @property
    def unsettled(self) -> frozenset[Key]:
        """Still there, and may yet go."""
        return frozenset(it.key for it in self.items if it.unsettled)

    @property
    def freed(self) -> int:
        """Bytes that are gone."""
        return sum(it.freed for it in self.items)


StopKind = Literal["storage", "proof", "references", "verification"]

WHY_STOPPED: dict[StopKind, str] = {
    "storage": "storage rejected a batch",
    "proof": "it could not be proven that the run may still delete",
    "references": "a source of references could not be read",
}
"""What a run's record says of its end, by the kind of a `DeletionStopped`; a job that is told of
verification has a word of its own for it."""


class DeletionStopped(Exception):
    """A deletion ended before every key was answered; what it had done is not lost.

    Attributes:
        kind: Which of the kinds below it is.
        reason: One sentence without secrets.
        so_far: What became of each key, `unanswered` for those of which nothing is known.
    """

    kind: ClassVar[StopKind]

    def __init__(self, reason: str, so_far: Outcomes[Any] | None = None) -> None:
        """Say why it stopped and how far it had come."""
        super().__init__(reason)
        self.reason = reason
        self.so_far: Outcomes[Any] = so_far or Outcomes()

    @property
    def unanswered(self) -> Sequence[Any]:
        """Keys that were not asked for, or whose answer never came. Each may be gone."""
        return self.so_far.unanswered


class StorageRejected(DeletionStopped):
    """Storage refused a whole request: the next one would fare no better, so stop claiming."""

    kind = "storage"


class ProofRefused(DeletionStopped):
    """What must be proven right before bytes go could not be proven; `__cause__` says why."""

    kind = "proof"


class AdmissionFailed(DeletionStopped):
    """Whether further keys are referenced could not be established; `__cause__` says why."""

    kind = "references"


class Disproven(DeletionStopped):
    """What had been reported as gone was still there: the server cannot be believed."""

    kind = "verification"
