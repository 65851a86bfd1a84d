"""Looks at single objects (HEAD): is each there, how large is it, and what does the server say?

`measure` asks for many at once, by a listing where that pays; that one is absent only a HEAD says.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from botocore.exceptions import ClientError, ParamValidationError

from filejobs_dagster.book.outcomes import Locked, StorageRejected
from filejobs_dagster.objects.errors import (
    StorageError,
    concerns_every_request,
    described,
    status_of,
)
from filejobs_dagster.objects.finding import Present, found_for_less
from filejobs_dagster.objects.identity import without_quotes
from filejobs_dagster.objects.targets import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import HeadObjectOutputTypeDef

THREADS = 8

ReadT = TypeVar("ReadT")


@dataclass(frozen=True)
class Absent:
    """No object of that key, or no such version of it.

    Attributes:
        delete_marker: True when older versions lie behind a delete marker.
    """

    delete_marker: bool


CloseSighting: TypeAlias = "Present | Absent | StorageError"


def look_at_targets(
    client: S3Client,
    bucket: str,
    targets: Sequence[Target],
    *,
    threads: int = THREADS,
    without_versions: bool = False,
    by_listing: bool = False,
) -> dict[Target, CloseSighting]:
    """Ask for each target whether it is there, as closely as a deletion needs to know it.

    Args:
        client: From `make_client`.
        bucket: The bucket's name.
        targets: Repeated ones count once.
        threads: How many requests are under way at once.
        without_versions: True where the bucket keeps no versions, and so knows no locks either:
            what can be found for less than a HEAD then says all that a HEAD would.
        by_listing: True where a listing may say it, too, although it may be behind: the deletion
            that follows names the ETag, and the server obeys that.

    Raises:
        StorageRejected: No request can succeed: credentials, connection, throttling.
    """
    listed: dict[str, Present] = {}
    if without_versions:
        keys = [it.key for it in targets if it.version is None]
        listed = found_for_less(client, bucket, keys, by_listing=by_listing)
    seen: dict[Target, CloseSighting] = {
        it: listed[it.key] for it in targets if it.version is None and it.key in listed
    }
    others = [it for it in targets if it not in seen]
    return seen | ask_each(client, bucket, others, _present, threads=threads)


def ask_each(
    client: S3Client,
    bucket: str,
    targets: Sequence[Target],
    read: Callable[[HeadObjectOutputTypeDef], ReadT],
    *,
    threads: int = THREADS,
) -> dict[Target, ReadT | Absent | StorageError]:
    """Ask for each target, some at a time, and take the bucket for granted.

    Args:
        client: From `make_client`.
        bucket: The bucket's name.
        targets: Repeated ones count once.
        read: Makes of the server's answer what is wanted of it.
        threads: How many requests are under way at once.

    Raises:
        StorageRejected: No request can succeed: credentials, connection, throttling.
    """
    distinct = tuple(dict.fromkeys(targets))
    if not distinct:
        return {}
    with ThreadPoolExecutor(max_workers=min(threads, len(distinct))) as pool:
        try:
            sightings = list(pool.map(lambda it: _ask(client, bucket, it, read), distinct))
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


def _ask(
    client: S3Client,
    bucket: str,
    target: Target,
    read: Callable[[HeadObjectOutputTypeDef], ReadT],
) -> ReadT | Absent | StorageError:
    version: dict[str, Any] = {} if target.version is None else {"VersionId": target.version}
    try:
        answer = client.head_object(Bucket=bucket, Key=target.key, **version)
    except ClientError as error:
        missing = _missing(error, target)
        if missing is not None:
            return missing
        if concerns_every_request(error):
            raise rejected(bucket, error) from error
        return described(error)
    except (ParamValidationError, UnicodeError) as error:
        # An empty key, or one that is no UTF-8: S3 has no such key.
        return described(error)
    except Exception as error:
        raise rejected(bucket, error) from error
    return read(answer)


def _missing(error: ClientError, target: Target) -> Absent | StorageError | None:
    """What a refusal says of the object's absence; None when it says nothing of it."""
    headers = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    marker = headers.get("x-amz-delete-marker") == "true"
    status = status_of(error)
    if marker and status in {HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED}:
        # Of a version that was named, the header says that this version is itself the marker.
        if target.version is None:
            return Absent(delete_marker=True)
        return StorageError("DeleteMarker", "this version is a delete marker, and it is there")
    return Absent(delete_marker=False) if status == HTTPStatus.NOT_FOUND else None


def _present(answer: HeadObjectOutputTypeDef) -> Present:
    return Present(
        etag=without_quotes(answer.get("ETag", "")),
        size=answer.get("ContentLength", 0),
        modified=answer.get("LastModified"),
        version=answer.get("VersionId"),
        lock=Locked.in_force(
            until=answer.get("ObjectLockRetainUntilDate") if answer.get("ObjectLockMode") else None,
            legal_hold=answer.get("ObjectLockLegalHoldStatus") == "ON",
        ),
    )


# Asks which objects are there, and how large they are.


def measure(
    client: S3Client, bucket: str, keys: Sequence[str], *, threads: int = THREADS
) -> dict[str, Present | StorageError | None]:
    """Ask for each key whether its object is there: by listing where that pays, else by HEAD.

    That an object is absent is only ever said by a HEAD of that key.

    Returns:
        For each key the object, None when there is none, or why storage would not say. A key that
        is absent and a key that must not be read look alike to S3 when the right to list is
        missing: then the answer is an error, never None.

    Raises:
        StorageRejected: No request can succeed: credentials, connection, or no such bucket.
    """
    measured: dict[str, Present | StorageError | None] = {**found_for_less(client, bucket, keys)}
    others = [Target(key) for key in keys if key not in measured]
    for target, sighting in ask_each(client, bucket, others, _present, threads=threads).items():
        measured[target.key] = None if isinstance(sighting, Absent) else sighting
    if None in measured.values():
        require_bucket(client, bucket)
    return measured
