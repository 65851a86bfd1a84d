"""The Merkle tree of RFC 6962 over the hashes of a chain's events, folded as they come."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

HASH_BYTES = 32

EMPTY_ROOT = hashlib.sha256(b"").digest()
"""RFC 6962, 2.1: the hash of an empty list is the hash of an empty string."""

_LEAF = b"\x00"
_NODE = b"\x01"


class BrokenFrontier(ValueError):
    """The bytes are no frontier of a tree of that size."""


class Frontier:
    """The roots of the perfect subtrees of a growing tree, largest first.

    It has one hash for each bit that is set in the number of leaves, so it stays small whatever
    the size, and a tree can be continued from it without its leaves.
    """

    __slots__ = ("_peaks", "size")

    def __init__(self, size: int = 0, peaks: Sequence[bytes] = ()) -> None:
        """Continue a tree.

        Args:
            size: How many leaves it has.
            peaks: The roots of its perfect subtrees, largest first.

        Raises:
            BrokenFrontier: There are not as many peaks as the size says.
        """
        if size < 0 or len(peaks) != size.bit_count():
            raise BrokenFrontier(f"a tree of {size} leaves does not have {len(peaks)} peaks")
        self.size = size
        self._peaks = list(peaks)

    @classmethod
    def from_bytes(cls, size: int, content: bytes) -> Frontier:
        """Read what `to_bytes` wrote.

        Raises:
            BrokenFrontier: It was not written for a tree of that size.
        """
        if len(content) % HASH_BYTES:
            raise BrokenFrontier(f"{len(content)} bytes are not a number of hashes")
        peaks = [content[at : at + HASH_BYTES] for at in range(0, len(content), HASH_BYTES)]
        return cls(size, peaks)

    def to_bytes(self) -> bytes:
        """The peaks one after the other."""
        return b"".join(self._peaks)

    def copy(self) -> Frontier:
        """The same tree, to be continued apart from this one."""
        return Frontier(self.size, self._peaks)

    def add(self, entry: bytes) -> None:
        """Append one leaf; the entry is hashed with the prefix of a leaf first."""
        sha256 = hashlib.sha256
        peaks = self._peaks
        node = sha256(_LEAF + entry).digest()
        size = self.size
        # Each bit that is set at the end is a perfect subtree of the new node's own size.
        while size & 1:
            node = sha256(_NODE + peaks.pop() + node).digest()
            size >>= 1
        peaks.append(node)
        self.size += 1

    def extend(self, entries: Iterable[bytes]) -> None:
        """Append leaves in order."""
        for entry in entries:
            self.add(entry)

    def root(self) -> bytes:
        """The root of the tree as it is now."""
        if not self._peaks:
            return EMPTY_ROOT
        node = self._peaks[-1]
        for peak in reversed(self._peaks[:-1]):
            node = hashlib.sha256(_NODE + peak + node).digest()
        return node
