"""Looks at single objects (HEAD) as closely as a deletion needs it: time, version, lock."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeAlias

from botocore.exceptions import ClientError, ParamValidationError

from filejobs_dagster.objects.deletion import StorageRejected
from filejobs_dagster.objects.errors import (
    StorageError,
    concerns_every_request,
    described,
    status_of,
)
from filejobs_dagster.objects.measure import THREADS, Absent
from filejobs_dagster.objects.removal import Locked

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.objects.targets import Target


@dataclass(frozen=True)
class Present:
    """An object, or a version of it, that is there.

    Attributes:
        etag: Without quotes; empty when the server sent none.
        size: In bytes.
        modified: None when the server did not say.
        version: The version's identifier; None where the bucket keeps none.
        lock: What retains it, as far as the server says so in this answer.
    """

    etag: str
    size: int
    modified: datetime | None
    version: str | None
    lock: Locked | None


CloseSighting: TypeAlias = "Present | Absent | StorageError"


def look_at_targets(
    client: S3Client, bucket: str, targets: Sequence[Target], *, threads: int = THREADS
) -> dict[Target, CloseSighting]:
    """Ask for each target whether it is there, and take the bucket for granted.

    Raises:
        StorageRejected: No request can succeed: credentials, connection, throttling.
    """
    distinct = tuple(dict.fromkeys(targets))
    if not distinct:
        return {}
    with ThreadPoolExecutor(max_workers=min(threads, len(distinct))) as pool:
        try:
            sightings = list(pool.map(lambda target: _look_at(client, bucket, target), distinct))
        except StorageRejected:
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return dict(zip(distinct, sightings, strict=True))


def require_bucket(client: S3Client, bucket: str) -> None:
    """HEAD has no body, so in a bucket that is gone every key looks absent: tell them apart.

    Raises:
        StorageRejected: The bucket is not there, or does not answer.
    """
    try:
        client.head_bucket(Bucket=bucket)
    except ClientError as error:
        if status_of(error) == HTTPStatus.FORBIDDEN:
            return
        raise rejected(bucket, error) from error
    except Exception as error:
        raise rejected(bucket, error) from error


def rejected(bucket: str, error: BaseException) -> StorageRejected:
    """Storage did not say what is there, so nothing can be concluded."""
    return StorageRejected(
        f"Storage did not say which objects of bucket {bucket!r} are there: {described(error)}. "
        "Nothing can be concluded from that; see what `filejobs doctor` says of the bucket."
    )


def _look_at(client: S3Client, bucket: str, target: Target) -> CloseSighting:
    version: dict[str, Any] = {} if target.version is None else {"VersionId": target.version}
    try:
        answer = client.head_object(Bucket=bucket, Key=target.key, **version)
    except ClientError as error:
        if status_of(error) in {HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED}:
            headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
            marker = headers.get("x-amz-delete-marker") == "true"
            if status_of(error) == HTTPStatus.NOT_FOUND or marker:
                return Absent(delete_marker=marker)
        if concerns_every_request(error):
            raise rejected(bucket, error) from error
        return described(error)
    except (ParamValidationError, UnicodeError) as error:
        # An empty key, or one that is no UTF-8: S3 has no such key.
        return described(error)
    except Exception as error:
        raise rejected(bucket, error) from error
    return Present(
        etag=answer.get("ETag", "").strip('"'),
        size=answer.get("ContentLength", 0),
        modified=answer.get("LastModified"),
        version=answer.get("VersionId"),
        lock=_lock_in(answer),
    )


def _lock_in(answer: Any) -> Locked | None:
    until = answer.get("ObjectLockRetainUntilDate") if answer.get("ObjectLockMode") else None
    held = answer.get("ObjectLockLegalHoldStatus") == "ON"
    return Locked(until=until, legal_hold=held) if until is not None or held else None
