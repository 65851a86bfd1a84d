"""The first join: which listed objects are named exactly, and which named keys have no object."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from filejobs_dagster.jobs.storage_orphans.classification.records import (
    Columns,
    Key,
    ListedPage,
    Shelf,
    selected,
)
from filejobs_dagster.jobs.storage_orphans.classification.sketch import Sketch
from filejobs_dagster.ledger.sanitize import display_key
from filejobs_dagster.streams import Cursor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from filejobs_dagster.jobs.storage_orphans.classification.breakdown import Breakdown
    from filejobs_dagster.jobs.storage_orphans.classification.rules import Rules
    from filejobs_dagster.streams import Block

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
