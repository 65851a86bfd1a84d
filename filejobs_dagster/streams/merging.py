"""Merges sorted streams block by block: Python decides once a block, and C does the rest.

Everything up to the smallest of the blocks' last keys is complete in all streams. Those pieces
are put end to end and sorted, and the sort, which finds the ascending runs, does nothing but merge
them. `heapq.merge` decides once an item, and is ten times as slow.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from filejobs_dagster.streams.blocks import Item, key_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


def merge(streams: Sequence[Iterator[list[Item]]]) -> Iterator[list[Item]]:
    """Merge streams of sorted blocks into one.

    Args:
        streams: Each in order from block to block (not proven here: see `in_order`), all of one
            kind: keys, or tuples whose first element is the key. Blocks may be empty.

    Yields:
        Sorted blocks that are not empty. Equal keys all stay; see `without_repeats`.
    """
    heads = [head for stream in streams if (head := _Head(stream)).advance()]
    if not heads:
        return
    key = key_of(heads[0].block[0])
    while len(heads) > 1:
        boundary = min(head.last(key) for head in heads)
        pieces = [piece for head in heads if (piece := head.take_through(boundary, key))]
        if len(pieces) == 1:
            merged = pieces[0]
        else:
            merged = [item for piece in pieces for item in piece]
            merged.sort(key=key)
        yield merged
        heads = [head for head in heads if head.block or head.advance()]
    for head in heads:
        yield head.block
        while head.advance():
            yield head.block


def without_repeats(blocks: Iterator[list[Item]]) -> Iterator[list[Item]]:
    """Keep one item of each key in a sorted stream."""
    last: bytes | None = None
    for block in blocks:
        key = key_of(block[0]) if block else None
        # Dictionaries keep the order, and decide at C speed.
        if key is None:
            unique: list[Any] = list(dict.fromkeys(block))
        else:
            unique = list(
                dict(zip(map(key, reversed(block)), reversed(block), strict=True)).values()
            )
            unique.reverse()
        if unique and last is not None and _key(unique[0], key) == last:
            del unique[0]
        if unique:
            last = _key(unique[-1], key)
            yield unique


class _Head:
    """A stream's current block, as far as it was not taken yet."""

    def __init__(self, stream: Iterator[list[Any]]) -> None:
        self._stream = stream
        self.block: list[Any] = []

    def advance(self) -> bool:
        """Go to the next block that holds something; False at the end."""
        for block in self._stream:
            if block:
                self.block = block
                return True
        self.block = []
        return False

    def last(self, key: Callable[[Any], bytes] | None) -> bytes:
        return _key(self.block[-1], key)

    def take_through(self, boundary: bytes, key: Callable[[Any], bytes] | None) -> list[Any]:
        if _key(self.block[0], key) > boundary:
            return []
        if self.last(key) <= boundary:
            taken, self.block = self.block, []
            return taken
        end = bisect_right(self.block, boundary, key=key)
        taken = self.block[:end]
        del self.block[:end]
        return taken


def _key(item: Any, key: Callable[[Any], bytes] | None) -> bytes:
    found: bytes = item if key is None else key(item)
    return found
