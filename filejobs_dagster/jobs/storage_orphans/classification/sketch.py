"""A small sample of keys that meets another such sample: of the same file names, not at random."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Iterable

KEPT = 256


class Sketch:
    """The keys whose file names have the smallest checksums.

    Two sides that write the same names into different keys keep the same names, however many
    millions there are; two random samples would hardly ever meet.
    """

    def __init__(self) -> None:
        """Begin empty."""
        self._kept: dict[int, bytes] = {}
        self._below = 1 << 32

    def add(self, keys: Iterable[bytes]) -> None:
        """Take those that belong to the sample."""
        kept, below = self._kept, self._below
        for key in keys:
            checksum = crc32(stem(key))
            if checksum < below:
                kept[checksum] = key
                if len(kept) >= 2 * KEPT:
                    below = self._cut()
                    kept = self._kept

    def meet(self, other: Sketch) -> list[tuple[bytes, bytes]]:
        """Return pairs of keys, of this sample and of the other, that have the same file name."""
        return [
            (key, other._kept[checksum])
            for checksum, key in sorted(self._kept.items())
            if checksum in other._kept
        ]

    def __len__(self) -> int:
        """How many keys it holds."""
        return len(self._kept)

    def _cut(self) -> int:
        smallest = sorted(self._kept)[:KEPT]
        self._kept = {checksum: self._kept[checksum] for checksum in smallest}
        self._below = smallest[-1]
        return self._below


def stem(key: bytes) -> bytes:
    """Return what a file name begins with, up to its first dot, in lower case."""
    name = key.partition(b"?")[0].rpartition(b"/")[2]
    return name.partition(b"#")[0].partition(b".")[0].lower()
