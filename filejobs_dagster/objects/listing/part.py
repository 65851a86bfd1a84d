"""One part of a listing: a range of keys, read page after page by one thread.

`Reader` reads a page as exact keys, for parts and for the search for places to split.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from filejobs_dagster.objects.listing.ask import MOST_TRIES
from filejobs_dagster.objects.listing.page import (
    Disorder,
    ListingFailed,
    Page,
    SpellingOfServer,
    shown,
)
from filejobs_dagster.streams.sorter import first_disorder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.objects.listing.answer import Answer
    from filejobs_dagster.objects.listing.ask import Asker

# Reads pages as exact keys: what the parts and the search for places to split share.


@dataclass(frozen=True)
class ReadPage:
    """A page of exact keys.

    Attributes:
        page: The objects, in the server's order.
        truncated: Whether there is more behind it.
        token: Where that begins.
    """

    page: Page
    truncated: bool
    token: str | None


class Reader:
    """Asks for pages and reads their keys; may be shared by threads."""

    def __init__(self, asker: Asker) -> None:
        """Read through this asker."""
        self._asker = asker
        self._spelling = SpellingOfServer(self._names)

    def read(
        self, prefix: bytes, *, after: bytes | None = None, token: str | None = None
    ) -> ReadPage:
        """Read one page.

        Raises:
            ListingFailed: There is none, or it holds keys that were not asked for.
        """
        answer = self._asker.ask(prefix, after=after, token=token)
        keys = self._keys(answer, prefix)
        page = Page(keys, answer.sizes, answer.modified, answer.etags)
        return ReadPage(page, answer.truncated, answer.token)

    def next_key(self, prefix: bytes, after: bytes, *, tries: int = MOST_TRIES) -> bytes | None:
        """The first key behind a place, None when there is none.

        Args:
            prefix: What it begins with.
            after: The place, which need not be a key.
            tries: As of `Asker.ask`.

        Raises:
            Disorder: The server's answer lies in front of that place.
            ListingFailed: It did not answer.
        """
        token: str | None = None
        for _page in range(MOST_EMPTY_PAGES):
            answer = self._first(prefix, after, token, tries)
            keys = self._keys(answer, prefix)
            if keys:
                if keys[0] <= after:
                    raise Disorder(f"{shown(keys[0])} is listed behind {shown(after)}")
                return keys[0]
            if not answer.truncated:
                return None
            token = answer.token
        raise too_many_empty_pages(prefix)

    def _first(self, prefix: bytes, after: bytes, token: str | None, tries: int) -> Answer:
        try:
            return self._asker.ask(prefix, after=after, token=token, limit=1, tries=tries)
        except UnicodeDecodeError as error:
            raise ListingFailed(
                f"The server lists {shown(after)}, which is no UTF-8, and so cannot be asked what "
                "follows it. List this bucket with `parts: 1`."
            ) from error

    def _keys(self, answer: Answer, prefix: bytes) -> list[bytes]:
        keys = self._spelling.read(answer.texts, url_encoded=answer.url_encoded)
        if not all(key.startswith(prefix) for key in keys) or b"" in keys:
            stranger = next(key for key in keys if not key or not key.startswith(prefix))
            raise ListingFailed(
                f"Asked for keys below {shown(prefix)}, the server lists {shown(stranger)}. "
                "A listing that holds what was not asked for may lack what was."
            )
        return keys

    def _names(self, key: bytes, text: bytes) -> bool:
        try:
            return text in self._asker.ask(key).texts
        except UnicodeDecodeError:
            return False


MOST_EMPTY_PAGES = 100
"""In a row. S3 may send a page without keys that says there is more; a server that goes on for ever
must not keep the run for ever."""


def too_many_empty_pages(prefix: bytes) -> ListingFailed:
    """What to raise after that many."""
    return ListingFailed(
        f"Below {shown(prefix)} the server sent {MOST_EMPTY_PAGES} pages in a row without any key, "
        "each saying that there is more: its listing leads nowhere."
    )


MOST_NEW_KEYS = 100
"""Written between a part's last key and its bound while the bound was being proven."""


@dataclass(frozen=True)
class Part:
    """Which keys: those that begin with `prefix` and lie in a range of the byte order.

    Attributes:
        prefix: What they begin with.
        after: They are greater than this; None for no bound.
        through: They are at most this; None for no bound. Neither bound need be a key.
    """

    prefix: str
    after: bytes | None = None
    through: bytes | None = None


class PartReader:
    """Reads a part; another thread may take the rest of it away.

    Attributes:
        part: What it was given; `through` becomes smaller when the rest is taken away.
        position: The last key that was handed on.
        pages: How many were.
    """

    def __init__(self, part: Part, reader: Reader) -> None:
        """Prepare; nothing is asked yet."""
        self.part = part
        self.position: bytes | None = part.after
        self.pages = 0
        self._prefix = part.prefix.encode()
        self._reader = reader
        self._lock = threading.Lock()
        self._over = False

    def give_away(self, bound: bytes) -> Part | None:
        """End behind `bound`, and let somebody else read what follows.

        Returns:
            The rest, None when it is too late: the reading has come to the bound already.
        """
        with self._lock:
            through = self.part.through
            too_late = self._over or self.position is None or self.position >= bound
            if too_late or (through is not None and through <= bound):
                return None
            rest = Part(self.part.prefix, after=bound, through=through)
            self.part = Part(self.part.prefix, after=self.part.after, through=bound)
            return rest

    def ordered_pages(self) -> Iterator[Page]:
        """Every object of the part, each page proven to follow what came before.

        Raises:
            Disorder: It does not, or the server does not place the bounds where the bytes do.
            ListingFailed: The listing does not add up.
        """
        for read in self._pages_of_server():
            kept, beyond = self._take(read.page)
            if len(kept):
                yield kept
            if beyond is not None:
                self._prove_bound(beyond)
                return
        with self._lock:
            self._over = True
        self._prove_bound(None)

    def pages_as_they_come(self) -> Iterator[Page]:
        """Every object of a part without bounds, in the server's own order.

        Raises:
            ListingFailed: The listing does not add up.
        """
        begun: set[int] = set()
        for read in self._pages_of_server():
            if not len(read.page):
                continue
            # Its hash: a listing may have many pages.
            head = hash(read.page.keys[0])
            if head in begun:
                raise _repeated(read.page.keys[0])
            begun.add(head)
            self.position = read.page.keys[-1]
            self.pages += 1
            yield read.page

    def _take(self, page: Page) -> tuple[Page, bytes | None]:
        """The keys in front of the bound, which may have moved, and the first one beyond it."""
        keys = page.keys
        if not keys:
            return page, None
        disorder = first_disorder(keys, strictly=True)
        if disorder is not None:
            if disorder[0] == disorder[1]:
                raise _repeated(disorder[0])
            raise Disorder(f"{shown(disorder[1])} follows {shown(disorder[0])}")
        with self._lock:
            if self.position is not None and keys[0] <= self.position:
                raise Disorder(f"{shown(keys[0])} follows {shown(self.position)}")
            through, beyond = self.part.through, None
            if through is not None and keys[-1] > through:
                end = bisect_right(keys, through)
                beyond = keys[end]
                page = page.first(end)
                self._over = True
            if len(page):
                self.position = page.keys[-1]
                self.pages += 1
        return page, beyond

    def _prove_bound(self, beyond: bytes | None) -> None:
        """Prove that the server goes on behind the bound with what was met behind it.

        Only then does the reader of the next part begin where this one ends: a server with another
        order of its own may keep keys between the two that neither meets.
        """
        bound = self.part.through
        if bound is None:
            return
        found = self._reader.next_key(self._prefix, bound)
        if found == beyond:
            return
        # Something may just have been written or deleted there: look again from here.
        again = self._next_from_here(bound)
        if self._reader.next_key(self._prefix, bound) != again:
            raise Disorder(
                f"behind {shown(bound)} come {_named(found)} and {_named(beyond)}, depending on "
                "where the listing began"
            )

    def _next_from_here(self, bound: bytes) -> bytes | None:
        """Read on from the last key that was handed on, to the first one behind the bound."""
        key = self._first_behind(self.position)
        for _new_key in range(MOST_NEW_KEYS):
            if key is None or key > bound:
                return key
            key = self._first_behind(key)
        raise Disorder(f"more and more keys appear in front of {shown(bound)}")

    def _first_behind(self, place: bytes | None) -> bytes | None:
        return self._reader.next_key(self._prefix, self._prefix if place is None else place)

    def _pages_of_server(self) -> Iterator[ReadPage]:
        """Page after page until the server says that there are no more."""
        after, token = self.part.after, None
        empty, last_token, last_head = 0, None, None
        while True:
            read = self._reader.read(self._prefix, after=after, token=token)
            keys = read.page.keys
            if keys and keys[0] == last_head:
                raise _repeated(keys[0])
            yield read
            if not read.truncated:
                return
            last_token, token, after = token, read.token, None
            if not token:
                raise ListingFailed(
                    f"Below {shown(self._prefix)} the server says that there is more, and not "
                    "where that begins (no NextContinuationToken). Does it know ListObjectsV2?"
                )
            if token == last_token:
                raise ListingFailed(
                    f"Below {shown(self._prefix)} the server gave the same continuation token "
                    "twice: its listing would never end."
                )
            empty = 0 if keys else empty + 1
            if empty == MOST_EMPTY_PAGES:
                raise too_many_empty_pages(self._prefix)
            last_head = keys[0] if keys else last_head


def _repeated(key: bytes) -> ListingFailed:
    return ListingFailed(
        f"The server lists {shown(key)} twice: its listing goes in circles, or repeats pages, and "
        "may leave others out."
    )


def _named(key: bytes | None) -> str:
    return "no key" if key is None else shown(key)
