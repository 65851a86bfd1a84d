"""Reads the parts of a listing side by side, and splits what is large while it is being read."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from filejobs_dagster.objects.listing.page import (
    Disorder,
    ListingFailed,
    ListingProgress,
    ListingStopped,
)
from filejobs_dagster.objects.listing.part import Part, PartReader

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from filejobs_dagster.objects.listing.page import Page
    from filejobs_dagster.objects.listing.part import Reader
    from filejobs_dagster.streams import Scratch, Spool

# Finds a place to split a range of keys that is being read, by asking for a few single keys.
#
# S3 tells neither how many keys lie in a range nor what they look like. So the place is looked
# for where a part's keys branch first: for `files/2026/…` nothing may follow `files/3`, while
# something follows `files/2026/05`. The halves need not be equal, for they are split again.

MOST_QUESTIONS = 40
_LAST = 0x10FFFF
_LAST_OF_ASCII = 0x7E
_FIRST_PRINTABLE = 0x20
_SURROGATES = range(0xD800, 0xE000)
_NO_CHARACTERS = frozenset({0xFFFE, 0xFFFF})


class _Enough(Exception):
    """Too many questions for one place."""


def find_bound(
    prefix: bytes,
    position: bytes,
    through: bytes | None,
    next_key: Callable[[bytes], bytes | None],
) -> bytes | None:
    """Find a bound with keys behind it.

    Args:
        prefix: What all keys begin with.
        position: A key that was read already; the bound is greater.
        through: The end of the range, None when it is open; the bound is smaller.
        next_key: The first key of the bucket behind a place, with that prefix.

    Returns:
        A text in UTF-8 that need not be a key, or None when no place was found.
    """
    questions = 0

    def has_keys_behind(place: str) -> bool:
        nonlocal questions
        questions += 1
        if questions > MOST_QUESTIONS:
            raise _Enough
        encoded = place.encode()
        if encoded <= position or (through is not None and encoded >= through):
            return False
        key = next_key(encoded)
        return key is not None and (through is None or key <= through)

    try:
        here, begin = position.decode(), len(prefix.decode())
        for depth in range(begin, len(here)):
            found = _branch(here[:depth], ord(here[depth]), has_keys_behind)
            if found is not None:
                return found.encode()
    except (UnicodeDecodeError, _Enough):
        return None
    return None


def _branch(stem: str, here: int, has_keys_behind: Callable[[str], bool]) -> str | None:
    """A place behind the keys with this character at this depth, and before some with another."""
    behind_here = stem + chr(here) + chr(_LAST)
    if not has_keys_behind(behind_here):
        return None
    high = _LAST
    if here <= _LAST_OF_ASCII:
        behind_ascii = stem + chr(_LAST_OF_ASCII) + chr(_LAST)
        if has_keys_behind(behind_ascii):
            return behind_ascii
        high = _LAST_OF_ASCII + 1
    while here < (middle := _character((here + high) // 2)) < high:
        if has_keys_behind(stem + chr(middle)):
            return stem + chr(middle)
        high = middle
    # Everything else with this stem lies right behind the keys that are being read.
    return behind_here


def _character(code: int) -> int:
    """One near it that can be sent and echoed."""
    if code in _SURROGATES:
        return _SURROGATES.start - 1
    if code in _NO_CHARACTERS:
        return min(_NO_CHARACTERS) - 1
    return max(code, _FIRST_PRINTABLE)


PAGES_BEFORE_SPLIT = 3
"""A part that was read so far, in order, is worth splitting, and its server's order is believed."""

MOST_SPLITS = 2000
SECONDS_BETWEEN_LOOKS = 0.05


@dataclass
class Worked:
    """A part that was read to its end, and its pages on disk."""

    part: Part
    spool: Spool


@dataclass
class _Active:
    """A part that is being read.

    Attributes:
        reader: Reads it.
        being_split: Whether somebody is looking for a place to split it.
        splits: How often it was split.
        again_at: Pages that must be read before it is tried once more.
    """

    reader: PartReader
    being_split: bool = False
    splits: int = 0
    again_at: int = PAGES_BEFORE_SPLIT


@dataclass
class _Totals:
    position: bytes = b""
    objects: int = 0
    bytes: int = 0
    pages: int = 0
    begun: float = field(default_factory=time.monotonic)


class Workers:
    """The work that the threads of one listing share.

    Attributes:
        done: Parts that were read to their end.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        reader: Reader,
        scratch: Scratch,
        stop: threading.Event,
        *,
        in_order: bool,
    ) -> None:
        """Prepare.

        Args:
            parts: To begin with.
            reader: Of the bucket.
            scratch: Where the pages go.
            stop: Set when nobody wants the result any more.
            in_order: Whether the server's order is relied upon, and large parts are split.
        """
        self._waiting = deque(parts)
        self._reader = reader
        self._scratch = scratch
        self._stop = stop
        self._in_order = in_order
        self._splits = in_order
        self._parts = len(parts)
        self._active: list[_Active] = []
        self._lock = threading.Lock()
        self._totals = _Totals()
        self._spools: list[Spool] = []
        self.done: list[Worked] = []

    def discard(self) -> None:
        """Give the room on disk back, after the threads ended and nobody wants the result."""
        for spool in self._spools:
            spool.remove()

    def work(self) -> None:
        """Read parts until none is left; each thread runs this once.

        Raises:
            Disorder: The server's order is not that of the bytes.
            ListingFailed: The listing is not complete.
            ListingStopped: `stop` was set.
        """
        while (active := self._next()) is not None:
            self._read(active)

    def progress(self) -> ListingProgress:
        """Where the work stands."""
        with self._lock:
            totals = self._totals
            return ListingProgress(
                objects=totals.objects,
                bytes=totals.bytes,
                pages=totals.pages,
                position=totals.position,
                parts_done=len(self.done),
                parts=self._parts,
                seconds=time.monotonic() - totals.begun,
            )

    def _read(self, active: _Active) -> None:
        reader = active.reader
        pages = reader.ordered_pages() if self._in_order else reader.pages_as_they_come()
        with self._lock:
            spool = self._scratch.spool("listing")
            self._spools.append(spool)
        for page in pages:
            spool.append(page.packed(), items=len(page))
            self._count(page)
            self._require_going_on()
        spool.finish()
        with self._lock:
            self._active.remove(active)
            self.done.append(Worked(reader.part, spool))

    def _count(self, page: Page) -> None:
        with self._lock:
            totals = self._totals
            totals.objects += len(page)
            totals.bytes += sum(page.sizes)
            totals.pages += 1
            totals.position = page.keys[-1]

    def _require_going_on(self) -> None:
        if self._stop.is_set():
            raise ListingStopped("The listing was stopped before it was complete.")

    def _next(self) -> _Active | None:
        """A part to read: one that waits, or the rest of a large one; None when all is read."""
        while not self._stop.is_set():
            with self._lock:
                if self._waiting:
                    return self._begin(self._waiting.popleft())
                if not self._active:
                    return None
                large = self._choose()
            rest = None if large is None else self._split(large)
            if rest is not None:
                return rest
            if large is None:
                self._stop.wait(SECONDS_BETWEEN_LOOKS)
        raise ListingStopped("The listing was stopped before it was complete.")

    def _begin(self, part: Part) -> _Active:
        active = _Active(PartReader(part, self._reader))
        self._active.append(active)
        return active

    def _choose(self) -> _Active | None:
        """The part to split: one that was read for a while, and was split least."""
        if not self._splits or self._parts >= MOST_SPLITS:
            return None
        able = [it for it in self._active if not it.being_split and it.reader.pages >= it.again_at]
        chosen = min(able, key=lambda it: (it.splits, -it.reader.pages), default=None)
        if chosen is not None:
            chosen.being_split = True
        return chosen

    def _split(self, large: _Active) -> _Active | None:
        reader = large.reader
        prefix = reader.part.prefix.encode()
        try:
            bound = find_bound(
                prefix,
                reader.position or prefix,
                reader.part.through,
                lambda place: self._reader.next_key(prefix, place, tries=1),
            )
        except (Disorder, ListingFailed):
            # Perhaps it knows no start-after, which is no fault in a listing that does without it;
            # and if it is out of order altogether, whoever reads the part will say so.
            self._splits = False
            bound = None
        with self._lock:
            large.being_split = False
            rest = None if bound is None else reader.give_away(bound)
            if rest is None:
                large.again_at = reader.pages * 2
                return None
            large.splits += 1
            large.again_at = reader.pages + PAGES_BEFORE_SPLIT
            self._parts += 1
            return self._begin(rest)
