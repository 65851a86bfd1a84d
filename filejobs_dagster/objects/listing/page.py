"""Objects as a listing describes them, in columns: a tuple for each costs more than parsing it.

What a listing tells while it works is here too, and how one ends that is not complete: nothing may
be concluded from any part of it.
"""

from __future__ import annotations

import re
import threading
from array import array
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import unquote_to_bytes

from filejobs_dagster.text import Teaching, display_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

UNKNOWN_TIME = -1
"""Milliseconds where the server told no time that can be read: such an object's age is unknown."""

Packed: TypeAlias = tuple[list[bytes], bytes, bytes, list[bytes]]
Row: TypeAlias = tuple[bytes, int, int, bytes]
"""Key, size, modified, etag."""

ROWS_AT_ONCE = 1000


@dataclass(frozen=True)
class Page:
    """A thousand objects or fewer, in four lists of the same length.

    Attributes:
        keys: Exact keys.
        sizes: In bytes.
        modified: Milliseconds since 1970, cut, not rounded; -1 when unknown.
        etags: As given, without quotes; empty when the server sent none.
    """

    keys: list[bytes]
    sizes: list[int]
    modified: list[int]
    etags: list[bytes]

    def __len__(self) -> int:
        """How many objects it has."""
        return len(self.keys)

    def first(self, count: int) -> Page:
        """The part in front."""
        return Page(
            self.keys[:count], self.sizes[:count], self.modified[:count], self.etags[:count]
        )

    def rows(self) -> Iterable[Row]:
        """The objects one by one."""
        return zip(self.keys, self.sizes, self.modified, self.etags, strict=True)

    def packed(self) -> Packed:
        """The form for a spool: numbers as machine words, which are written and read at once."""
        return (
            self.keys,
            array("q", self.sizes).tobytes(),
            array("q", self.modified).tobytes(),
            self.etags,
        )

    @classmethod
    def unpacked(cls, packed: Packed) -> Page:
        """The reverse of `packed`."""
        keys, sizes, modified, etags = packed
        return cls(keys, array("q", sizes).tolist(), array("q", modified).tolist(), etags)

    @classmethod
    def of_rows(cls, rows: list[Row]) -> Page:
        """The reverse of `rows`; not of none."""
        keys, sizes, modified, etags = (list(column) for column in zip(*rows, strict=True))
        return cls(keys, sizes, modified, etags)


def pages_of(blocks: Iterator[list[Row]]) -> Iterator[Page]:
    """Sorted rows as pages of the usual size."""
    held: list[Row] = []
    for row in chain.from_iterable(blocks):
        held.append(row)
        if len(held) == ROWS_AT_ONCE:
            yield Page.of_rows(held)
            held = []
    if held:
        yield Page.of_rows(held)


# What a listing tells while it works.


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


# How a listing ends that is not complete: nothing may be concluded from any part of it.


class ListingFailed(Teaching):
    """The bucket was not listed completely; the message says what was found and what to do."""


class ListingStopped(Exception):
    """The caller asked to stop: its time was over. What was listed is not the whole."""


class Disorder(Exception):
    """Internal: the server does not list in the order of the bytes, so ranges mean nothing."""


def shown(key: bytes) -> str:
    """A key for messages: on one line, printable, bounded."""
    return repr(display_key(key.decode("utf-8", "backslashreplace")))


# How a server spells keys, and what it means by a plus sign.
#
# `encoding-type=url` was never defined to the last byte. AWS writes a space as `+` and a plus as
# `%2B`; Ceph and others write `%20` and `%2B`; some leave a plus as it is; some ignore the
# request and do not say so. A listing that guesses wrong names other objects, so where two
# readings differ, the server is asked for one of the keys by its name.

_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
MOST_QUESTIONS = 5
"""Keys asked for before giving up: one may have been deleted since it was listed."""


class Spelling(Enum):
    """A way to read a key's text."""

    AS_IT_IS = "as it is"
    PERCENT = "percent signs, a plus is a plus"
    FORM = "percent signs, a plus is a space"

    def read(self, text: bytes) -> bytes:
        """The key that is meant."""
        if self is Spelling.AS_IT_IS:
            return text
        return unquote_to_bytes(text.replace(b"+", b" ") if self is Spelling.FORM else text)


class SpellingOfServer:
    """Reads the keys of one listing; learns, once, what cannot be known from the text alone."""

    def __init__(self, names: Callable[[bytes, bytes], bool]) -> None:
        """Know nothing yet.

        Args:
            names: Whether the server, asked for this key by its name, answers with that text.
        """
        self._names = names
        self._learnt: set[Spelling] = set()
        self._lock = threading.Lock()

    def read(self, texts: list[bytes], *, url_encoded: bool) -> list[bytes]:
        """Read a page's keys.

        Args:
            texts: As spelled.
            url_encoded: Whether the server said that it spelled them for URLs.

        Raises:
            ListingFailed: A text is not spelled as the server says, or its meaning stays unclear.
        """
        joined = b"\n".join(texts)
        if url_encoded:
            return self._read_for_urls(texts, joined)
        if b"+" in joined or b"%" in joined:
            # Perhaps it spelled them for URLs all the same, and only does not say so.
            self._learn(texts, (b"+", b"%"), (Spelling.AS_IT_IS,))
        return texts

    def _read_for_urls(self, texts: list[bytes], joined: bytes) -> list[bytes]:
        bad = _BAD_ESCAPE.search(joined)
        if bad:
            raise ListingFailed(
                "The server says that it spells keys for URLs, and lists "
                f"{shown(joined[max(bad.start() - 40, 0) : bad.end() + 20])}, which is not."
            )
        if b"+" in joined:
            spelling = self._learn(texts, (b"+",), (Spelling.FORM, Spelling.PERCENT))
            if spelling is Spelling.FORM:
                texts = [text.replace(b"+", b" ") for text in texts]
        if b"%" in joined:
            return [unquote_to_bytes(text) if b"%" in text else text for text in texts]
        return texts

    def _learn(
        self, texts: Sequence[bytes], unclear: Sequence[bytes], possible: Sequence[Spelling]
    ) -> Spelling:
        """Find the one of the possible spellings by which the server itself goes."""
        with self._lock:
            for spelling in possible:
                if spelling in self._learnt:
                    return spelling
            odd = [text for text in texts if any(sign in text for sign in unclear)]
            for text in odd[:MOST_QUESTIONS]:
                meant = [it for it in possible if self._names(it.read(text), text)]
                if len(meant) == 1:
                    self._learnt.add(meant[0])
                    return meant[0]
        readings = " or ".join(dict.fromkeys(shown(it.read(odd[0])) for it in possible))
        raise ListingFailed(
            f"The server lists {shown(odd[0])}, and which key that is cannot be learnt: asked for "
            f"{readings} by name, it gave no clear answer. It must support `encoding-type=url`; "
            "when it does, the object may just have been deleted: run the job again."
        )
