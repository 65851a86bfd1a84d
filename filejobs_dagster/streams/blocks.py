"""What a block holds, and how large one may become."""

from __future__ import annotations

import sys
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Block: TypeAlias = list[bytes]
"""Sorted keys."""

Item = TypeVar("Item")
"""A key (`bytes`), or a tuple whose first element is one."""

first: Callable[[Any], bytes] = itemgetter(0)
"""The key of a tuple; keys that are their own need none."""

MOST_ITEMS = 10_000
BYTES_PER_BLOCK = 256 * 1024
"""About this much memory is one block; keys of a kilobyte make blocks of few items."""

SAMPLE = 32
POINTER = 8


def key_of(item: object) -> Callable[[Any], bytes] | None:
    """How items of this kind are compared: tuples by their first element, keys by themselves."""
    return first if isinstance(item, tuple) else None


def weight(items: Sequence[Any]) -> int:
    """About how many bytes of memory the items occupy: keys exactly, the rest by a sample."""
    if not items:
        return 0
    if not isinstance(items[0], tuple):
        return sum(map(len, items)) + len(items) * (sys.getsizeof(b"") + POINTER)
    sampled = items[:: max(len(items) // SAMPLE, 1)]
    besides = sum(_besides_the_key(item) for item in sampled) / len(sampled)
    return sum(map(len, map(first, items))) + int(len(items) * besides)


def cut(items: Sequence[Item]) -> Iterator[list[Item]]:
    """Cut sorted items into blocks of bounded size."""
    if not items:
        return
    each = max(weight(items) // len(items), 1)
    at_once = min(max(BYTES_PER_BLOCK // each, 1), MOST_ITEMS)
    left = iter(items)
    while block := list(islice(left, at_once)):
        yield block


def _besides_the_key(item: tuple[Any, ...]) -> int:
    parts = sys.getsizeof(item) + sum(map(sys.getsizeof, item))
    return parts - len(first(item)) + POINTER
