"""Objects as a listing describes them, in columns: a tuple for each costs more than parsing it."""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

UNKNOWN_TIME = -1
"""Milliseconds where the server told no time that can be read: such an object's age is unknown."""

Packed: TypeAlias = tuple[list[bytes], bytes, bytes, list[bytes]]
Row: TypeAlias = tuple[bytes, int, int, bytes]
"""Key, size, modified, etag."""

ROWS_AT_ONCE = 1000


@dataclass(frozen=True)
class Page:
    """A thousand objects or fewer, in four lists of the same length.

    Attributes:
        keys: Exact keys.
        sizes: In bytes.
        modified: Milliseconds since 1970, cut, not rounded; -1 when unknown.
        etags: As given, without quotes; empty when the server sent none.
    """

    keys: list[bytes]
    sizes: list[int]
    modified: list[int]
    etags: list[bytes]

    def __len__(self) -> int:
        """How many objects it has."""
        return len(self.keys)

    def first(self, count: int) -> Page:
        """The part in front."""
        return Page(
            self.keys[:count], self.sizes[:count], self.modified[:count], self.etags[:count]
        )

    def rows(self) -> Iterable[Row]:
        """The objects one by one."""
        return zip(self.keys, self.sizes, self.modified, self.etags, strict=True)

    def packed(self) -> Packed:
        """The form for a spool: numbers as machine words, which are written and read at once."""
        return (
            self.keys,
            array("q", self.sizes).tobytes(),
            array("q", self.modified).tobytes(),
            self.etags,
        )

    @classmethod
    def unpacked(cls, packed: Packed) -> Page:
        """The reverse of `packed`."""
        keys, sizes, modified, etags = packed
        return cls(keys, array("q", sizes).tolist(), array("q", modified).tolist(), etags)

    @classmethod
    def of_rows(cls, rows: list[Row]) -> Page:
        """The reverse of `rows`; not of none."""
        keys, sizes, modified, etags = (list(column) for column in zip(*rows, strict=True))
        return cls(keys, sizes, modified, etags)


def pages_of(blocks: Iterator[list[Row]]) -> Iterator[Page]:
    """Sorted rows as pages of the usual size."""
    held: list[Row] = []
    for row in chain.from_iterable(blocks):
        held.append(row)
        if len(held) == ROWS_AT_ONCE:
            yield Page.of_rows(held)
            held = []
    if held:
        yield Page.of_rows(held)
