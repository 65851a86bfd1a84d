"""Prefixes of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

MARKERS = "filejobs-adopted"
"""What the keys of all markers begin with, of every installation and whatever it configures: one
listing finds them all. Nothing that begins so is ever deleted, in any job."""

QUARANTINE = "filejobs-quarantine/"
"""Below it lie the copies of objects that went and can be brought back, of every installation and
whatever it owns: the original's key follows. No sweep sees them as objects of its own."""

OF_THE_HOUSE = (MARKERS, QUARANTINE)
"""What begins so is nobody's to collect."""


def apart(prefixes: Sequence[str]) -> list[str]:
    """The prefixes, each once, without those that lie inside another one."""
    kept: list[str] = []
    # In the order of their bytes, a prefix stands in front of everything that begins with it.
    for prefix in sorted(set(prefixes), key=str.encode):
        if not kept or not prefix.startswith(kept[-1]):
            kept.append(prefix)
    return kept


def overlap(one: str, other: str) -> bool:
    """Whether a key can lie in both prefixes; the empty one is the whole bucket."""
    return one.startswith(other) or other.startswith(one)
