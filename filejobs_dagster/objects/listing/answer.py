"""Reads one answer to ListObjectsV2: each byte of it is accounted for, or the listing fails.

The objects are read by one regular expression that splits their section, whose gaps must then be
empty: twenty times as fast as an XML parser. A section that it does not understand to the last
byte goes to `slow.py`, which does with any layout. What surrounds the objects always goes through a
real XML parser.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from typing import TYPE_CHECKING

from filejobs_dagster.objects.listing.failure import ListingFailed
from filejobs_dagster.objects.listing.markup import unescaped
from filejobs_dagster.objects.listing.slow import local_name, read_entries, text_of
from filejobs_dagster.objects.listing.timestamps import milliseconds

if TYPE_CHECKING:
    from collections.abc import Sequence

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
