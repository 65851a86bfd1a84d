"""Reads pages as exact keys: what the parts and the search for places to split share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from filejobs_dagster.objects.listing.ask import MOST_TRIES
from filejobs_dagster.objects.listing.failure import Disorder, ListingFailed, shown
from filejobs_dagster.objects.listing.page import Page
from filejobs_dagster.objects.listing.spelling import SpellingOfServer

if TYPE_CHECKING:
    from filejobs_dagster.objects.listing.answer import Answer
    from filejobs_dagster.objects.listing.ask import Asker


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
