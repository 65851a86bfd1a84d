"""Sorts more than memory holds: sorted runs on disk, then one merge over them.

A `Cursor` walks along a sorted stream by the keys of another one; `in_order` proves the order of a
stream while it passes.
"""

from __future__ import annotations

import operator
from bisect import bisect_right
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic

from filejobs_dagster.streams.scratch import Item, cut, key_of, weight
from filejobs_dagster.text import display_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from filejobs_dagster.streams.scratch import Scratch, Spool

# Merges sorted streams block by block: Python decides once a block, and C does the rest.
#
# Everything up to the smallest of the blocks' last keys is complete in all streams. Those pieces
# are put end to end and sorted, and the sort, which finds the ascending runs, does nothing but
# merge them. `heapq.merge` decides once an item, and is ten times as slow.


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


MEMORY = 32 * 1024 * 1024
MOST_RUNS = 64
"""Merged at once; more of them are merged in rounds, so that memory does not grow with the sort."""

AT_ONCE = 10_000


class Sorter(Generic[Item]):
    """An external sort of keys, or of tuples by their first element; single use, one thread.

    Attributes:
        count: Items added so far.
    """

    def __init__(self, scratch: Scratch, name: str, *, memory: int = MEMORY) -> None:
        """Begin empty.

        Args:
            scratch: Where the runs go.
            name: What is sorted, for the names of the files.
            memory: About how many bytes are held before a run is written. The merge at the end
                takes about as much again.
        """
        self._scratch = scratch
        self._name = name
        self._memory = memory
        self._items: list[Item] = []
        self._held = 0
        self._runs: list[Spool] = []
        self.count = 0

    def add(self, items: Iterable[Item]) -> None:
        """Add items in any order.

        Raises:
            NotEnoughRoom: The disk is full.
        """
        left = iter(items)
        while chunk := list(islice(left, AT_ONCE)):
            self._items += chunk
            self._held += weight(chunk)
            self.count += len(chunk)
            if self._held >= self._memory:
                self._write_run()

    def sorted_blocks(self, unique: bool = False) -> Iterator[list[Item]]:  # noqa: FBT001, FBT002
        """Everything that was added, in order; call it once, after the last `add`.

        Args:
            unique: Whether to keep only one item of each key.

        Raises:
            NotEnoughRoom: The disk is full.
            SpoolDamaged: A run is not what was written.
        """
        merged = self._merged()
        return without_repeats(merged) if unique else merged

    def _merged(self) -> Iterator[list[Item]]:
        if not self._runs:
            self._sort_held()
            yield from cut(self._items)
            return
        if self._items:
            self._write_run()
        while len(self._runs) > MOST_RUNS:
            self._merge_some()
        yield from merge([run.blocks() for run in self._runs])
        for run in self._runs:
            run.remove()

    def _write_run(self) -> None:
        self._sort_held()
        run = self._scratch.spool(f"{self._name}-run")
        for block in cut(self._items):
            run.append(block)
        run.finish()
        self._runs.append(run)
        self._items = []
        self._held = 0

    def _sort_held(self) -> None:
        if self._items:
            key: Any = key_of(self._items[0])
            self._items.sort(key=key)

    def _merge_some(self) -> None:
        """Make one run of the oldest ones."""
        oldest, self._runs = self._runs[:MOST_RUNS], self._runs[MOST_RUNS:]
        run = self._scratch.spool(f"{self._name}-merged")
        for merged in merge([it.blocks() for it in oldest]):
            for block in cut(merged):
                run.append(block)
        run.finish()
        for it in oldest:
            it.remove()
        self._runs.append(run)


# Walks along a sorted stream, key by key of another one: one side of a merge join.


class Cursor(Generic[Item]):
    """A place in a stream of sorted blocks, which only moves forward."""

    def __init__(self, blocks: Iterator[list[Item]]) -> None:
        """Begin in front of the first item; nothing is read yet.

        Args:
            blocks: In order, of keys or of tuples whose first element is the key.
        """
        self._blocks = blocks
        self._block: list[Any] = []
        self._at = 0

    def take_through(self, key: bytes) -> list[Item]:
        """Everything up to and with this key that was not taken yet, as one list.

        As long as the stream's part below the key: take pieces (`blocks_through`) where that may
        be much.
        """
        pieces = list(self.blocks_through(key))
        if len(pieces) == 1:
            return pieces[0]
        return [item for piece in pieces for item in piece]

    def blocks_through(self, key: bytes) -> Iterator[list[Item]]:
        """Everything up to and with this key that was not taken yet, block by block.

        What the caller does not ask for stays where it is, for the next call.
        """
        while self._has_more():
            by = key_of(self._block[0])
            end = bisect_right(self._block, key, lo=self._at, key=by)
            taken = self._block[self._at : end]
            self._at = end
            if taken:
                yield taken
            if end < len(self._block):
                return

    def rest(self) -> Iterator[list[Item]]:
        """Everything that was not taken yet, block by block."""
        while self._has_more():
            taken = self._block[self._at :] if self._at else self._block
            self._at = len(self._block)
            yield taken

    def _has_more(self) -> bool:
        while self._at >= len(self._block):
            block = next(self._blocks, None)
            if block is None:
                return False
            self._block, self._at = block, 0
        return True


# Proves the order of a stream while it passes.


class OutOfOrder(Exception):
    """A stream that was said to be sorted is not; the message has the two keys."""


def in_order(blocks: Iterable[list[Item]], *, strictly: bool = False) -> Iterator[list[Item]]:
    """Pass the blocks on, each after it was proven to follow those before it.

    Args:
        blocks: Of keys, or of tuples whose first element is the key. Empty ones are left out.
        strictly: Whether a key that comes twice is an error, too.

    Raises:
        OutOfOrder: A key is smaller than the one before it, or the same with `strictly`.
    """
    may_follow = operator.lt if strictly else operator.le
    last: bytes | None = None
    for block in blocks:
        if not block:
            continue
        keys = _keys(block)
        found = first_disorder(keys, strictly=strictly)
        if found:
            raise _out_of_order(*found)
        if last is not None and not may_follow(last, keys[0]):
            raise _out_of_order(last, keys[0])
        last = keys[-1]
        yield block


def first_disorder(keys: Sequence[bytes], *, strictly: bool = False) -> tuple[bytes, bytes] | None:
    """The first two neighbours that do not stand in byte order, None when all do."""
    may_follow = operator.lt if strictly else operator.le
    if all(map(may_follow, keys, islice(keys, 1, None))):
        return None
    pairs = zip(keys, islice(keys, 1, None), strict=False)
    return next((left, right) for left, right in pairs if not may_follow(left, right))


def _keys(block: Sequence[Any]) -> Sequence[bytes]:
    key = key_of(block[0])
    return block if key is None else list(map(key, block))


def _out_of_order(left: bytes, right: bytes) -> OutOfOrder:
    shown = [display_key(key.decode("utf-8", "backslashreplace")) for key in (left, right)]
    return OutOfOrder(
        f"A stream that should be in the order of its bytes has {shown[1]!r} after {shown[0]!r}. "
        "Nothing may be concluded from it: sort it on disk first (`Sorter`)."
    )
