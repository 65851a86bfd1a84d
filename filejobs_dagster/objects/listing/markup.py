r"""The little XML that is read by hand, because servers write in it what XML cannot carry.

Ceph writes a key such as `a\x01b` as `a&#x1;b` into its continuation token, which every XML parser
refuses, and a bare carriage return comes out of every parser as a line feed. Both would make the
next page begin at another key.
"""

from __future__ import annotations

import re

from filejobs_dagster.objects.listing.failure import ListingFailed

_REFERENCE = re.compile(rb"&([^;&]{0,12};?)")
_NUMBER = re.compile(rb"#(?:x([0-9A-Fa-f]{1,8})|([0-9]{1,9}));")
_NAMED = {b"amp;": b"&", b"lt;": b"<", b"gt;": b">", b"quot;": b'"', b"apos;": b"'"}


def unescaped(text: bytes) -> bytes:
    """Replace the references in an element's text, also those to characters XML has no way to name.

    Raises:
        ListingFailed: A reference means nothing.
    """
    return _REFERENCE.sub(_character, text) if b"&" in text else text


def _character(match: re.Match[bytes]) -> bytes:
    named = _NAMED.get(match[1])
    if named is not None:
        return named
    number = _NUMBER.fullmatch(match[1])
    if number is not None:
        code = int(number[1], 16) if number[1] else int(number[2])
        try:
            return chr(code).encode()
        except (ValueError, OverflowError):
            # A surrogate half, or beyond Unicode: no character.
            pass
    raise ListingFailed(
        f"The listing holds {match[0]!r}, which means nothing in XML, so at least one key cannot "
        "be known. A proxy between here and the server may have changed the answer."
    )
