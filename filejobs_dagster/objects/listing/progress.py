"""What a listing tells while it works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ListingProgress:
    """Where a listing stands.

    Attributes:
        position: The key that was read last, in whichever part.
        objects: Listed so far.
        bytes: Their sizes together.
        pages: Answers read so far.
        parts_done: Parts that were listed to their end.
        parts: Parts known so far; a large one is split while it is read.
        seconds: Since the listing began.
    """

    position: bytes
    objects: int
    bytes: int
    pages: int
    parts_done: int
    parts: int
    seconds: float
