"""In a bucket that keeps versions a deletion frees nothing, and a lock holds what it holds."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, TypeAlias

import pytest
from botocore.exceptions import ClientError

from tests.conformance.gateway import listed, put, versions
from tests.objects.deleting import delete_objects
from tests.objects.grouped import Deletion

if TYPE_CHECKING:
    from collections.abc import Callable

    from mypy_boto3_s3 import S3Client

pytestmark = pytest.mark.conformance

Lock: TypeAlias = "Callable[[S3Client, str, str], None]"

KEYS = ("files/a", "files/new\nline")
"""The first goes in a batch, the second alone."""


def test_objects_are_marked_and_their_versions_are_still_there(
    owner: S3Client, versioned_bucket: str
) -> None:
    put(owner, versioned_bucket, [*KEYS, "files/stays"])
    put(owner, versioned_bucket, KEYS, b"newer")
    before = versions(owner, versioned_bucket)

    deletion = delete_objects(owner, versioned_bucket, KEYS)

    assert deletion == Deletion(marked=KEYS)
    assert listed(owner, versioned_bucket) == ["files/stays"]
    after = versions(owner, versioned_bucket)
    assert after.kept == before.kept
    assert len(after.kept) == 5
    assert after.marked == sorted(KEYS)


def test_a_second_deletion_adds_no_second_marker_here(
    owner: S3Client, versioned_bucket: str
) -> None:
    """Ceph then says deleted, as of a key that never had an object; it does not say marked."""
    put(owner, versioned_bucket, KEYS)
    delete_objects(owner, versioned_bucket, KEYS)
    before = versions(owner, versioned_bucket)

    assert delete_objects(owner, versioned_bucket, KEYS) == Deletion(deleted=KEYS)

    assert versions(owner, versioned_bucket) == before
    assert len(before.kept) == 2


def test_where_versioning_is_suspended_older_versions_stay_behind_the_marker(
    owner: S3Client, versioned_bucket: str
) -> None:
    put(owner, versioned_bucket, KEYS)
    before = versions(owner, versioned_bucket)
    owner.put_bucket_versioning(
        Bucket=versioned_bucket, VersioningConfiguration={"Status": "Suspended"}
    )
    assert delete_objects(owner, versioned_bucket, KEYS) == Deletion(marked=KEYS)
    assert listed(owner, versioned_bucket) == []
    assert versions(owner, versioned_bucket).kept == before.kept


def retain(client: S3Client, bucket: str, key: str) -> None:
    client.put_object_retention(
        Bucket=bucket,
        Key=key,
        Retention={
            "Mode": "COMPLIANCE",
            "RetainUntilDate": datetime.now(timezone.utc) + timedelta(days=1),
        },
    )


def hold(client: S3Client, bucket: str, key: str) -> None:
    client.put_object_legal_hold(Bucket=bucket, Key=key, LegalHold={"Status": "ON"})


@pytest.mark.parametrize("lock", [retain, hold])
@pytest.mark.parametrize("key", KEYS, ids=["in a batch", "alone"])
def test_a_locked_object_is_marked_and_never_called_deleted(
    owner: S3Client, locking_bucket: str, lock: Lock, key: str
) -> None:
    put(owner, locking_bucket, [key])
    lock(owner, locking_bucket, key)
    before = versions(owner, locking_bucket)

    assert delete_objects(owner, locking_bucket, [key]) == Deletion(marked=(key,))

    after = versions(owner, locking_bucket)
    assert after.kept == before.kept
    assert after.marked == [key]


@pytest.mark.parametrize("lock", [retain, hold])
def test_the_lock_is_real_control(owner: S3Client, locking_bucket: str, lock: Lock) -> None:
    """Only whoever names the version meets the lock: a 403 alone, an error inside a 200 else."""
    put(owner, locking_bucket, ["files/a"])
    lock(owner, locking_bucket, "files/a")
    [(key, version)] = versions(owner, locking_bucket).kept

    with pytest.raises(ClientError, match="AccessDenied"):
        owner.delete_object(Bucket=locking_bucket, Key=key, VersionId=version)
    answer = owner.delete_objects(
        Bucket=locking_bucket, Delete={"Objects": [{"Key": key, "VersionId": version}]}
    )
    assert [error["Code"] for error in answer["Errors"]] == ["AccessDenied"]
    assert versions(owner, locking_bucket).kept == {(key, version)}
