"""What keeps objects alive: sources that know their own keys, and protection that protects."""

from __future__ import annotations

from collections import Counter
from http import HTTPStatus
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from filejobs_dagster.door.guard import Guard, Refusal
from filejobs_dagster.ledger.sanitize import sanitize_exception
from filejobs_dagster.objects.errors import status_of
from filejobs_dagster.references.check import ReferenceCheck, ReferencesUnknown
from filejobs_dagster.references.measured import Measured, measure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from filejobs_dagster.collector import Touch
    from filejobs_dagster.door.guard import BucketAt, Look

MOST_FOLDERS = 10
"""So many are tried in front of keys that have no object."""

MOST_LOOKED_FOR = 100
"""Entries of `protect`: each takes a request or two."""


class Sources(Guard):
    """Every source answers, shows every row, knows its own keys, and means this bucket.

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
            samples = references.samples
    except ReferencesUnknown as unknown:
        raise Refusal(str(unknown), "Nothing was touched.") from unknown
    measured = [
        _measured(bucket, source.name, samples[source.name])
        for source in settings.sources
        if source.names == "keys"
    ]
    checked = {source.name for source in settings.sources if source.keys_checked_by_hand}
    for seen in measured:
        if not seen.fits and seen.source not in checked:
            raise Refusal(seen.objection(), seen.advice())
    remarks += _without_object(bucket)
    for remark in remarks:
        at.log.warning("Bucket %s: %s.", bucket.entry, remark)
    names = ["the project's own tables", *(source.name for source in settings.sources)]
    yield f"{bucket.entry}: {', '.join(names)} answer and know their own keys"
    for seen in measured:
        yield f"{seen}{'' if seen.fits else ': checked by hand'}"
    yield from remarks


def _measured(bucket: BucketAt, source: str, keys: Mapping[str, bytes]) -> Measured:
    settings = bucket.settings
    return measure(
        source,
        keys,
        owned=settings.owned_prefixes,
        bucket=settings.bucket,
        fronts=lambda: _folders(bucket),
        exists=lambda key: _has_object(bucket, key),
    )


def _has_object(bucket: BucketAt, key: str) -> bool | None:
    """Whether there is an object; None when storage answers neither yes nor no."""
    try:
        bucket.client.head_object(Bucket=bucket.settings.bucket, Key=key)
    except ClientError as error:
        # Encrypted with a customer's key, or no right: something may well lie there.
        return False if status_of(error) == HTTPStatus.NOT_FOUND else None
    except (BotoCoreError, UnicodeError):
        return None
    return True


def _folders(bucket: BucketAt) -> list[str]:
    """Prefixes of what lies first under each owned prefix, those with the most objects first."""
    counts: Counter[str] = Counter()
    for prefix in bucket.settings.owned_prefixes:
        try:
            page = bucket.client.list_objects_v2(Bucket=bucket.settings.bucket, Prefix=prefix)
        except (ClientError, BotoCoreError):
            # Only a hint is lost: the source is refused with or without it.
            continue
        for one in page.get("Contents", []):
            parts = one["Key"].split("/")[:-1]
            counts.update("/".join(parts[:depth]) + "/" for depth in range(1, len(parts) + 1))
    return [folder for folder, _ in counts.most_common(MOST_FOLDERS)]


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
