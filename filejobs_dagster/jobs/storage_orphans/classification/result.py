"""What became of a bucket's objects, and what the sanity rules and the report ask about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from filejobs_dagster.jobs.storage_orphans.classification.records import Kept, Orphan
from filejobs_dagster.jobs.storage_orphans.classification.words import AMBIGUOUS, REFERENCED
from filejobs_dagster.references.suggestion import NearMatch, suggestion_for

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from filejobs_dagster.jobs.storage_orphans.classification.breakdown import (
        Breakdown,
        ClassTotals,
    )
    from filejobs_dagster.jobs.storage_orphans.classification.records import Key, Shelf
    from filejobs_dagster.streams import Spool


@dataclass(frozen=True)
class Classification:
    """Every listed object in exactly one class.

    Attributes:
        objects: Objects listed.
        bytes: Their bytes.
        breakdowns: Everything about each class, by its name, in order of precedence.
        references: Distinct keys that sources name, in whatever prefix.
        missing: Those in owned prefixes that have no object and should have one.
        awaited: Those in owned prefixes that have no object, because they are owners, or because
            the upload of a reservation in the project's own table has not come.
        newest_reference: When the newest object that a source names was modified, in milliseconds
            since 1970; 0 without one.
        newer: Orphans and young objects that are newer than that, by more than what makes an
            object young.
        missing_samples: A few missing ones.
        missing_keys: The first missing ones in byte order, up to a bound.
        ambiguous_samples: A few ambiguous objects with the rows that may mean them.
        unmatched: Pairs of an object that no source names and a key that no object has, with the
            same file name: what a missing transform looks like.
    """

    objects: int
    bytes: int
    breakdowns: Mapping[str, Breakdown]
    references: int
    missing: int
    awaited: int
    newest_reference: int
    newer: int
    missing_samples: Sequence[Key]
    missing_keys: Sequence[Key]
    unmatched: Sequence[NearMatch]
    _orphans: Shelf
    _kept: Spool

    @property
    def classes(self) -> dict[str, ClassTotals]:
        """Count and bytes of each class, in order of precedence; those without objects too."""
        return {name: breakdown.totals for name, breakdown in self.breakdowns.items()}

    @property
    def ambiguous_samples(self) -> list[NearMatch]:
        """A few ambiguous objects with the rows that may mean them."""
        samples = self.breakdowns[AMBIGUOUS].samples
        return [NearMatch(sample.key, sample.because) for sample in samples]

    @property
    def matched(self) -> int:
        """Objects that a source names exactly: as many references have an object."""
        return self.breakdowns[REFERENCED].count

    @property
    def owned_references(self) -> int:
        """References in owned prefixes whose object should be there."""
        return self.matched + self.missing

    def orphans(self) -> Iterator[list[Orphan]]:
        """All orphans in byte order of their keys, in blocks, from disk; again at each call."""
        for columns in self._orphans.rows():
            yield list(map(Orphan, *columns))

    def kept(self) -> Iterator[list[Kept]]:
        """All objects that a person should look at, and that are kept, from disk.

        Those of one kind come in byte order of their keys.
        """
        for block in self._kept.blocks():
            yield [Kept(*row) for row in block]


def suggest_transform(classification: Classification) -> str | None:
    """Return, in words, what would make most of the near matches exact; None without a clue.

    It looks at the samples of ambiguous objects and, for what no near match finds, at objects and
    rows without a partner that have the same file name.
    """
    return suggestion_for([*classification.ambiguous_samples, *classification.unmatched])
