"""Proves the order of a stream while it passes."""

from __future__ import annotations

import operator
from itertools import islice
from typing import TYPE_CHECKING, Any

from filejobs_dagster.ledger.sanitize import display_key
from filejobs_dagster.streams.blocks import Item, key_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


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
