"""Whether a bucket can be used, and what is in it: the answers of a server that checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.book.outcomes import StorageRejected
from filejobs_dagster.objects.client import BucketUnavailable, check_access, read_versioning
from filejobs_dagster.objects.errors import StorageError
from filejobs_dagster.objects.finding import Present
from filejobs_dagster.objects.heads import measure
from tests.conformance.ceph import OWNER, Account, Ceph
from tests.conformance.gateway import client_of, listed, put, set_policy, statement
from tests.objects.deleting import delete_objects
from tests.objects.grouped import Deletion

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

pytestmark = pytest.mark.conformance

NO_BUCKET = "no-such-bucket"
WRONG_SECRET = Account("owner", OWNER.access_key_id, "not-the-secret-of-the-owner")
UNKNOWN_KEY = Account("nobody", "unknown-access-key", "not-the-secret-of-the-owner")

WRONG_CREDENTIALS = pytest.mark.parametrize(
    ("account", "code"),
    [
        pytest.param(WRONG_SECRET, "SignatureDoesNotMatch", id="wrong secret"),
        pytest.param(UNKNOWN_KEY, "InvalidAccessKeyId", id="unknown key"),
    ],
)


def test_a_bucket_of_ours_can_be_used(owner: S3Client, bucket: str) -> None:
    assert check_access(owner, bucket) is None  # type: ignore[func-returns-value]
    assert read_versioning(owner, bucket) == "off"


@pytest.mark.parametrize(("status", "word"), [("Enabled", "enabled"), ("Suspended", "suspended")])
def test_the_versioning_of_a_bucket_is_read(
    owner: S3Client, versioned_bucket: str, status: str, word: str
) -> None:
    owner.put_bucket_versioning(
        Bucket=versioned_bucket,
        VersioningConfiguration={"Status": status},  # type: ignore[typeddict-item]
    )
    assert read_versioning(owner, versioned_bucket) == word


def test_a_bucket_with_object_lock_keeps_versions(owner: S3Client, locking_bucket: str) -> None:
    assert read_versioning(owner, locking_bucket) == "enabled"


def test_a_missing_bucket_is_named_by_every_question(owner: S3Client) -> None:
    with pytest.raises(BucketUnavailable, match="There is no bucket of that name"):
        check_access(owner, NO_BUCKET)
    with pytest.raises(BucketUnavailable, match="There is no bucket of that name"):
        read_versioning(owner, NO_BUCKET)
    with pytest.raises(StorageRejected, match="Nothing can be concluded"):
        measure(owner, NO_BUCKET, ["files/a"])


@pytest.mark.parametrize("key", ["files/a", "files/new\nline"], ids=["in a batch", "alone"])
def test_nothing_is_called_deleted_in_a_missing_bucket(owner: S3Client, key: str) -> None:
    with pytest.raises(StorageRejected, match="NoSuchBucket") as caught:
        delete_objects(owner, NO_BUCKET, [key])
    assert caught.value.so_far == Deletion()
    assert caught.value.unanswered == (key,)


@WRONG_CREDENTIALS
def test_wrong_credentials_are_named_without_the_secret(
    ceph: Ceph, bucket: str, account: Account, code: str
) -> None:
    client = client_of(ceph.endpoint_url, account)
    with pytest.raises(BucketUnavailable, match=code) as caught:
        check_access(client, bucket)
    assert "check the variables that hold them" in str(caught.value)
    assert account.secret_access_key not in str(caught.value)
    assert read_versioning(client, bucket) == "unknown"


@WRONG_CREDENTIALS
@pytest.mark.parametrize("key", ["files/a", "files/new\nline"], ids=["in a batch", "alone"])
def test_wrong_credentials_stop_the_deletion(
    ceph: Ceph, owner: S3Client, bucket: str, account: Account, code: str, key: str
) -> None:
    put(owner, bucket, [key])
    with pytest.raises(StorageRejected, match=code) as caught:
        delete_objects(client_of(ceph.endpoint_url, account), bucket, [key, "files/other"])
    assert caught.value.so_far == Deletion()
    assert set(caught.value.unanswered) == {key, "files/other"}
    assert listed(owner, bucket) == [key]


@WRONG_CREDENTIALS
def test_with_wrong_credentials_no_object_is_called_absent(
    ceph: Ceph, bucket: str, account: Account, code: str
) -> None:
    measured = measure(client_of(ceph.endpoint_url, account), bucket, ["files/a"])
    # HEAD has no body: Ceph's answer cannot say which of the two keys is wrong.
    assert measured == {"files/a": StorageError("403", "Forbidden")}, code


def test_a_user_without_any_right_is_told_which_are_needed(guest: S3Client, bucket: str) -> None:
    with pytest.raises(BucketUnavailable, match="AccessDenied") as caught:
        check_access(guest, bucket)
    assert "s3:ListBucket" in str(caught.value)
    assert read_versioning(guest, bucket) == "unknown"


def test_objects_are_measured_and_absent_ones_are_none(owner: S3Client, bucket: str) -> None:
    keys = ["files/a", "files/new\nline", "files/\x01", "files/caf\u00e9", "files/a+b", "files//a"]
    for size, key in enumerate(keys):
        put(owner, bucket, [key], b"x" * size)
    measured = measure(owner, bucket, [*keys, "files/absent", "files/cafe\u0301", "files/a b"])
    for size, key in enumerate(keys):
        found = measured[key]
        assert isinstance(found, Present)
        assert found.size == size
        assert found.etag
        assert '"' not in found.etag
    assert [measured[key] for key in ("files/absent", "files/cafe\u0301", "files/a b")] == [
        None
    ] * 3


def test_an_object_behind_a_delete_marker_is_absent(owner: S3Client, versioned_bucket: str) -> None:
    put(owner, versioned_bucket, ["files/a"])
    owner.delete_object(Bucket=versioned_bucket, Key="files/a")
    assert measure(owner, versioned_bucket, ["files/a"]) == {"files/a": None}


def test_without_the_right_to_list_absent_and_forbidden_look_alike_and_none_is_called_absent(
    owner: S3Client, guest: S3Client, bucket: str
) -> None:
    put(owner, bucket, ["files/a"])
    set_policy(owner, bucket, statement(bucket, "Allow", ["GetObject"], ["/*"]))
    measured = measure(guest, bucket, ["files/a", "files/absent"])
    assert isinstance(measured["files/a"], Present)
    assert measured["files/absent"] == StorageError("403", "Forbidden")
