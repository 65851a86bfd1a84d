"""What became of each key that was to be deleted."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class Deletion:
    """The fate of each key; every key stands in exactly one group.

    Attributes:
        deleted: The object is gone. S3 also says this of a key that had no object.
        marked: The bucket keeps versions: a delete marker was added, and no byte was freed.
        already_gone: The server said that there was no such object.
        failed: The object is, or may be, still there: key to reason, without secrets.
        freed: Bytes that went with a key whose versions were removed one by one.
    """

    deleted: tuple[str, ...] = ()
    marked: tuple[str, ...] = ()
    already_gone: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    freed: Mapping[str, int] = field(default_factory=dict)

    def answered(self) -> tuple[str, ...]:
        """All keys whose fate is known."""
        return (*self.deleted, *self.marked, *self.already_gone, *self.failed)


class DeletionStopped(Exception):
    """A deletion ended before every key was answered; what it had done is not lost.

    Attributes:
        reason: One sentence without secrets.
        deleted_so_far: The fate of the keys that were answered.
        unanswered: Keys that were not asked for, or whose answer never came. Each may be gone.
        kept: Key to reason, for keys that the gate did not admit.
    """

    def __init__(
        self,
        reason: str,
        *,
        deleted_so_far: Deletion | None = None,
        unanswered: Sequence[str] = (),
        kept: Mapping[str, str] | None = None,
    ) -> None:
        """Say why it stopped and how far it had come."""
        super().__init__(reason)
        self.reason = reason
        self.deleted_so_far = deleted_so_far or Deletion()
        self.unanswered = tuple(unanswered)
        self.kept: Mapping[str, str] = dict(kept or {})


class StorageRejected(DeletionStopped):
    """Storage refused a whole request: the next one would fare no better, so stop claiming."""


class ProofRefused(DeletionStopped):
    """What must be proven right before bytes go could not be proven; `__cause__` says why."""


class AdmissionFailed(DeletionStopped):
    """Whether further keys are referenced could not be established; `__cause__` says why."""
