"""The first join: which listed objects are named exactly, and which named keys have no object.

`Sketch` samples keys of the same file names on both sides, from which a missing transform is
guessed; `Classification` is what became of the bucket's objects.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING
from zlib import crc32

from filejobs_dagster.jobs.storage_orphans.classification.records import (
    AMBIGUOUS,
    REFERENCED,
    Columns,
    Kept,
    Key,
    ListedPage,
    Orphan,
    Shelf,
    selected,
)
from filejobs_dagster.references.near import NearMatch, suggestion_for
from filejobs_dagster.streams import Cursor
from filejobs_dagster.text import display_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from filejobs_dagster.jobs.storage_orphans.classification.breakdown import (
        Breakdown,
        ClassTotals,
    )
    from filejobs_dagster.jobs.storage_orphans.classification.records import Rules
    from filejobs_dagster.streams import Block, Spool

# A small sample of keys that meets another such sample: of the same file names, not at random.

KEPT = 256


class Sketch:
    """The keys whose file names have the smallest checksums.

    Two sides that write the same names into different keys keep the same names, however many
    millions there are; two random samples would hardly ever meet.
    """

    def __init__(self) -> None:
        """Begin empty."""
        self._kept: dict[int, bytes] = {}
        self._below = 1 << 32

    def add(self, keys: Iterable[bytes]) -> None:
        """Take those that belong to the sample."""
        kept, below = self._kept, self._below
        for key in keys:
            checksum = crc32(stem(key))
            if checksum < below:
                kept[checksum] = key
                if len(kept) >= 2 * KEPT:
                    below = self._cut()
                    kept = self._kept

    def meet(self, other: Sketch) -> list[tuple[bytes, bytes]]:
        """Return pairs of keys, of this sample and of the other, that have the same file name."""
        return [
            (key, other._kept[checksum])
            for checksum, key in sorted(self._kept.items())
            if checksum in other._kept
        ]

    def __len__(self) -> int:
        """How many keys it holds."""
        return len(self._kept)

    def _cut(self) -> int:
        smallest = sorted(self._kept)[:KEPT]
        self._kept = {checksum: self._kept[checksum] for checksum in smallest}
        self._below = smallest[-1]
        return self._below


def stem(key: bytes) -> bytes:
    """Return what a file name begins with, up to its first dot, in lower case."""
    name = key.partition(b"?")[0].rpartition(b"/")[2]
    return name.partition(b"#")[0].partition(b".")[0].lower()


MOST_MISSING_SAMPLES = 20
MOST_MISSING_KEYS = 10_000
"""So many go into the list for review; whoever has more looks for their common cause first."""


class ListingContradicts(Exception):
    """A listing is not in order or names keys that were not asked for: nothing may be concluded."""


@dataclass
class Joined:
    """What the first join found.

    Attributes:
        may_lack: Keys in order whose object need not be there yet.
        objects: Objects listed.
        bytes: Their bytes.
        referenced: Those that a source names.
        references: All distinct keys that sources name.
        missing: Those of them in owned prefixes that have no object and should have one.
        awaited: Those of them in owned prefixes whose upload may still come, and owners.
        missing_samples: A few of these, evenly spread.
        missing_keys: The first of these, in byte order, up to a bound.
        unmatched_rows: Keys that were named and not listed, wherever they lie: for suggestions.
        unmatched_objects: Objects that were listed and not named, likewise.
    """

    referenced: Breakdown
    unreferenced: Shelf
    may_lack: Cursor[bytes] = field(default_factory=lambda: Cursor(iter(())))
    objects: int = 0
    bytes: int = 0
    references: int = 0
    missing: int = 0
    awaited: int = 0
    missing_samples: list[Key] = field(default_factory=list)
    missing_keys: list[Key] = field(default_factory=list)
    unmatched_rows: Sketch = field(default_factory=Sketch)
    unmatched_objects: Sketch = field(default_factory=Sketch)
    _every: int = 1

    def lacks(self, rules: Rules, rows: list[Key]) -> None:
        """Take note of keys that were named and not listed; they come in order, once."""
        self.unmatched_rows.add(rows)
        named = [row for row in rows if row.startswith(rules.owned)]
        owned = self._without_awaited(named)
        self.awaited += len(named) - len(owned)
        for at in range(-self.missing % self._every, len(owned), self._every):
            if (self.missing + at) % self._every == 0:
                self.missing_samples.append(owned[at])
            if len(self.missing_samples) > MOST_MISSING_SAMPLES:
                self.missing_samples = self.missing_samples[::2]
                self._every *= 2
        self.missing_keys += owned[: MOST_MISSING_KEYS - len(self.missing_keys)]
        self.missing += len(owned)

    def _without_awaited(self, keys: list[Key]) -> list[Key]:
        if not keys:
            return keys
        # Piece by piece: those that do have an object were never asked for, and may be many.
        for piece in self.may_lack.blocks_through(keys[-1]):
            may_lack = frozenset(piece)
            keys = [key for key in keys if key not in may_lack]
        return keys


def join(
    pages: Iterator[ListedPage],
    references: Iterator[Block],
    rules: Rules,
    joined: Joined,
    on_page: Callable[[], None],
) -> None:
    """Join a listing with the references, both in byte order, and fill `joined`.

    Raises:
        ListingContradicts: The listing is not strictly in order, or has a key that is not owned.
    """
    cursor: Cursor[bytes] = Cursor(references)
    last: bytes | None = None
    for page in pages:
        if not page.keys:
            continue
        _believable(page.keys, last, rules)
        last = page.keys[-1]
        found = _found(page.keys, cursor, joined, rules)
        _sort_out((page.keys, page.sizes, page.modified, page.etags), found, joined)
        on_page()
    for rest in cursor.rest():
        joined.references += len(rest)
        joined.lacks(rules, rest)


def _found(
    keys: list[bytes], cursor: Cursor[bytes], joined: Joined, rules: Rules
) -> frozenset[bytes] | set[bytes]:
    listed = frozenset(keys)
    found: set[bytes] = set()
    for piece in cursor.blocks_through(keys[-1]):
        joined.references += len(piece)
        here = listed.intersection(piece)
        if len(here) < len(piece):
            joined.lacks(rules, [row for row in piece if row not in here])
        found |= here
    return found


def _sort_out(columns: Columns, found: frozenset[bytes] | set[bytes], joined: Joined) -> None:
    keys, sizes, _, _ = columns
    joined.objects += len(keys)
    joined.bytes += sum(sizes)
    if len(found) == len(keys):
        joined.referenced.add(columns)
        return
    if found:
        is_found = [key in found for key in keys]
        joined.referenced.add(selected(columns, is_found))
        columns = selected(columns, list(map(operator.not_, is_found)))
    joined.unmatched_objects.add(columns[0])
    joined.unreferenced.put(columns)


def _believable(keys: list[bytes], last: bytes | None, rules: Rules) -> None:
    """An object that the join meets at the wrong place would look unreferenced."""
    if not all(map(operator.lt, keys, islice(keys, 1, None))) or (
        last is not None and keys[0] <= last
    ):
        raise ListingContradicts(
            f"The listing is not in byte order near {_shown(keys[0])}, so objects and references "
            "would pass each other. Nothing is concluded from it."
        )
    first_and_last = (keys[0], keys[-1])
    if any(all(key.startswith(prefix) for key in first_and_last) for prefix in rules.owned):
        return
    for key in keys:
        if not rules.owns(key):
            raise ListingContradicts(
                f"The listing has {_shown(key)}, which lies in no owned prefix and was not asked "
                "for. Nothing is concluded from it; see which server answers at this address."
            )


def _shown(key: bytes) -> str:
    return repr(display_key(key.decode("utf-8", "backslashreplace")))


# What became of a bucket's objects, and what the sanity rules and the report ask about it.


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
