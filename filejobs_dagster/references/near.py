"""Near matches: keys that differ only in ways in which one side is often written wrongly.

Nothing here makes a key referenced. What is found is ambiguous: kept, and reported with both forms.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from filejobs_dagster.references.transforms import percent_decoded

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_ROUNDS = 8
"""Percent-encoding is decoded by whole passes so often, and then by the byte: see `_undone`."""

_ENDS = b" \t\n\r\x0b\x0c\x00/"
"""What a careless writer leaves at the ends of a key."""

_ANCHORS = 8
"""At so many places of one address the key is looked for."""

# A key of these characters, with nothing empty and nothing relative between its slashes, folds to
# itself. Of the printable ones it leaves out the space, `%` and the upper case.
_CHANGES = re.compile(rb"[^!-$&-@\[-~]|(?:\A|/)\.{0,2}(?:/|\Z)")
_MORE_FORMS = re.compile(rb"[?#]|:/")

# The same, for many keys with a newline before and after each; where one of these is found, the
# keys are looked at one by one.
_UNUSUAL = re.compile(rb"[^\n!-$&-@\[-~]")
_UNUSUAL_SEQUENCES = (b"//", b"/.", b"\n.", b"\n/", b"/\n", b"\n\n")
_OTHER_FORMS = (b"?", b"#", b":/")

_ADDRESS = re.compile(rb"[a-z][a-z0-9+.-]*:/")


def fold(key: bytes) -> bytes:
    """Return the form that all near matches of a key have in common.

    It is without percent-encoding, case, composed characters (NFC), spaces (`+` instead), white
    space, NUL or slashes at the ends, empty segments and `.` and `..` between them. Total: every
    byte string has one, also where it is no UTF-8. Idempotent.
    """
    while True:
        folded = _folded_once(key)
        # Decomposing may have made another %XX (`%4é`), which then shortens the key.
        if folded == key:
            return folded
        key = folded


def folds_to_itself(key: bytes) -> bool:
    """True for a key in plain lower-case ASCII, whose fold is the key; False says nothing."""
    return _CHANGES.search(key) is None


def unfolded(keys: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
    """Return (fold, key) of those keys that are not their own fold, in the order of the keys.

    One look at all of them decides in most cases, at the speed of C.
    """
    if _all_plain(_joined(keys)):
        return []
    lowered = _all_but_case(keys)
    if lowered is None:
        lowered = [key if folds_to_itself(key) else fold(key) for key in keys]
    return [pair for pair in zip(lowered, keys, strict=True) if pair[0] != pair[1]]


class ReferenceForms:
    """The forms under which a reference may be meant to name an object of this bucket.

    Beyond its own fold: what stands before a query or a fragment and, where the reference is an
    address (`s3://…`, `https://…`), an absolute path or begins with the bucket's name, what stands
    from an owned prefix on.
    """

    def __init__(self, owned: Sequence[bytes], bucket: bytes = b"") -> None:
        """Prepare.

        Args:
            owned: The owned prefixes; the empty one owns the whole bucket.
            bucket: The bucket's name, as it may stand in front of a key.
        """
        self._anchors = tuple(fold(prefix) + b"/" for prefix in owned if prefix)
        self._whole_bucket = b"" in owned
        self._bucket = fold(bucket) + b"/" if bucket else b""
        self._signs = (*_OTHER_FORMS, *((b"\n" + self._bucket,) if bucket else ()))

    def other_forms(self, references: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
        """Return (form, reference) of every form but the reference itself."""
        joined = _joined(references)
        if _all_plain(joined, *self._signs):
            return []
        lowered = _all_but_case(references, *self._signs)
        if lowered is not None:
            return [pair for pair in zip(lowered, references, strict=True) if pair[0] != pair[1]]
        return [
            (form, reference)
            for reference in references
            if not self._is_one_form(reference)
            for form in self.of(reference)
            if form != reference
        ]

    def _is_one_form(self, reference: bytes) -> bool:
        return (
            folds_to_itself(reference)
            and _MORE_FORMS.search(reference) is None
            and not (self._bucket and reference.startswith(self._bucket))
        )

    def of(self, reference: bytes) -> tuple[bytes, ...]:
        """Return the folded forms, each once; the reference's own fold is the first."""
        folded = fold(reference)
        if _MORE_FORMS.search(folded) is None and not self._is_led_to(folded, reference):
            return (folded,)
        forms = {folded: None}
        for form in (folded, *(folded.split(mark, 1)[0] for mark in (b"?", b"#"))):
            forms[form] = None
            forms.update(dict.fromkeys(self._from_an_address(form, reference)))
        return tuple(fold(form) for form in forms if form)

    def _from_an_address(self, folded: bytes, reference: bytes) -> Iterable[bytes]:
        address = _ADDRESS.match(folded)
        with_bucket = self._is_with_bucket(folded)
        if with_bucket:
            yield folded[len(self._bucket) :]
        if address is None and not self._is_led_to(folded, reference):
            return
        for anchor in self._anchors:
            yield from _from_anchor(folded, anchor)
        if self._whole_bucket:
            path = folded[address.end() :] if address else folded
            # Behind the host, and behind a bucket's name that follows it or a root folder.
            for _ in range(2):
                path = path.partition(b"/")[2]
                yield path

    def _is_led_to(self, folded: bytes, reference: bytes) -> bool:
        """Whether it is an absolute path, or begins with the bucket's name."""
        absolute = reference.lstrip(b" \t\r\n")[:3].startswith((b"/", b"%2f", b"%2F"))
        return absolute or self._is_with_bucket(folded)

    def _is_with_bucket(self, folded: bytes) -> bool:
        return bool(self._bucket) and folded.startswith(self._bucket)


def _from_anchor(folded: bytes, anchor: bytes) -> Iterable[bytes]:
    at = -1
    for _ in range(_ANCHORS):
        at = folded.find(b"/" + anchor, at + 1)
        if at < 0:
            return
        yield folded[at + 1 :]


def _joined(keys: Sequence[bytes]) -> bytes | None:
    """The keys with a newline before and after each; None when one of them has a newline."""
    joined = b"\n".join((b"", *keys, b""))
    return joined if joined.count(b"\n") == len(keys) + 1 else None


def _all_plain(joined: bytes | None, *signs: bytes) -> bool:
    """Whether every key folds to itself and has none of the signs; False may be wrong."""
    return (
        joined is not None
        and _UNUSUAL.search(joined) is None
        and not any(sequence in joined for sequence in (*_UNUSUAL_SEQUENCES, *signs))
    )


def _all_but_case(keys: Sequence[bytes], *signs: bytes) -> list[bytes] | None:
    """The folds of keys that are plain but for upper case; None where some are not so simple."""
    joined = _joined(keys)
    # Only ASCII is made lower here, and only that is plain.
    lowered = None if joined is None else joined.lower()
    if lowered is None or not _all_plain(lowered, *signs):
        return None
    return lowered[1:-1].split(b"\n")


def _folded_once(key: bytes) -> bytes:
    key = _undone(key).strip(_ENDS)
    if key.isascii():
        key = key.lower()
    else:
        text = key.decode("utf-8", "surrogateescape")
        # Caseless matching as Unicode defines it: decomposing before and after.
        text = unicodedata.normalize("NFD", unicodedata.normalize("NFD", text).casefold())
        key = text.encode("utf-8", "surrogateescape")
    key = key.replace(b" ", b"+")
    if b"//" in key or b"/." in key or key.startswith(b"."):
        key = _resolved(key)
    return key


def _undone(key: bytes) -> bytes:
    """Decode percent-encoding until nothing is left to decode."""
    for _ in range(_ROUNDS):
        decoded = percent_decoded(key)
        if decoded == key:
            return key
        key = decoded
    # `%252525…` loses one level a pass. By the byte it takes one pass, whatever it is.
    undone = bytearray()
    for byte in key:
        undone.append(byte)
        while undone[-3:-2] == b"%" and _is_hexadecimal(undone[-2:]):
            undone[-3:] = bytes((int(undone[-2:], 16),))
    return bytes(undone)


def _is_hexadecimal(digits: bytearray) -> bool:
    return all(digit in b"0123456789abcdefABCDEF" for digit in digits)


def _resolved(key: bytes) -> bytes:
    segments: list[bytes] = []
    for segment in key.split(b"/"):
        if segment == b"..":
            del segments[-1:]
        elif segment not in {b"", b"."}:
            segments.append(segment)
    return b"/".join(segments)
