"""Merge joins over sorted streams: sets decide a block at a time, so that C does the comparing."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from filejobs_dagster.streams import Block, Cursor, first

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Pair: TypeAlias = tuple[bytes, bytes]
"""What is looked up, and what it is looked up for."""


def named(pairs: Iterable[list[Pair]], keys: Iterator[Block]) -> Iterator[list[Pair]]:
    """Yield those pairs whose first element is among the keys, both in order."""
    cursor: Cursor[bytes] = Cursor(keys)
    found_last: bytes | None = None
    for block in pairs:
        if not block:
            continue
        wanted = set(map(first, block))
        through = block[-1][0]
        # The key at the end of the block before was taken from the stream with that block.
        found = {found_last} if found_last in wanted else set()
        for piece in cursor.blocks_through(through):
            found.update(wanted.intersection(piece))
        found_last = through if through in found else None
        if found:
            yield [pair for pair in block if pair[0] in found]


def partners(pairs: Iterable[list[Pair]], rows: Iterator[list[Pair]]) -> Iterator[list[Pair]]:
    """Yield (what it was looked up for, the row) for pairs and rows of the same first element.

    Both come in order of it. Where several rows share a first element, one of them is named.
    """
    cursor: Cursor[Pair] = Cursor(rows)
    last: Pair | None = None
    for block in pairs:
        if not block:
            continue
        wanted = set(map(first, block))
        through = block[-1][0]
        found: dict[bytes, bytes] = {last[0]: last[1]} if last and last[0] in wanted else {}
        for piece in cursor.blocks_through(through):
            if not wanted.isdisjoint(map(first, piece)):
                found.update(pair for pair in piece if pair[0] in wanted)
        last = (through, found[through]) if through in found else None
        if found:
            yield [(sought, found[form]) for form, sought in block if form in found]
