"""Quarantine on real servers: a copy is whole, and nothing is written over."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from filejobs_dagster.objects.deletion_mode import deletion_mode_of
from filejobs_dagster.objects.quarantine import Copying, copies_below
from tests.conformance.ceph import OWNER
from tests.conformance.gateway import client_of
from tests.objects.orphans import gate_on, keys_of, no_proof_needed, put, seen

if TYPE_CHECKING:
    import psycopg
    from mypy_boto3_s3 import S3Client

pytestmark = pytest.mark.conformance

MEBIBYTE = 2**20
KEYS = ("files/a", "files/📎", "files/a+b", "files/a b%20c", "files/e\u0301", "files/?x=1&y#z")
NEW_LINE = "files/new\nline"


@pytest.fixture(params=["ceph", "seaweedfs"])
def server(request: pytest.FixtureRequest) -> tuple[str, S3Client]:
    """The name of a server, and our client on it."""
    name: str = request.param
    if name == "ceph":
        return name, request.getfixturevalue("owner")
    return name, client_of(request.getfixturevalue(name).endpoint_url, OWNER)


@pytest.fixture
def place(server: tuple[str, S3Client]) -> str:
    """A new bucket there."""
    name = f"test-{uuid.uuid4().hex}"
    server[1].create_bucket(Bucket=name)
    return name


def whole(client: S3Client, bucket: str, key: str) -> dict[str, Any]:
    answer: Any = client.get_object(Bucket=bucket, Key=key)
    tags = client.get_object_tagging(Bucket=bucket, Key=key)["TagSet"]
    names = ("ContentType", "CacheControl", "ContentDisposition", "Metadata", "ContentLength")
    return {
        **{name: answer.get(name) for name in names},
        "body": answer["Body"].read(),
        "tags": sorted((tag["Key"], tag["Value"]) for tag in tags),
    }


def put_whole(client: S3Client, bucket: str, key: str, body: bytes) -> None:
    client.put_object(
        Bucket=bucket,
        Key=key,
        Body=body,
        ContentType="image/png",
        CacheControl="max-age=5",
        ContentDisposition='attachment; filename="a.png"',
        Metadata={"owner": "ada"},
        Tagging="team=red&of=files",
    )


def test_what_goes_comes_back_whole_and_over_nothing(
    server: tuple[str, S3Client], place: str, connection: psycopg.Connection
) -> None:
    name, client = server
    gate = gate_on(client, connection, place)
    keys = [*KEYS, *([NEW_LINE] if name == "ceph" else [])]
    for key in keys:
        put_whole(client, place, key, key.encode())
    before = {key: whole(client, place, key) for key in keys}
    deletion_mode = deletion_mode_of(client, place, purge_versions=False, quarantine=True)
    assert deletion_mode.copies

    done = gate.remove([seen(client, place, key) for key in keys], no_proof_needed, deletion_mode)

    assert done.quarantined == tuple(key.encode() for key in keys), list(done)
    copies = [it for page in copies_below(client, place, "files/") for it in page]
    assert sorted(it.original for it in copies) == sorted(keys)
    assert keys_of(client, place) == {it.key for it in copies}

    (first, *rest) = sorted(copies, key=lambda it: it.original)
    put(client, place, first.original, body=b"newer")
    ends = {it.key: it for it in gate.bring_back([first, *rest])}
    assert ends[first.original].word == "is there"
    assert {it.word for key, it in ends.items() if key != first.original} == {"restored"}
    for it in rest:
        assert whole(client, place, it.original) == before[it.original]
    assert whole(client, place, first.original)["body"] == b"newer"

    asked = {it.key: (it, ()) for it in copies}
    expired = gate.expire(asked, no_proof_needed, deletion_mode)
    assert len(expired.deleted) == len(copies), list(expired)
    assert keys_of(client, place) == set(keys)


def test_what_is_large_or_was_written_in_parts_is_copied_and_verified(
    server: tuple[str, S3Client], place: str
) -> None:
    _, client = server
    put_whole(client, place, "files/large", b"x" * (11 * MEBIBYTE))
    begun = client.create_multipart_upload(Bucket=place, Key="files/parts")["UploadId"]
    parts: list[Any] = []
    for number, size in enumerate((5, 5, 1), start=1):
        answer = client.upload_part(
            Bucket=place,
            Key="files/parts",
            UploadId=begun,
            PartNumber=number,
            Body=bytes([number]) * (size * MEBIBYTE),
        )
        parts.append({"PartNumber": number, "ETag": answer["ETag"]})
    client.complete_multipart_upload(
        Bucket=place, Key="files/parts", UploadId=begun, MultipartUpload={"Parts": parts}
    )
    copying = Copying(client, place, largest=MEBIBYTE, part=5 * MEBIBYTE)
    orphans = [(key, seen(client, place, key)) for key in ("files/large", "files/parts")]
    assert copying.set_aside(orphans) == {}
    for page in copies_below(client, place, "files/"):
        for it in page:
            original, copy = whole(client, place, it.original), whole(client, place, it.key)
            assert copy == original
    assert not client.list_multipart_uploads(Bucket=place).get("Uploads")


@pytest.mark.parametrize("locked", [False, True])
def test_with_versions_a_marker_is_the_quarantine_also_of_what_is_locked(
    server: tuple[str, S3Client], connection: psycopg.Connection, locked: bool
) -> None:
    _, client = server
    bucket = f"test-{uuid.uuid4().hex}"
    client.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=locked)
    if not locked:
        client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    gate = gate_on(client, connection, bucket)
    orphans = put(client, bucket, "files/a", "files/b")
    if locked:
        until = datetime.now(timezone.utc) + timedelta(minutes=2)
        for orphan in orphans:
            client.put_object_retention(
                Bucket=bucket,
                Key=orphan.key.decode(),
                Retention={"Mode": "GOVERNANCE", "RetainUntilDate": until},
            )
        orphans = [seen(client, bucket, orphan.key.decode()) for orphan in orphans]
    deletion_mode = deletion_mode_of(client, bucket, purge_versions=True, quarantine=True)
    assert not deletion_mode.copies
    assert len(gate.remove(orphans, no_proof_needed, deletion_mode).marked) == 2
    assert keys_of(client, bucket) == set()

    put(client, bucket, "files/b", body=b"newer")
    assert gate.uncover("files/a", no_proof_needed).word == "restored"
    assert gate.uncover("files/b", no_proof_needed).word == "is there"
    assert client.get_object(Bucket=bucket, Key="files/a")["Body"].read() == b"bytes"
    assert client.get_object(Bucket=bucket, Key="files/b")["Body"].read() == b"newer"
