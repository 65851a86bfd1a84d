"""Keys as the list of a run writes them: plain text that survives editors and spreadsheets.

Whatever is not a plain character is percent-encoded, byte by byte: control characters, spaces,
the percent sign itself, and everything beyond ASCII, since an editor may normalise `é` and make it
another key. So is a first character that a spreadsheet takes for the beginning of a formula or a
number. Decoding gives the exact bytes back.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote_from_bytes, unquote_to_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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


def named(name: str, keys: Iterable[bytes]) -> dict[str, list[str]]:
    r"""Keys for an event; those that JSON text cannot carry stand apart, percent-encoded.

    jsonb refuses `\x00`, and no JSON text holds bytes that are not UTF-8.
    """
    plain: list[str] = []
    escaped: list[str] = []
    for key in keys:
        text = _as_text(key)
        if text is None:
            escaped.append(escape_key(key))
        else:
            plain.append(text)
    found = {name: plain}
    return found | {f"{name}_percent_encoded": escaped} if escaped else found


def reasons(name: str, why: Mapping[bytes, object]) -> dict[str, dict[str, str]]:
    """Keys with their reasons for an event, as `named` does it."""
    plain: dict[str, str] = {}
    escaped: dict[str, str] = {}
    for key, reason in why.items():
        text = _as_text(key)
        if text is None:
            escaped[escape_key(key)] = str(reason)
        else:
            plain[text] = str(reason)
    found = {name: plain}
    return found | {f"{name}_percent_encoded": escaped} if escaped else found


def _as_text(key: bytes) -> str | None:
    if b"\x00" in key:
        return None
    try:
        return key.decode("utf-8")
    except UnicodeDecodeError:
        return None
