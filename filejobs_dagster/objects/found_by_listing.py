"""Finds objects by listing where they lie close together, which costs far less than one HEAD each.

A listed entry takes a client a twentieth of the time of a HEAD, and a page brings a thousand of
them in one request. That pays where many of the entries are wanted, and not where the keys lie
scattered among millions of others, so the first page is a small one that tells which it is.

Only what a page names counts. A key that no page names is not thereby absent: whoever needs to
know asks for it by itself.
"""

from __future__ import annotations

import os.path
from dataclasses import dataclass
from typing import TYPE_CHECKING

from filejobs_dagster.objects.keys import needs_single_delete

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mypy_boto3_s3 import S3Client

FEWEST_KEYS = 50
"""Below it, a HEAD for each key is as good."""

FIRST_PAGE = 100
PAGE = 1000

ENTRIES_PER_HEAD = 16
"""How many listed entries take the time of one HEAD, with some room for error."""


@dataclass(frozen=True)
class Found:
    """An object that is there.

    Attributes:
        size: In bytes.
        etag: As the server wrote it, with its quotes; empty when it sent none.
    """

    size: int
    etag: str


def found_by_listing(client: S3Client, bucket: str, keys: Sequence[str]) -> dict[str, Found]:
    """Return those of the keys that a listing names, as far as listing pays.

    An error of storage ends the listing and is not raised: the keys that are not in the answer
    have to be asked for anyway, and then storage says again what is wrong.
    """
    # What XML cannot carry faithfully may come back as another key's name.
    wanted = {key for key in keys if not needs_single_delete(key)}
    if len(wanted) < FEWEST_KEYS:
        return {}
    ordered = sorted(wanted, key=str.encode)
    # Part of the request, because a right to list may reach no further than a prefix.
    prefix = os.path.commonprefix([ordered[0], ordered[-1]])  # noqa: RUF071 (characters are meant)
    found: dict[str, Found] = {}
    after, last, size = ordered[0], ordered[-1].encode(), FIRST_PAGE
    while True:
        try:
            answer = client.list_objects_v2(
                Bucket=bucket, Prefix=prefix, StartAfter=after, MaxKeys=size
            )
        except Exception:  # noqa: BLE001 (whatever it is, the HEAD that follows meets it, too)
            return found
        entries = answer.get("Contents", [])
        hits = {
            entry["Key"]: Found(size=entry.get("Size", 0), etag=entry.get("ETag", ""))
            for entry in entries
            if entry["Key"] in wanted
        }
        found |= hits
        if not answer.get("IsTruncated") or len(hits) * ENTRIES_PER_HEAD < len(entries):
            return found
        # A server that lists in another order would go round in circles.
        if not entries or not after.encode() < entries[-1]["Key"].encode() < last:
            return found
        after, size = entries[-1]["Key"], PAGE
