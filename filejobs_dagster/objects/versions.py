"""The versions of exactly one key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from filejobs_dagster.objects.errors import StorageError, concerns_every_request, described
from filejobs_dagster.objects.heads import rejected
from filejobs_dagster.objects.identity import without_quotes

if TYPE_CHECKING:
    from datetime import datetime

    from mypy_boto3_s3 import S3Client

PAGE = 1000
MOST_AT_ONCE = 5000
"""So many versions of one key are kept in memory; whoever has more comes back for the rest."""


@dataclass(frozen=True)
class Version:
    """A version of an object, or a delete marker.

    Attributes:
        identifier: `null` for one that was written while no versions were kept.
        latest: True for the one that a simple GET returns, or that hides the others.
        marker: True for a delete marker, which has no bytes.
        size: In bytes.
        etag: Without quotes; empty for a marker.
        modified: When it was written; None when the server did not say.
    """

    identifier: str
    latest: bool
    marker: bool
    size: int
    etag: str
    modified: datetime | None


@dataclass(frozen=True)
class VersionsOfKey:
    """What was found.

    Attributes:
        versions: As the server lists them: the newest first.
        complete: False when there are more than fitted.
    """

    versions: tuple[Version, ...]
    complete: bool


def versions_of(
    client: S3Client, bucket: str, key: str, *, most: int = MOST_AT_ONCE
) -> VersionsOfKey | StorageError:
    """List every version and delete marker of a key, and of no other that begins like it.

    Returns:
        Or why storage would not say.

    Raises:
        StorageRejected: No request can succeed: credentials, connection, throttling.
    """
    found: list[Version] = []
    position: dict[str, Any] = {}
    while True:
        try:
            page = client.list_object_versions(
                Bucket=bucket, Prefix=key, MaxKeys=min(PAGE, most), **position
            )
        except ClientError as error:
            if concerns_every_request(error):
                raise rejected(bucket, error) from error
            return described(error)
        except Exception as error:
            raise rejected(bucket, error) from error
        entries = [
            *((entry, False) for entry in page.get("Versions", [])),
            *((entry, True) for entry in page.get("DeleteMarkers", [])),
        ]
        found += [_read(entry, marker=marker) for entry, marker in entries if entry["Key"] == key]
        # The shortest key of a prefix is the prefix itself, and it comes first; a page that names
        # another key as well has shown the last of ours.
        others = any(entry["Key"] != key for entry, _ in entries)
        if not page.get("IsTruncated") or others:
            return VersionsOfKey(tuple(found), complete=True)
        if len(found) >= most:
            return VersionsOfKey(tuple(found), complete=False)
        following = {
            "KeyMarker": page.get("NextKeyMarker", ""),
            "VersionIdMarker": page.get("NextVersionIdMarker", ""),
        }
        if following == position or not following["KeyMarker"]:
            return StorageError(
                "IncompleteListing", "the server says that there are more versions and not where"
            )
        position = {name: value for name, value in following.items() if value}


def _read(entry: Any, *, marker: bool) -> Version:
    return Version(
        identifier=entry.get("VersionId") or "null",
        latest=bool(entry.get("IsLatest")),
        marker=marker,
        size=entry.get("Size", 0),
        etag=without_quotes(str(entry.get("ETag", ""))),
        modified=entry.get("LastModified"),
    )
