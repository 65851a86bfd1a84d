"""Users who may not delete everything: what is refused is never called deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.book.outcomes import StorageRejected
from filejobs_dagster.objects.client import check_access
from tests.conformance.gateway import listed, put, set_policy, statement
from tests.objects.deleting import delete_objects
from tests.objects.grouped import Deletion

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

pytestmark = pytest.mark.conformance

KEYS = ("files/a", "files/b", "files/held/c")
ALONE = ("files/new\nline", "files/held/new\nline")


@pytest.fixture
def filled_bucket(owner: S3Client, bucket: str) -> str:
    put(owner, bucket, [*KEYS, *ALONE])
    return bucket


def test_a_user_without_the_right_to_delete_stops_the_deletion(
    owner: S3Client, guest: S3Client, filled_bucket: str
) -> None:
    set_policy(
        owner,
        filled_bucket,
        statement(filled_bucket, "Allow", ["ListBucket", "GetObject", "PutObject"], ["", "/*"]),
    )
    check_access(guest, filled_bucket)

    with pytest.raises(StorageRejected, match="AccessDenied") as caught:
        delete_objects(guest, filled_bucket, [*KEYS, *ALONE])

    assert caught.value.so_far == Deletion()
    assert set(caught.value.unanswered) == {*KEYS, *ALONE}
    assert set(listed(owner, filled_bucket)) == {*KEYS, *ALONE}


def test_a_key_that_goes_alone_is_refused_alone(
    owner: S3Client, guest: S3Client, filled_bucket: str
) -> None:
    deletion = delete_objects(guest, filled_bucket, ALONE)
    assert deletion == Deletion(failed=dict.fromkeys(ALONE, "AccessDenied"))
    assert set(listed(owner, filled_bucket)) == {*KEYS, *ALONE}


def test_the_refused_part_of_a_batch_fails_key_by_key_and_the_rest_goes(
    owner: S3Client, guest: S3Client, filled_bucket: str
) -> None:
    set_policy(
        owner,
        filled_bucket,
        statement(filled_bucket, "Allow", ["ListBucket", "GetObject", "DeleteObject"], ["", "/*"]),
        statement(filled_bucket, "Deny", ["DeleteObject"], ["/files/held/*"]),
    )

    deletion = delete_objects(guest, filled_bucket, [*KEYS, *ALONE])

    held = {"files/held/c", "files/held/new\nline"}
    assert set(deletion.deleted) == {*KEYS, *ALONE} - held
    assert set(deletion.failed) == held
    assert all(reason.startswith("AccessDenied") for reason in deletion.failed.values())
    assert set(listed(owner, filled_bucket)) == held


def test_a_refusal_hides_inside_a_200_control(
    owner: S3Client, guest: S3Client, filled_bucket: str
) -> None:
    set_policy(
        owner,
        filled_bucket,
        statement(filled_bucket, "Allow", ["DeleteObject"], ["", "/*"]),
        statement(filled_bucket, "Deny", ["DeleteObject"], ["/files/held/*"]),
    )
    careless = guest.delete_objects(
        Bucket=filled_bucket, Delete={"Objects": [{"Key": key} for key in KEYS]}
    )
    assert careless["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert "files/held/c" in listed(owner, filled_bucket)


def test_the_owner_too_is_held_by_a_policy_that_denies(owner: S3Client, filled_bucket: str) -> None:
    deny = statement(filled_bucket, "Deny", ["DeleteObject"], ["/files/held/*"])
    set_policy(owner, filled_bucket, deny | {"Principal": "*"})
    deletion = delete_objects(owner, filled_bucket, KEYS)
    assert deletion.deleted == ("files/a", "files/b")
    assert set(deletion.failed) == {"files/held/c"}
    assert set(listed(owner, filled_bucket)) == {"files/held/c", *ALONE}


def test_a_right_over_objects_alone_serves_single_deletions_and_no_batch(
    owner: S3Client, guest: S3Client, filled_bucket: str
) -> None:
    """AWS asks for s3:DeleteObject on each object; Ceph 16 first asks for it on the bucket."""
    set_policy(
        owner,
        filled_bucket,
        statement(filled_bucket, "Allow", ["ListBucket"], [""]),
        statement(filled_bucket, "Allow", ["GetObject", "DeleteObject"], ["/*"]),
    )
    check_access(guest, filled_bucket)

    assert delete_objects(guest, filled_bucket, ALONE) == Deletion(deleted=ALONE)
    with pytest.raises(StorageRejected, match="AccessDenied") as caught:
        delete_objects(guest, filled_bucket, KEYS)

    assert caught.value.unanswered == KEYS
    assert set(listed(owner, filled_bucket)) == set(KEYS)
    assert f"arn:aws:s3:::{filled_bucket}" in caught.value.reason
