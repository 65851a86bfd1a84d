"""Reads the objects of a page with a real XML parser, whatever their layout."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from filejobs_dagster.objects.listing.failure import ListingFailed

if TYPE_CHECKING:
    import xml.etree.ElementTree as ET
    from collections.abc import Sequence

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
