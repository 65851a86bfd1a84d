"""Keys as the list of a run writes them: plain text that survives editors and spreadsheets.

Whatever is not a plain character is percent-encoded, byte by byte: control characters, spaces,
the percent sign itself, and everything beyond ASCII, since an editor may normalise `é` and make it
another key. So is a first character that a spreadsheet takes for the beginning of a formula or a
number. Decoding gives the exact bytes back.
"""

from __future__ import annotations

import re
from urllib.parse import quote_from_bytes, unquote_to_bytes

PLAIN = "!#$&()*+,/:;<=>?@[]^_`{|}"
"""Printable ASCII beside letters, digits and `-._~` that stays as it is."""

_ESCAPED = re.compile(r"(?:[A-Za-z0-9\-._~" + re.escape(PLAIN) + r"]|%[0-9A-F]{2})+")
_FIRST = frozenset("=+-@0123456789")


class NotAKey(ValueError):
    """The text is not a key as a list writes it."""


def escape_key(key: bytes) -> str:
    """Write a key for a list."""
    text = quote_from_bytes(key, safe=PLAIN)
    if text[:1] in _FIRST:
        return f"%{ord(text[0]):02X}{text[1:]}"
    return text


def unescape_key(text: str) -> bytes:
    """Read a key of a list.

    Raises:
        NotAKey: It is empty or holds something that `escape_key` would have encoded.
    """
    if not _ESCAPED.fullmatch(text):
        raise NotAKey("the key is not written as the report wrote it")
    return unquote_to_bytes(text)
