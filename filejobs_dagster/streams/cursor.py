"""Walks along a sorted stream, key by key of another one: one side of a merge join."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any, Generic

from filejobs_dagster.streams.blocks import Item, key_of

if TYPE_CHECKING:
    from collections.abc import Iterator


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
