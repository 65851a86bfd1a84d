"""Asks which objects are there, and how large they are."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeAlias

from botocore.exceptions import ClientError, ParamValidationError

from filejobs_dagster.objects.deletion import StorageRejected
from filejobs_dagster.objects.errors import (
    StorageError,
    concerns_every_request,
    described,
    status_of,
)
from filejobs_dagster.objects.found_by_listing import Found, found_by_listing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mypy_boto3_s3 import S3Client

__all__ = ["Absent", "Found", "Sighting", "look", "measure"]

THREADS = 8


@dataclass(frozen=True)
class Absent:
    """No object of that key.

    Attributes:
        delete_marker: True when older versions lie behind a delete marker.
    """

    delete_marker: bool


Sighting: TypeAlias = "Found | Absent | StorageError"


def measure(
    client: S3Client, bucket: str, keys: Sequence[str], *, threads: int = THREADS
) -> dict[str, Found | StorageError | None]:
    """Ask for each key whether its object is there: by listing where that pays, else by HEAD.

    That an object is absent is only ever said by a HEAD of that key.

    Returns:
        For each key the object, None when there is none, or why storage would not say. A key that
        is absent and a key that must not be read look alike to S3 when the right to list is
        missing: then the answer is an error, never None.

    Raises:
        StorageRejected: No request can succeed: credentials, connection, or no such bucket.
    """
    listed = found_by_listing(client, bucket, keys)
    others = [key for key in keys if key not in listed]
    seen = {**listed, **look(client, bucket, others, threads=threads)}
    if any(isinstance(sighting, Absent) for sighting in seen.values()):
        _require_bucket(client, bucket)
    return {key: None if isinstance(it, Absent) else it for key, it in seen.items()}


def look(
    client: S3Client, bucket: str, keys: Sequence[str], *, threads: int = THREADS
) -> dict[str, Sighting]:
    """As `measure`, but tell a delete marker from nothing, and take the bucket for granted."""
    distinct = tuple(dict.fromkeys(keys))
    if not distinct:
        return {}
    with ThreadPoolExecutor(max_workers=min(threads, len(distinct))) as pool:
        try:
            sightings = list(pool.map(lambda key: _look_at(client, bucket, key), distinct))
        except StorageRejected:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return dict(zip(distinct, sightings, strict=True))


def _look_at(client: S3Client, bucket: str, key: str) -> Sighting:
    try:
        answer = client.head_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if status_of(error) == HTTPStatus.NOT_FOUND:
            headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
            return Absent(delete_marker=headers.get("x-amz-delete-marker") == "true")
        if concerns_every_request(error):
            raise _rejected(bucket, error) from error
        return described(error)
    except (ParamValidationError, UnicodeError) as error:
        # An empty key, or one that is no UTF-8: S3 has no such key.
        return described(error)
    except Exception as error:
        raise _rejected(bucket, error) from error
    return Found(size=answer.get("ContentLength", 0), etag=answer.get("ETag", ""))


def _require_bucket(client: S3Client, bucket: str) -> None:
    """HEAD has no body, so in a bucket that is gone every key looks absent: tell them apart."""
    try:
        client.head_bucket(Bucket=bucket)
    except ClientError as error:
        if status_of(error) == HTTPStatus.FORBIDDEN:
            return
        raise _rejected(bucket, error) from error
    except Exception as error:
        raise _rejected(bucket, error) from error


def _rejected(bucket: str, error: Exception) -> StorageRejected:
    return StorageRejected(
        f"Storage did not say which objects of bucket {bucket!r} are there: {described(error)}. "
        "Nothing can be concluded from that; see what `filejobs doctor` says of the bucket."
    )
