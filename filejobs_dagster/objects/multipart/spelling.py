"""How a server spells the keys of multipart uploads, learnt from the server itself.

`EncodingType=url` is asked for, because XML cannot carry every key. AWS then writes a space as `+`;
Ceph 16 writes `%20`, and does not say that it spelled the keys at all; others ignore the request.
An upload that is read wrongly would be looked for under another key and taken for gone, so where
the readings differ, the server is asked which uploads it has below each of them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from filejobs_dagster.objects.listing.failure import ListingFailed, shown
from filejobs_dagster.objects.listing.spelling import Spelling

if TYPE_CHECKING:
    from collections.abc import Callable

_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")

MOST_QUESTIONS = 5
"""Uploads asked for in vain before giving up: one may have ended since it was listed."""


class SpellingOfUploads:
    """Reads the keys of one listing, and narrows down what they can mean."""

    def __init__(self, has: Callable[[bytes, str], bool]) -> None:
        """Know nothing yet.

        Args:
            has: Whether the server lists the upload of this id below that prefix.
        """
        self._has = has
        self._possible = list(Spelling)
        self._in_vain = 0

    def read(self, text: bytes, upload_id: str, *, url_encoded: bool) -> bytes | None:
        """The key that is meant, or None when the upload has ended meanwhile.

        Args:
            text: As spelled.
            upload_id: Of the upload.
            url_encoded: Whether the server said that it spelled the keys for URLs.

        Raises:
            ListingFailed: It is not spelled as the server says, or its meaning stays unclear.
        """
        if b"%" not in text and b"+" not in text:
            return text
        possible = self._possible_of(text, url_encoded=url_encoded)
        readings = {spelling.read(text) for spelling in possible}
        if len(readings) == 1:
            return readings.pop()
        # Where one reading begins with another, an upload below the longer one is of no other.
        meant = max((it for it in readings if self._has(it, upload_id)), key=len, default=None)
        if meant is None:
            self._in_vain += 1
            if self._in_vain >= MOST_QUESTIONS:
                raise ListingFailed(
                    f"The server lists a multipart upload of {shown(text)}, and which key that is "
                    "cannot be learnt: asked for what it can mean, the server has no such upload. "
                    "It must support `encoding-type=url`."
                )
            return None
        self._in_vain = 0
        self._possible = [it for it in self._possible if it.read(text) == meant]
        return meant

    def _possible_of(self, text: bytes, *, url_encoded: bool) -> list[Spelling]:
        bad = _BAD_ESCAPE.search(text) is not None
        if url_encoded and bad:
            raise ListingFailed(
                f"The server says that it spells keys for URLs, and lists {shown(text)}, which is "
                "not."
            )
        excluded = {Spelling.AS_IT_IS} if url_encoded else set()
        if bad:
            excluded |= {Spelling.PERCENT, Spelling.FORM}
        possible = [it for it in self._possible if it not in excluded]
        if not possible:
            raise ListingFailed(
                f"The server spells {shown(text)} in another way than the keys before it."
            )
        return possible
