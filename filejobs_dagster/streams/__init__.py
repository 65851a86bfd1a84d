"""Streams of sorted blocks that meet on disk: spool, sort and merge in flat memory.

An item is a key (`bytes`) or a tuple whose first element is the key. A block is a sorted list of
at most some ten thousand items. The order is that of the bytes, which is also the order of UTF-8's
code points, and never that of a locale or of UTF-16.
"""

from filejobs_dagster.streams.scratch import (
    Block,
    Item,
    NotEnoughRoom,
    Scratch,
    Spool,
    SpoolDamaged,
    first,
)
from filejobs_dagster.streams.sorter import (
    Cursor,
    OutOfOrder,
    Sorter,
    in_order,
    merge,
    without_repeats,
)

__all__ = [
    "Block",
    "Cursor",
    "Item",
    "NotEnoughRoom",
    "OutOfOrder",
    "Scratch",
    "Sorter",
    "Spool",
    "SpoolDamaged",
    "first",
    "in_order",
    "merge",
    "without_repeats",
]
