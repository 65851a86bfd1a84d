"""Finds a place to split a range of keys that is being read, by asking for a few single keys.

S3 tells neither how many keys lie in a range nor what they look like. So the place is looked for
where a part's keys branch first: for `files/2026/…` nothing may follow `files/3`, while something
follows `files/2026/05`. The halves need not be equal, for they are split again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

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
