"""Tells a lock or a legal hold from a right that is missing: both answer AccessDenied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from filejobs_dagster.book.outcomes import Locked
from filejobs_dagster.objects.errors import described

if TYPE_CHECKING:
    from datetime import datetime

    from mypy_boto3_s3 import S3Client

_NO_LOCK = frozenset(
    {"NoSuchObjectLockConfiguration", "InvalidRequest", "ObjectLockConfigurationNotFoundError"}
)
"""Codes that say that nothing retains the version, or that the bucket has no locks at all."""


def lock_of(client: S3Client, bucket: str, key: str, version: str) -> Locked | None:
    """Read what retains a version, after it was refused to delete it.

    Returns:
        None when no lock is to be seen: either there is none, so that the refusal was a matter of
        rights, or the right to read locks is missing, too.
    """
    until = _retained_until(client, bucket, key, version)
    held = _held(client, bucket, key, version)
    return Locked.in_force(until=until, legal_hold=held)


def _retained_until(client: S3Client, bucket: str, key: str, version: str) -> datetime | None:
    try:
        answer = client.get_object_retention(Bucket=bucket, Key=key, VersionId=version)
    except (ClientError, BotoCoreError):
        return None
    return answer.get("Retention", {}).get("RetainUntilDate")


def _held(client: S3Client, bucket: str, key: str, version: str) -> bool:
    try:
        answer = client.get_object_legal_hold(Bucket=bucket, Key=key, VersionId=version)
    except (ClientError, BotoCoreError):
        return False
    return answer.get("LegalHold", {}).get("Status") == "ON"


def locks_are_readable(client: S3Client, bucket: str, key: str, version: str) -> bool:
    """False when the right to read locks is missing, so that none being seen says nothing."""
    try:
        client.get_object_retention(Bucket=bucket, Key=key, VersionId=version)
    except ClientError as error:
        return described(error).code in _NO_LOCK
    except BotoCoreError:
        return False
    return True
