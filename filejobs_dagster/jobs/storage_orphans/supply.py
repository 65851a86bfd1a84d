"""Which orphans are next, oldest first: all that are due, or those that a reviewed list names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from filejobs_dagster.jobs.storage_orphans.marks import Marks
    from filejobs_dagster.jobs.storage_orphans.review import ReviewedList


class Supply(Protocol):
    """Keys to delete, in portions."""

    def take(self, most: int) -> list[bytes]:
        """The next keys, at most so many; empty when there are no more."""
        ...


class AllThatIsDue:
    """Every confirmed orphan of this pass."""

    def __init__(self, marks: Marks, confirmed_before: datetime) -> None:
        """Begin with the oldest."""
        self._marks = marks
        self._confirmed_before = confirmed_before
        self._after: tuple[datetime, bytes] | None = None

    def take(self, most: int) -> list[bytes]:
        """The next keys; those that somebody refers to at the moment are not asked for again."""
        found = self._marks.next_keys(self._after, self._confirmed_before, most)
        if found:
            self._after = found[-1]
        return [key for _, key in found]


class ReviewedOnly:
    """The confirmed orphans of this pass that a reviewed list agrees to."""

    def __init__(self, marks: Marks, confirmed_before: datetime, reviewed: ReviewedList) -> None:
        """Begin with the oldest."""
        self._marks = marks
        self._confirmed_before = confirmed_before
        self._blocks: Iterator[list[bytes]] = reviewed.keys_by_age()
        self._held: list[bytes] = []

    def take(self, most: int) -> list[bytes]:
        """The next keys."""
        while len(self._held) < most:
            block = next(self._blocks, None)
            if block is None:
                break
            for start in range(0, len(block), 1000):
                self._held += self._marks.due_among(
                    block[start : start + 1000], self._confirmed_before
                )
        taken, self._held = self._held[:most], self._held[most:]
        return taken
