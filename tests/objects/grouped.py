"""Outcomes by group, to compare with what the gate answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from filejobs_dagster.book.outcomes import Outcomes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from filejobs_dagster.book.outcomes import Locked


@dataclass(eq=False)
class Deletion:
    """What `Gate.delete` says, without what it kept and what was not answered."""

    deleted: tuple[str, ...] = ()
    marked: tuple[str, ...] = ()
    already_gone: tuple[str, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)

    def __eq__(self, other: object) -> bool:
        """Each group is the same, in its order, and there is no other group."""
        if not isinstance(other, Outcomes):
            return NotImplemented
        return (self.deleted, self.marked, self.already_gone, self.failed, {}, {}, {}) == (
            other.deleted,
            other.marked,
            other.already_gone,
            other.failed,
            other.changed,
            other.locked,
            other.purged,
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(eq=False)
class Removal:
    """What `Gate.remove` says, without what was not answered."""

    deleted: tuple[bytes, ...] = ()
    marked: tuple[bytes, ...] = ()
    purged: Mapping[bytes, int] = field(default_factory=dict)
    already_gone: tuple[bytes, ...] = ()
    changed: Mapping[bytes, str] = field(default_factory=dict)
    locked: Mapping[bytes, Locked] = field(default_factory=dict)
    failed: Mapping[bytes, str] = field(default_factory=dict)
    kept: Mapping[bytes, str] = field(default_factory=dict)
    freed: int = 0
    unsettled: frozenset[bytes] = frozenset()

    def __eq__(self, other: object) -> bool:
        """Each group is the same, in its order."""
        if not isinstance(other, Outcomes):
            return NotImplemented
        return all(mine == getattr(other, name) for name, mine in vars(self).items())

    __hash__ = None  # type: ignore[assignment]
