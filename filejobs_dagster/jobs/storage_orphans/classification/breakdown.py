"""What one class holds: by prefix, by age, the largest, the oldest, and a few of each kind."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from filejobs_dagster.jobs.storage_orphans.classification.records import Columns, Key

DAY = 24 * 60 * 60 * 1000
"""In milliseconds."""

AGES = (1, 7, 30, 90, 365)
"""Where one bucket of ages ends and the next one begins, in days."""

AGE_NAMES = (
    "under 1 day",
    "1 to 7 days",
    "7 to 30 days",
    "30 to 90 days",
    "90 to 365 days",
    "a year and more",
    "unknown",
)
_UNKNOWN = len(AGE_NAMES) - 1

MOST_PREFIXES = 200
"""Prefixes that are counted apart; the smallest of any more are counted together."""

SHOWN = 20
"""So many of the largest, of the oldest, and of the samples."""


@dataclass(frozen=True)
class ClassTotals:
    """How many objects, and their bytes."""

    count: int
    bytes: int


class Shown(NamedTuple):
    """One object for people to look at.

    Attributes:
        key: Its exact key.
        size: In bytes.
        modified: Milliseconds since 1970; -1 when unknown.
        because: What decided about it: the row's form, the owner's key, the entry of `protect`, a
            reason in words; empty where the class says everything.
    """

    key: bytes
    size: int
    modified: int
    because: bytes = b""


@dataclass
class Breakdown:
    """Everything that a report says about one class.

    Objects come in byte order of their keys.

    Attributes:
        now: The moment from which ages are counted, in milliseconds since 1970.
        count: Objects.
        bytes: Their bytes.
        newest: When the newest was modified, in milliseconds since 1970; 0 when none is known.
        largest: The largest first.
        oldest: The oldest first; without those of unknown age.
    """

    now: int
    count: int = 0
    bytes: int = 0
    newest: int = 0
    largest: list[Shown] = field(default_factory=list)
    oldest: list[Shown] = field(default_factory=list)
    _ages: list[list[int]] = field(default_factory=lambda: [[0, 0] for _ in AGE_NAMES])
    _prefixes: dict[Key, list[int]] = field(default_factory=dict)
    _samples: list[Shown] = field(default_factory=list)
    _sample_every: int = 1

    def add(self, columns: Columns, because: Sequence[Key] | None = None) -> None:
        """Count some objects.

        Args:
            columns: Which.
            because: What decided about each, for samples.
        """
        keys, sizes, modified, _ = columns
        if not keys:
            return
        total = sum(sizes)
        self._add_samples(columns, because)
        self.count += len(keys)
        self.bytes += total
        self.newest = max(self.newest, *modified)
        self._add_prefixes(keys, sizes, total)
        self._add_ages(sizes, modified, total)
        self._add_extremes(keys, sizes, modified)

    @property
    def totals(self) -> ClassTotals:
        """Count and bytes."""
        return ClassTotals(self.count, self.bytes)

    @property
    def samples(self) -> list[Shown]:
        """A few objects, evenly spread over the class."""
        return self._samples

    @property
    def by_age(self) -> dict[str, ClassTotals]:
        """Totals by the names of ages, those without objects too."""
        return {
            name: ClassTotals(*totals) for name, totals in zip(AGE_NAMES, self._ages, strict=True)
        }

    @property
    def by_prefix(self) -> dict[Key, ClassTotals]:
        """Totals by the first two levels of the key, the most bytes first."""
        ordered = sorted(self._prefixes.items(), key=lambda item: (-item[1][1], item[0]))
        return {prefix: ClassTotals(*totals) for prefix, totals in ordered[:MOST_PREFIXES]}

    @property
    def other_prefixes(self) -> ClassTotals:
        """Totals of all prefixes that `by_prefix` leaves out."""
        named = self.by_prefix.values()
        return ClassTotals(
            self.count - sum(totals.count for totals in named),
            self.bytes - sum(totals.bytes for totals in named),
        )

    def _add_samples(self, columns: Columns, because: Sequence[Key] | None) -> None:
        keys, sizes, modified, _ = columns
        for at in range(-self.count % self._sample_every, len(keys), self._sample_every):
            # Taking fewer from now on may leave this one out.
            if (self.count + at) % self._sample_every == 0:
                reason = because[at] if because else b""
                self._samples.append(Shown(keys[at], sizes[at], modified[at], reason))
            if len(self._samples) >= 2 * SHOWN:
                self._samples = self._samples[::2]
                self._sample_every *= 2

    def _add_prefixes(self, keys: list[Key], sizes: list[int], total: int) -> None:
        prefix = _common_prefix(keys)
        if prefix is not None:
            self._count_prefix(prefix, len(keys), total)
        else:
            for key, size in zip(keys, sizes, strict=True):
                self._count_prefix(prefix_of(key), 1, size)
        if len(self._prefixes) > 2 * MOST_PREFIXES:
            self._forget_small_prefixes(keys[-1])

    def _count_prefix(self, prefix: Key, count: int, size: int) -> None:
        totals = self._prefixes.get(prefix)
        if totals is None:
            self._prefixes[prefix] = [count, size]
        else:
            totals[0] += count
            totals[1] += size

    def _forget_small_prefixes(self, last: Key) -> None:
        """Keys come in order, so only a prefix of the last one can come again."""
        passed = [prefix for prefix in self._prefixes if not last.startswith(prefix)]
        passed.sort(key=lambda prefix: self._prefixes[prefix][1])
        for prefix in passed[:-MOST_PREFIXES]:
            del self._prefixes[prefix]

    def _add_ages(self, sizes: list[int], modified: list[int], total: int) -> None:
        youngest, oldest = self._age(max(modified)), self._age(min(modified))
        if youngest == oldest:
            self._count_age(oldest, len(sizes), total)
            return
        for moment, size in zip(modified, sizes, strict=True):
            self._count_age(self._age(moment), 1, size)

    def _age(self, moment: int) -> int:
        return _UNKNOWN if moment <= 0 else bisect_right(AGES, (self.now - moment) / DAY)

    def _count_age(self, age: int, count: int, size: int) -> None:
        self._ages[age][0] += count
        self._ages[age][1] += size

    def _add_extremes(self, keys: list[Key], sizes: list[int], modified: list[int]) -> None:
        full = len(self.largest) == SHOWN
        if not full or max(sizes) > self.largest[-1].size:
            here = map(Shown, keys, sizes, modified)
            self.largest = heapq.nlargest(
                SHOWN, chain(self.largest, here), key=lambda one: one.size
            )
        full = len(self.oldest) == SHOWN
        if not full or min(modified) < self.oldest[-1].modified:
            dated = (one for one in map(Shown, keys, sizes, modified) if one.modified > 0)
            self.oldest = heapq.nsmallest(
                SHOWN, chain(self.oldest, dated), key=lambda one: one.modified
            )


def prefix_of(key: bytes) -> bytes:
    """Return the first two levels of a key, each with its slash, or the one or none it has."""
    first = key.find(b"/") + 1
    second = key.find(b"/", first) + 1
    return key[: second or first]


def _common_prefix(keys: list[bytes]) -> bytes | None:
    """Return the one prefix of all keys, which are in order; None when they have several."""
    common = _beginning(keys[0], keys[-1])
    shared = common.count(b"/")
    both_levels = 2
    if shared >= both_levels:
        return prefix_of(common)
    # No key has another slash than the shared ones.
    if b"".join(keys).count(b"/") == shared * len(keys):
        return common[: common.rfind(b"/") + 1]
    return None


def _beginning(one: bytes, other: bytes) -> bytes:
    """What both begin with."""
    differ = (at for at, (left, right) in enumerate(zip(one, other, strict=False)) if left != right)
    return one[: next(differ, min(len(one), len(other)))]
