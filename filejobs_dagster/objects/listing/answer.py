"""Reads one answer to ListObjectsV2: each byte of it is accounted for, or the listing fails.

The objects are read by one regular expression that splits their section, whose gaps must then be
empty: twenty times as fast as an XML parser. A section that it does not understand to the last
byte goes to `read_entries`, which does with any layout. What surrounds the objects always goes
through a real XML parser. Before both stands the little XML that has to be read by hand, because
servers write in it what XML cannot carry, and the reading of timestamps.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from filejobs_dagster.objects.listing.page import UNKNOWN_TIME, ListingFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# The little XML that is read by hand, because servers write in it what XML cannot carry.
#
# Ceph writes a key such as `a\x01b` as `a&#x1;b` into its continuation token, which every XML
# parser refuses, and a bare carriage return comes out of every parser as a line feed. Both would
# make the next page begin at another key.

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


# Reads the objects of a page with a real XML parser, whatever their layout.

_SIZE = re.compile(r"[0-9]{1,18}")
_BARE_RETURN = re.compile(rb"Key>[^<]*\r[^<]*<")


def read_entries(
    entries: Sequence[ET.Element], document: bytes
) -> tuple[list[bytes], list[bytes | None], list[bytes | None], list[bytes]]:
    """Read key, time, ETag and size of each, escaped again as they stood in the document.

    Raises:
        ListingFailed: One has no key or no size, or a key that XML changed.
    """
    if _BARE_RETURN.search(document):
        raise ListingFailed(
            "The listing has a bare carriage return in a key, which XML turns into a line feed: "
            "the key cannot be known. The server must support `encoding-type=url`."
        )
    keys: list[bytes] = []
    times: list[bytes | None] = []
    etags: list[bytes | None] = []
    sizes: list[bytes] = []
    for entry in entries:
        found = {local_name(element): text_of(element) for element in entry}
        size = found.get("Size", "").strip()
        if not found.get("Key") or not _SIZE.fullmatch(size):
            raise ListingFailed(
                f"The listing has an object whose key is {found.get('Key', '')[:100]!r} and whose "
                f"size is {size[:30]!r}: nothing can be concluded from such an answer."
            )
        keys.append(_escaped(found["Key"]))
        times.append(_escaped(found["LastModified"]) if "LastModified" in found else None)
        etags.append(_escaped(found["ETag"]) if "ETag" in found else None)
        sizes.append(size.encode())
    return keys, times, etags, sizes


def local_name(element: ET.Element) -> str:
    """An element's name without its namespace."""
    return str(element.tag).rpartition("}")[2]


def text_of(element: ET.Element | None) -> str:
    """An element's text, empty when there is none."""
    return "" if element is None else element.text or ""


def _escaped(text: str) -> bytes:
    return escape(text, {"\r": "&#13;"}).encode()


# Reads a page's timestamps: most of a listing's time, when each is read on its own.
#
# Days, minutes of the day and seconds repeat, so each text is three look-ups in small tables.

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MILLISECOND = timedelta(milliseconds=1)
MOST_ENTRIES = 100_000
"""Of a table: more than there are days in a bucket or milliseconds in a minute."""

_ISO = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})"
    r"(?:\.([0-9]{1,9}))?(?:(Z)|([+-][0-9]{2}):?([0-9]{2}))?"
)
_DAY = re.compile(rb"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MINUTE = re.compile(rb"T([01][0-9]|2[0-3]):([0-5][0-9]):")
_SECOND = re.compile(rb"([0-5][0-9])(?:\.([0-9]{1,9}))?Z")


class _Table(dict[bytes, int]):
    """Milliseconds by text, of those texts that were met."""

    def __init__(self, read: Callable[[bytes], int]) -> None:
        super().__init__()
        self._read = read

    def __missing__(self, text: bytes) -> int:
        value = self._read(text)
        if len(self) >= MOST_ENTRIES:
            self.clear()
        self[text] = value
        return value


def milliseconds(texts: Sequence[bytes | None]) -> list[int]:
    """Read timestamps of a listing.

    Returns:
        Milliseconds since 1970, cut; -1 for each that is missing or cannot be read.
    """
    try:
        # A missing one cannot be sliced, and an unusual one is in no table.
        return [_days[it[:10]] + _minutes[it[10:17]] + _seconds[it[17:]] for it in texts]  # type: ignore[index]
    except (TypeError, ValueError):
        return [_one(text) for text in texts]


def _one(text: bytes | None) -> int:
    """As strict as above: a lenient reader finds some time in nearly every text."""
    if not text:
        return UNKNOWN_TIME
    try:
        plain = text.decode("ascii").strip()
        iso = _ISO.fullmatch(plain)
        read = parsedate_to_datetime(plain) if iso is None else _from_iso(iso)
        # botocore, too, takes a time without a zone for UTC.
        aware = read if read.tzinfo else read.replace(tzinfo=timezone.utc)
        return (aware - EPOCH) // MILLISECOND
    except (ValueError, OverflowError, TypeError):
        return UNKNOWN_TIME


def _from_iso(found: re.Match[str]) -> datetime:
    """Python 3.10 knows neither the letter Z nor fractions of another length than 3 or 6."""
    moment, fraction, utc, hours, minutes = found.groups()
    zone = "+00:00" if utc else f"{hours}:{minutes}" if hours else ""
    return datetime.fromisoformat(f"{moment}.{(fraction or '').ljust(6, '0')[:6]}{zone}")


def _matched(pattern: re.Pattern[bytes], text: bytes) -> re.Match[bytes]:
    match = pattern.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return match


def _day(text: bytes) -> int:
    _matched(_DAY, text)
    return (date.fromisoformat(text.decode()) - EPOCH.date()) // MILLISECOND


def _minute(text: bytes) -> int:
    hour, minute = _matched(_MINUTE, text).groups()
    return (int(hour) * 60 + int(minute)) * 60_000


def _second(text: bytes) -> int:
    second, fraction = _matched(_SECOND, text).groups()
    return int(second) * 1000 + int((fraction or b"").ljust(3, b"0")[:3])


_days = _Table(_day)
_minutes = _Table(_minute)
_seconds = _Table(_second)


ROOT = "ListBucketResult"
_OPEN, _CLOSE = b"<Contents>", b"</Contents>"
_PLACE = b"<filejobs-entries/>"

# Elements that hold keys as they are, and so bytes that no XML parser would let through.
_AS_THEY_ARE = re.compile(
    rb"<(Prefix|StartAfter|ContinuationToken|NextContinuationToken)>([^<]*)</\1>"
)
_OTHERS = rb"(?:<(?!/?Contents|Key|LastModified|ETag|Size|[!?])[^<]*)*"
# What AWS and most others send is spelled out, which is faster; anything else may follow.
_ENTRY = re.compile(
    rb"<Contents><Key>([^<]*)</Key>"
    rb"(?:<LastModified>([^<]*)</LastModified>)?"
    rb"(?:<ETag>([^<]*)</ETag>)?"
    rb"(?:<ChecksumAlgorithm>[^<]*</ChecksumAlgorithm>)?"
    rb"(?:<ChecksumType>[^<]*</ChecksumType>)?"
    + _OTHERS
    + rb"<Size>([0-9]{1,18})</Size>"
    + rb"(?:<StorageClass>[^<]*</StorageClass>)?"
    + _OTHERS
    + rb"</Contents>"
)
_GROUPS = 5
"""What stands between two entries, and the four groups."""


@dataclass(frozen=True)
class Answer:
    """A page as the server spelled it.

    Attributes:
        texts: The keys as spelled, before any decoding of percent signs.
        sizes: In bytes.
        modified: Milliseconds since 1970, -1 when unknown.
        etags: Without quotes.
        url_encoded: Whether the server says that it spelled the keys for URLs.
        truncated: Whether it says that there is more.
        token: Where that begins.
        prefix: The prefix as echoed, None when it was not.
    """

    texts: list[bytes]
    sizes: list[int]
    modified: list[int]
    etags: list[bytes]
    url_encoded: bool
    truncated: bool
    token: str | None
    prefix: bytes | None


def read_answer(body: bytes) -> Answer:
    """Read the body of a whole answer.

    Raises:
        ListingFailed: It is no complete, consistent ListBucketResult.
    """
    if b"<!DOCTYPE" in body:
        raise ListingFailed("The listing has a document type, as no S3 server's has: not read.")
    begin, end = body.find(_OPEN), body.rfind(_CLOSE) + len(_CLOSE)
    columns = None
    # A comment could hold anything, and other encodings spell the keys in other bytes.
    if begin >= 0 and b"<!" not in body and _is_utf8(body[:begin]):
        columns = _read_section(body[begin:end])
    if columns is None:
        return _assembled(body, None)
    return _assembled(body[:begin] + _PLACE + body[end:], columns)


Columns = tuple[
    "list[bytes]", "Sequence[bytes | None]", "Sequence[bytes | None]", "Sequence[bytes]"
]


def _read_section(section: bytes) -> Columns | None:
    pieces = _ENTRY.split(section)
    if any(pieces[::_GROUPS]):
        return None
    return pieces[1::_GROUPS], pieces[2::_GROUPS], pieces[3::_GROUPS], pieces[4::_GROUPS]


def _assembled(document: bytes, columns: Columns | None) -> Answer:
    as_they_are: dict[bytes, bytes] = {}

    def set_aside(match: re.Match[bytes]) -> bytes:
        as_they_are[match[1]] = unescaped(match[2])
        return b"<%b></%b>" % (match[1], match[1])

    root = _parsed(_AS_THEY_ARE.sub(set_aside, document))
    by_name: dict[str, ET.Element] = {}
    entries: list[ET.Element] = []
    for element in root:
        name = local_name(element)
        if name == "Contents":
            entries.append(element)
        else:
            by_name[name] = element
    if columns is None:
        columns = read_entries(entries, document)
    elif entries or "filejobs-entries" not in by_name:
        raise ListingFailed("The listing has objects outside of its list: not read.")
    if "CommonPrefixes" in by_name:
        raise ListingFailed(
            "The listing has common prefixes, and none were asked for: objects below them are "
            "missing from it. A proxy between here and the server may have changed the request."
        )
    _require_count(by_name.get("KeyCount"), len(columns[0]))
    texts, times, etags, sizes = columns
    token = as_they_are.get(b"NextContinuationToken")
    return Answer(
        texts=_all_unescaped(texts),
        sizes=list(map(int, sizes)),
        modified=milliseconds(times),
        etags=_without_quotes(etags),
        url_encoded=text_of(by_name.get("EncodingType")).strip().lower() == "url",
        truncated=_is_true(by_name.get("IsTruncated")),
        token=_decoded(token) if token else text_of(by_name.get("NextContinuationToken")) or None,
        prefix=as_they_are.get(b"Prefix"),
    )


def _parsed(document: bytes) -> ET.Element:
    try:
        root = ET.fromstring(document)  # noqa: S314 (without a document type there are no entities)
    except (ET.ParseError, LookupError, ValueError) as error:
        # The last two are about an encoding that is unknown, or that expat cannot decode.
        raise ListingFailed(
            f"The listing is no XML that can be read ({error}). Does the server know "
            "`encoding-type=url`? Without it, keys with control characters cannot be listed."
        ) from error
    if local_name(root) != ROOT:
        raise ListingFailed(f"Instead of a listing the server sent <{local_name(root)[:80]}>.")
    return root


def _require_count(element: ET.Element | None, found: int) -> None:
    said = text_of(element).strip()
    if said and said != str(found):
        raise ListingFailed(
            f"The server says that a page of its listing has {said[:20]} objects, and it has "
            f"{found}: objects are missing from it, or it was changed on its way."
        )


def _is_true(element: ET.Element | None) -> bool:
    said = text_of(element).strip().lower()
    if said not in {"true", "false"}:
        raise ListingFailed(
            f"The listing does not say whether there is more (IsTruncated is {said[:20]!r})."
        )
    return said == "true"


def _all_unescaped(texts: list[bytes]) -> list[bytes]:
    joined = b"".join(texts)
    if b"\r" in joined:
        raise ListingFailed(
            "The listing has a bare carriage return in a key, which XML turns into a line feed: "
            "the key cannot be known. The server must support `encoding-type=url`."
        )
    return list(map(unescaped, texts)) if b"&" in joined else texts


def _without_quotes(etags: Sequence[bytes | None]) -> list[bytes]:
    given = [etag or b"" for etag in etags]
    joined = b"\n".join(given).replace(b"&quot;", b"").replace(b'"', b"")
    plain = joined.split(b"\n")
    if b"&" in joined or len(plain) != len(given):
        return [unescaped(etag).replace(b'"', b"") for etag in given]
    return plain


def _decoded(token: bytes) -> str:
    try:
        return token.decode()
    except UnicodeDecodeError as error:
        raise ListingFailed(f"The continuation token is no text: {token[:100]!r}.") from error


def _is_utf8(head: bytes) -> bool:
    declared = re.match(rb"<\?xml[^>]*encoding=[\"']([^\"']*)", head)
    return head.startswith(b"<") and (
        declared is None or declared[1].lower() in {b"utf-8", b"utf8"}
    )
