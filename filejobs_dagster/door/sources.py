"""What keeps objects alive: sources that know their own keys, and protection that protects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from filejobs_dagster.door.guard import Guard, Refusal
from filejobs_dagster.ledger.sanitize import sanitize_exception
from filejobs_dagster.references.check import ReferenceCheck, ReferencesUnknown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.collector import Touch
    from filejobs_dagster.door.guard import BucketAt, Look

MOST_LOOKED_FOR = 100
"""Entries of `protect`: each takes a request or two."""


class Sources(Guard):
    """Every source answers, shows every row and knows its own keys.

    An entry of `protect` under which no object lies refuses nothing: there may be none yet. It is
    named each time, because it is more often a slip of the pen.
    """

    name = "sources"
    protects: frozenset[Touch] = frozenset({"objects", "multipart uploads"})

    def look(self, at: Look) -> str:
        """Ask every source, and look for what is protected."""
        swept = [bucket for bucket in at.buckets if bucket.deletes]
        return "; ".join(said for bucket in swept for said in _looked_at(at, bucket))


def _looked_at(at: Look, bucket: BucketAt) -> Iterator[str]:
    settings = bucket.settings
    try:
        with ReferenceCheck(
            at.connection, settings.sources, schema=at.database.schema
        ) as references:
            remarks = [*references.examine()]
    except ReferencesUnknown as unknown:
        raise Refusal(str(unknown), "Nothing was touched.") from unknown
    remarks += _without_object(bucket)
    for remark in remarks:
        at.log.warning("Bucket %s: %s.", bucket.entry, remark)
    names = ["the project's own tables", *(source.name for source in settings.sources)]
    yield f"{bucket.entry}: {', '.join(names)} answer and know their own keys"
    yield from remarks


def _without_object(bucket: BucketAt) -> Iterator[str]:
    """What protects nothing at the moment, in sentences without a full stop."""
    entries = bucket.settings.protect
    try:
        empty = [entry for entry in entries[:MOST_LOOKED_FOR] if not _lies_there(bucket, entry)]
    except (ClientError, BotoCoreError) as error:
        yield (
            "whether anything lies under protect could not be looked at: "
            f"{sanitize_exception(error, limit=300)}"
        )
        return
    for entry in empty:
        yield (
            f"no object lies under the entry {entry!r} of protect, so it protects nothing: if "
            "something should lie there, look how the bucket lists its key"
        )
    if len(entries) > MOST_LOOKED_FOR:
        yield f"of {len(entries)} entries of protect the first {MOST_LOOKED_FOR} were looked for"


def _lies_there(bucket: BucketAt, entry: str) -> bool:
    """True when an object is protected by the entry, as the gate reads it."""
    below = entry if entry.endswith("/") else f"{entry}/"
    # In the order of a listing the key itself comes before everything that it begins.
    return any(
        key == entry or key.startswith(below)
        for prefix in dict.fromkeys((entry, below))
        for key in _first_key(bucket, prefix)
    )


def _first_key(bucket: BucketAt, prefix: str) -> list[str]:
    page = bucket.client.list_objects_v2(Bucket=bucket.settings.bucket, Prefix=prefix, MaxKeys=1)
    return [one["Key"] for one in page.get("Contents", [])]
