r"""Odd keys, the rows beside them, and the one right class of each.

All objects are old, in the owned prefix `files/` and in one bucket together; all rows are in one
database together. A key that servers refuse or change (NUL, what is no UTF-8, `.` segments) is
marked, so that tests against real servers can leave it out.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

OWNED = "files/"
PROTECT = ("files/brand/", "files/logo")
REWRITES = (
    ("thumbnails", r"files/(?P<id>[^/]+)/thumb\.webp", "files/{id}"),
    ("segments", r"(?P<file>files/[^/]+)/hls/[^/]+", "{file}"),
    ("info", r"(?P<file>files/.+)\.info", "{file}"),
)

REFERENCED, DERIVED, PROTECTED = "referenced", "derived", "protected"
MARKER, UNKNOWN, AMBIGUOUS, ORPHAN = "directory marker", "unknown shape", "ambiguous", "orphan"

COMPOSED = unicodedata.normalize("NFC", "é")
DECOMPOSED = unicodedata.normalize("NFD", "é")


@dataclass(frozen=True)
class Odd:
    """One object, the rows that were made for it, and its class.

    Attributes:
        key: The object's key.
        rows: What rows say; no row of another case means this object.
        kind: The class that it belongs to.
        only_in_memory: No server takes the key as it is.
    """

    key: bytes
    rows: tuple[str, ...]
    kind: str
    only_in_memory: bool = False


def _odd(key: str | bytes, kind: str, *rows: str, only_in_memory: bool = False) -> Odd:
    return Odd(
        key if isinstance(key, bytes) else key.encode(), rows, kind, only_in_memory=only_in_memory
    )


def _exact(key: str) -> Odd:
    return _odd(key, REFERENCED, key)


ODD_KEYS: tuple[Odd, ...] = (
    # Named by their very bytes, however odd these are.
    _exact("files/plain"),
    _exact("files/UPPER-CASE.JPG"),
    _exact("files/with a space.txt"),
    _exact("files/with+a+plus.txt"),
    _exact("files/2024 00%3A00.bin"),
    _exact("files/100%.txt"),
    _exact("files/%zz.txt"),
    _exact(f"files/composed-{COMPOSED}"),
    _exact(f"files/decomposed-{DECOMPOSED}"),
    _exact("files/\U0001f600.png"),
    _exact("files/\ufffdreplacement"),
    _exact("files//doubled-slash"),
    _exact("files/a?query=1"),
    _exact("files/a#fragment"),
    _exact("files/a&b=c;d,e"),
    _exact("files/quote\"s and 'apostrophes'"),
    _exact("files/back\\slash"),
    _exact("files/<angle>&amp;"),
    _exact("files/trailing-space "),
    _exact("files/trailing-newline\n"),
    _exact("files/tab\tinside"),
    _exact("files/carriage\rreturn"),
    _exact("files/\x01control"),
    _exact("files/\x7fdelete"),
    _exact("files/\u2028line-separator"),
    _exact("files/.hidden"),
    _exact("files/..two-dots"),
    _exact("files/three.../dots"),
    _exact("files/*wild?card[1]"),
    _exact("files/$dollar{brace}"),
    _exact("files/`back`tick"),
    _exact("files/NULL"),
    _exact("files/" + "k" * 1018),
    _exact("files/" + "ü" * 500),
    _exact("files/İstanbul"),
    _exact("files/straße"),
    _exact("files/directory-with-a-row/"),
    # Nothing names them.
    _odd("files/nobody", ORPHAN),
    _odd("files/NOBODY-UPPER", ORPHAN),
    _odd("files/no body", ORPHAN),
    _odd("files/no%20other-body", ORPHAN),
    _odd(f"files/orphan-{DECOMPOSED}", ORPHAN),
    _odd("files/\U0001f47b", ORPHAN),
    _odd("files/orphan\nnewline", ORPHAN),
    _odd("files/orphan?query", ORPHAN),
    _odd("files/_tmp/x", ORPHAN),
    _odd("files/.y", ORPHAN),
    _odd("files/plain.txt", ORPHAN),
    _odd("files/plai", ORPHAN),
    _odd("files/brand", ORPHAN),
    _odd("files/brand-new", ORPHAN),
    _odd("files/logotype", ORPHAN),
    _odd("files/" + "o" * 1018, ORPHAN),
    _odd("files/\ue000private", ORPHAN),
    _odd("files/\U00010000astral", ORPHAN),
    # A row means them after a change that nobody declared.
    _odd(f"files/nfd-{DECOMPOSED}", AMBIGUOUS, f"files/nfd-{COMPOSED}"),
    _odd(f"files/nfc-{COMPOSED}", AMBIGUOUS, f"files/nfc-{DECOMPOSED}"),
    _odd("files/Mixed.JPG", AMBIGUOUS, "files/mixed.jpg"),
    _odd("files/lower.jpg", AMBIGUOUS, "files/LOWER.JPG"),
    _odd("files/STRASSE-2", AMBIGUOUS, "files/straße-2"),
    _odd("files/Atoms for Peace.tif", AMBIGUOUS, "files/Atoms%20for%20Peace.tif"),
    _odd("files/encoded%3Aobject", AMBIGUOUS, "files/encoded:object"),
    _odd("files/twice%2541", AMBIGUOUS, "files/twiceA"),
    _odd("files/plus+object", AMBIGUOUS, "files/plus object"),
    _odd("files/space object", AMBIGUOUS, "files/space+object"),
    _odd("files/leading-slash", AMBIGUOUS, "/files/leading-slash"),
    _odd("files/two//slashes", AMBIGUOUS, "files/two/slashes"),
    _odd("files/one/slash", AMBIGUOUS, "files//one/slash"),
    _odd("files/object-space ", AMBIGUOUS, "files/object-space"),
    _odd("files/row-newline", AMBIGUOUS, "files/row-newline\n"),
    _odd("files/row-tab", AMBIGUOUS, "files/row-tab\t"),
    _odd("files/dot-in-row", AMBIGUOUS, "files/./dot-in-row"),
    _odd("files/s3-address", AMBIGUOUS, "s3://bucket/files/s3-address"),
    _odd("files/web-address.png", AMBIGUOUS, "https://cdn.example.com/files/web-address.png?v=2"),
    _odd("files/absolute", AMBIGUOUS, "/mnt/data/files/absolute"),
    _odd("files/query-in-row", AMBIGUOUS, "files/query-in-row?X-Amz-Expires=60"),
    _odd("files/%e9", AMBIGUOUS, "files/%25e9"),
    _odd("files/everything é", AMBIGUOUS, f"/files//EVERYTHING%20E{DECOMPOSED[1]}\n"),
    # Both forms exist, and one row: the exact one is meant, the other may be.
    _odd(f"files/twin-{COMPOSED}", REFERENCED, f"files/twin-{COMPOSED}"),
    _odd(f"files/twin-{DECOMPOSED}", AMBIGUOUS),
    _odd("files/Twin", REFERENCED, "files/Twin"),
    _odd("files/twin", AMBIGUOUS),
    # Derived objects stay with their owner, which is a row and need not be an object.
    _odd("files/plain/thumb.webp", DERIVED),
    _odd("files/plain/hls/0.ts", DERIVED),
    _odd("files/plain.info", DERIVED),
    _odd("files/plain/thumb.webp.info", DERIVED),
    _odd("files/gone/thumb.webp", ORPHAN),
    _odd("files/gone.info", ORPHAN),
    _odd("files/UPPER-case.jpg.info", AMBIGUOUS),
    # Never deleted, whatever the rows say.
    _odd("files/brand/logo.png", PROTECTED),
    _odd("files/logo", PROTECTED),
    _odd("files/logo/small.png", PROTECTED),
    _odd("files/", MARKER),
    _odd("files/2024/", MARKER),
    _odd("files/a/../b", UNKNOWN, only_in_memory=True),
    _odd("files/a/./c", UNKNOWN, only_in_memory=True),
    _odd(b"files/\xff\xfe", UNKNOWN, only_in_memory=True),
    _odd(b"files/\xed\xa0\x80surrogate", UNKNOWN, only_in_memory=True),
    _odd("files/with\x00nul", ORPHAN, only_in_memory=True),
)

ROWS: tuple[str, ...] = tuple(row for odd in ODD_KEYS for row in odd.rows)
