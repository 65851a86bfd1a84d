"""Near matches: keys that differ only in ways in which one side is often written wrongly.

Nothing here makes a key referenced. What is found is ambiguous: kept, and reported.

There is one judgement, `ReferenceForms`: a value is near to a key when one of the value's forms is
the key's fold, or when the value is a folder above the key or a part of it (`folders`, `parts`).
A sweep asks it of all values at once; the gate, before each deletion, of a few keys: `spellings`
are what an index finds, and `Sieve` keeps the forms of all values that are anything but plain.

`suggestion_for` says which transform seems to be missing, from objects and rows that nearly meet.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from html import unescape
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, quote_plus, unquote

from filejobs_dagster.references.transforms import percent_decoded
from filejobs_dagster.text import display_key

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

_ADDRESS = re.compile(rb"[a-z][a-z0-9+.-]*:/|arn:")

# A value with one of these may hold keys among other things.
_TEXT = re.compile(rb"""["'`<>,;|(){}\[\]\\=&\t\r\n\x00]|\xef\xbb\xbf|\xc2\xa0|\xe2\x80\x8b""")
# The same, for many keys with a newline before and after each.
_TEXTS = re.compile(rb"""["'`<>,;|(){}\[\]\\=&\t\r\x00]""")
_AROUND = rb"""["'`<>\t\r\n\x00]|\xef\xbb\xbf|\xc2\xa0|\xe2\x80\x8b"""
_EDGES = re.compile(rb"\A(?: |" + _AROUND + rb")+|(?: |" + _AROUND + rb")+\Z")
# From few to many, since a key may hold any of them.
_DELIMITERS = (
    re.compile(_AROUND),
    re.compile(_AROUND + rb"|[,;|(){}\[\]]"),
    re.compile(_AROUND + rb"|[,;|(){}\[\] =&]"),
)
_JSON_ESCAPED = re.compile(rb"\\u([0-9A-Fa-f]{4})")
_KEEP = "surrogateescape"

MOST_BYTES_OF_A_LIST = 4096
"""In a longer text, a word without a slash is a word, and no key that lacks its prefix."""

_SLASH = re.compile(rb"/")
_DIGEST = re.compile(rb"/[0-9a-f]{32,128}\Z")
_MOST_FOLDERS = 8
_MOST_PARTS = 8

SPELLED = "written otherwise"
PLACED = "another beginning"
BELOW = "below a referenced folder"
DERIVED = "below a referenced key"
INSIDE = "written otherwise, or in a longer text"
"""What differs between a key and the value that comes near to it."""

SIEVE_BITS = 1 << 27
"""Sixteen megabytes a source, of which only what is written to is taken."""


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

    Beyond its own fold: what stands before a query or a fragment; what stands from an owned prefix
    on, where a slash, the bucket, a host or an ARN is in front; and what it becomes with an owned
    prefix in front, or in the place of its first folder or its host. A value with
    quotes, commas, braces and the like (a list, an array, JSON, HTML) has the forms of all its
    pieces. A value that lies in an owned prefix already and is plain has no other form.
    """

    def __init__(self, owned: Sequence[bytes], bucket: bytes = b"") -> None:
        """Prepare.

        Args:
            owned: The owned prefixes; the empty one owns the whole bucket.
            bucket: The bucket's name, as it may stand in front of a key.
        """
        self._owned = tuple(prefix for prefix in owned if prefix)
        self._anchors = tuple(fold(prefix) + b"/" for prefix in self._owned)
        self._whole_bucket = b"" in owned
        self._bucket_name = bucket
        self._bucket = fold(bucket) + b"/" if bucket else b""
        self._signs = (*_OTHER_FORMS, *((b"\n" + self._bucket,) if bucket else ()))
        anchors = b"|".join(map(re.escape, self._anchors))
        self._elsewhere = None if self._whole_bucket else re.compile(b"\n(?!%s|\\Z)" % anchors)

    # From the side of a reference ---------------------------------------------------------------

    def other_forms(self, references: Sequence[bytes]) -> list[tuple[bytes, bytes]]:
        """Return (form, reference) of every form but the reference itself."""
        joined = _joined(references)
        if self._all_are_one_form(joined):
            return []
        if joined is not None and self._all_are_one_form(lowered := joined.lower()):
            # Only ASCII is made lower here, and only that is plain.
            forms = lowered[1:-1].split(b"\n")
            return [pair for pair in zip(forms, references, strict=True) if pair[0] != pair[1]]
        return [
            (form, reference)
            for reference in references
            if not self._is_one_form(reference)
            for form in self.of(reference)
            if form != reference
        ]

    def _all_are_one_form(self, joined: bytes | None) -> bool:
        """Whether no reference has another form; False may be wrong."""
        return (
            _all_plain(joined, *self._signs)
            and joined is not None
            and _TEXTS.search(joined) is None
            and (self._elsewhere is None or self._elsewhere.search(joined) is None)
        )

    def _is_one_form(self, reference: bytes) -> bool:
        return (
            folds_to_itself(reference)
            and _MORE_FORMS.search(reference) is None
            and _TEXT.search(reference) is None
            and (self._whole_bucket or reference.startswith(self._anchors))
            and not (self._bucket and reference.startswith(self._bucket))
        )

    def of(self, reference: bytes) -> tuple[bytes, ...]:
        """Return the folded forms, each once; the reference's own fold is the first."""
        forms = {fold(reference): None}
        if not self._is_one_form(reference):
            bare = len(reference) <= MOST_BYTES_OF_A_LIST
            for piece in pieces(reference):
                folded = fold(piece)
                cuts = (folded.split(mark, 1)[0] for mark in (b"?", b"#") if mark in folded)
                for cut in (folded, *cuts):
                    forms[cut] = None
                    if bare or b"/" in cut:
                        forms.update(dict.fromkeys(self._in_another_place(cut, piece)))
        return tuple(dict.fromkeys(fold(form) for form in forms if form))

    def _in_another_place(self, folded: bytes, piece: bytes) -> Iterable[bytes]:
        if self._is_with_bucket(folded):
            yield folded[len(self._bucket) :]
        if not self._whole_bucket and folded.startswith(self._anchors):
            return
        address = _ADDRESS.match(folded)
        is_led_to = address is not None or self._is_led_to(folded, piece)
        if is_led_to:
            for anchor in self._anchors:
                yield from _from_anchor(folded, anchor)
        # Behind the host, and behind a bucket's name that follows it or another first folder.
        whole = folded[address.end() :] if address else folded
        behind_one = whole.partition(b"/")[2]
        tails = (behind_one, behind_one.partition(b"/")[2]) if address else (whole, behind_one)
        if not self._whole_bucket:
            yield from (anchor + tail for anchor in self._anchors for tail in tails if tail)
        elif is_led_to:
            yield from tails

    def _is_led_to(self, folded: bytes, reference: bytes) -> bool:
        """Whether it is an absolute path, or begins with the bucket's name."""
        absolute = reference.lstrip(b" \t\r\n")[:3].startswith((b"/", b"%2f", b"%2F"))
        return absolute or self._is_with_bucket(folded)

    def _is_with_bucket(self, folded: bytes) -> bool:
        return bool(self._bucket) and folded.startswith(self._bucket)

    # From the side of a key ---------------------------------------------------------------------

    def folders(self, key: bytes) -> list[bytes]:
        """The folders above a key, as a row may name them: with their slash, the nearest first.

        The owned prefix itself is none: it would keep all there is.
        """
        starts = [len(prefix) for prefix in self._owned if key.startswith(prefix)]
        ends = [match.end() for match in _SLASH.finditer(key, max(starts, default=0))]
        return [key[:end] for end in reversed(ends) if end < len(key)][:_MOST_FOLDERS]

    def parts(self, key: bytes) -> list[bytes]:
        """The keys that a variant may be derived from: `files/variants/KEY/DIGEST`.

        Only keys that end in a hexadecimal digest have them: without one, every number in a path
        would keep what lies below it.
        """
        if _DIGEST.search(key) is None:
            return []
        segments = key.split(b"/")[:-1]
        found: dict[bytes, None] = {}
        for start in range(1, len(segments)):
            part = b"/".join(segments[start:])
            found[part] = None
            for prefix in self._owned:
                found[prefix + part] = None
        return list(found)[:_MOST_PARTS]

    def spellings(self, key: str) -> dict[str, str]:
        """How else a value may spell the key, and what differs: at most forty.

        What stands here is asked of every source, and anew each time. It is the part of the
        judgement that can be listed from the key; an index serves it.
        """
        raw = key.encode("utf-8")
        bucket = self._bucket_name.decode("utf-8", "replace")
        said: dict[str, str] = {}
        for text in (
            unicodedata.normalize("NFC", key),
            unicodedata.normalize("NFD", key),
            key.lower(),
            key.upper(),
            fold(raw).decode("utf-8", "replace"),
            quote(key),
            quote(key, safe=""),
            quote_plus(key, safe="/"),
            unquote(key),
            f"{key}\n",
            f"{key}\r\n",
            f"{key} ",
            f"\ufeff{key}",
            f"{key}\u00a0",
            f'"{key}"',
            key.replace("/", "\\"),
        ):
            said.setdefault(text, SPELLED)
        for text in (f"/{key}", f"{bucket}/{key}", f"/{bucket}/{key}", f"s3://{bucket}/{key}"):
            said.setdefault(text, PLACED)
        said.setdefault(f"arn:aws:s3:::{bucket}/{key}", PLACED)
        for prefix in self._owned:
            if raw.startswith(prefix):
                rest = raw[len(prefix) :].decode("utf-8")
                said.setdefault(rest, PLACED)
                said.setdefault(f"/{rest}", PLACED)
        for part in self.parts(raw):
            said.setdefault(part.decode("utf-8"), DERIVED)
        for folder in self.folders(raw):
            said.setdefault(folder.decode("utf-8"), BELOW)
        said.pop(key, None)
        said.pop("", None)
        return said

    def plain_spellings(self, key: str) -> list[str]:
        """Those of the spellings that are keys or folders themselves."""
        raw = key.encode("utf-8")
        found = (fold(raw), *self.parts(raw), *self.folders(raw))
        return [each.decode("utf-8", "replace") for each in found]

    def sought(self, key: bytes) -> list[bytes]:
        """The folds that the forms of a value have in common with the key, when it is near."""
        return [fold(key), *map(fold, self.parts(key))]


class Sieve:
    """Remembers forms in flat memory, and says of others whether they may be among them.

    A form that was added is always recognised. One that was not is now and then, too: of a
    thousand, fewer than one after a million forms, and about two hundred after forty million. The
    object is then kept, and another process, whose hashes differ, finds that it may go.
    """

    def __init__(self) -> None:
        """Begin with nothing; memory is taken as it is filled."""
        self._bits = bytearray(SIEVE_BITS // 8)

    def add(self, forms: Iterable[bytes]) -> None:
        """Remember forms."""
        bits = self._bits
        for form in forms:
            for place in _places(form):
                bits[place >> 3] |= 1 << (place & 7)

    def __contains__(self, form: bytes) -> bool:
        """Whether the form may have been added."""
        return all(self._bits[place >> 3] >> (place & 7) & 1 for place in _places(form))


def _places(form: bytes) -> tuple[int, int, int]:
    hashed, mask = hash(form), SIEVE_BITS - 1
    return hashed & mask, hashed >> 19 & mask, hashed >> 37 & mask


def pieces(reference: bytes) -> Iterable[bytes]:
    """The value itself, and what stands in it between quotes, commas, brackets, and spaces."""
    if _TEXT.search(reference) is None and b" " not in reference:
        return (reference,)
    text = _JSON_ESCAPED.sub(_unescaped, reference)
    bare = _EDGES.sub(b"", reference)
    found = dict.fromkeys((reference, bare, bare.replace(b"\\", b"/")))
    for version in (text, unescape(text.decode("utf-8", "surrogateescape")).encode("utf-8", _KEEP)):
        for delimiters in _DELIMITERS:
            for piece in delimiters.split(version):
                found[piece.replace(b"\\", b"/")] = None
    return [piece for piece in found if piece]


def _unescaped(match: re.Match[bytes]) -> bytes:
    return chr(int(match[1], 16)).encode("utf-8", "replace")


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


# Says which transform seems to be missing, from objects and rows that nearly meet.


class NearMatch(NamedTuple):
    """An object and the row that may mean it.

    Attributes:
        key: The object's exact key.
        row: The row's form: a source's key, or its value before the transforms.
    """

    key: bytes
    row: bytes


def suggestion_for(pairs: Iterable[NearMatch]) -> str | None:
    """Return the change that most pairs have in common, with its share and an example."""
    explained = [(explanation, pair) for pair in pairs if (explanation := explain(*pair))]
    if not explained:
        return None
    counts = Counter(explanation for explanation, _ in explained)
    explanation, count = counts.most_common(1)[0]
    pair = next(pair for said, pair in explained if said == explanation)
    return (
        f"In {count} of {len(explained)} pairs that were looked at, the row would be the object's "
        f"key with {explanation}: for example the row {_shown(pair.row)} and the object "
        f"{_shown(pair.key)}."
    )


def explain(key: bytes, row: bytes) -> str | None:
    """Return how the row would become the key; None when no simple change does it."""
    if key == row:
        return None
    values = _further(row)
    steps = next((steps for value, steps in values if value == key), None)
    if steps is None:
        # An ending that begins with ? is a query, so one step alone has been tried before.
        bridges = ((steps, _bridged(key, value)) for value, steps in values)
        steps = next(([*steps, bridge] for steps, bridge in bridges if bridge is not None), None)
    if steps is None:
        return _not_by_a_transform(key, row)
    return f"`transforms: [{', '.join(steps)}]` in its source"


def _further(row: bytes) -> list[tuple[bytes, list[str]]]:
    """The row as it is, without its query, decoded: as far as each step changes anything."""
    further: list[tuple[bytes, list[str]]] = [(row, [])]
    short = row.partition(b"?")[0]
    if short != row:
        further.append((short, ["{drop_query: true}"]))
    decoded = percent_decoded(short)
    if decoded != short:
        further.append((decoded, [*further[-1][1], "{percent_decode: true}"]))
    return further


def _bridged(key: bytes, value: bytes) -> str | None:
    """One step that takes something off the row, or puts something before it."""
    if value.endswith(key):
        return f"{{strip_base: [{_quoted(value[: -len(key)])}]}}"
    if value and key.endswith(value):
        return f"{{prepend: {_quoted(key[: -len(value)])}}}"
    if value.startswith(key):
        return f"{{strip_suffix: {_quoted(value[len(key) :])}}}"
    return _other_base(key, value)


def _other_base(key: bytes, value: bytes) -> str | None:
    """Two steps: another base before what both have in common, a whole number of levels."""
    at = 0
    while (at := key.find(b"/", at)) >= 0:
        rest = key[at + 1 :]
        if rest and value.endswith(b"/" + rest):
            base, prefix = value[: -len(rest)], key[: at + 1]
            return f"{{strip_base: [{_quoted(base)}]}}, {{prepend: {_quoted(prefix)}}}"
        at += 1
    return None


def _not_by_a_transform(key: bytes, row: bytes) -> str | None:
    texts = [value.decode("utf-8", "surrogateescape") for value in (key, row)]
    composed = [unicodedata.normalize("NFC", text) for text in texts]
    if composed[0] == composed[1]:
        return "its accents composed as in the object's key (NFC and NFD differ); correct the rows"
    if composed[0].casefold() == composed[1].casefold():
        return "its upper and lower case as in the object's key; correct the rows"
    if row.strip() == key.strip():
        return "no white space at its ends that the object's key lacks; correct the rows"
    if row.replace(b"+", b" ") == key.replace(b"+", b" "):
        return "a space in place of its + (or the other way round); correct the rows"
    return None


def _quoted(value: bytes) -> str:
    return json.dumps(value.decode("utf-8", "backslashreplace"), ensure_ascii=False)


def _shown(value: bytes) -> str:
    return repr(display_key(value.decode("utf-8", "backslashreplace")))
