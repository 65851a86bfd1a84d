"""Multipart uploads on a real server: listing, aborting, rights, and parts on their way."""

from __future__ import annotations

import json
import threading
import time
import uuid
from datetime import timedelta
from http.client import HTTPConnection
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import ClientError

from filejobs_dagster.objects.gate import Gate
from filejobs_dagster.objects.multipart import AbortFate, Parts, list_parts, list_uploads
from filejobs_dagster.objects.multipart.backstop import read_backstop, rule_to_add
from filejobs_dagster.references.check import ReferenceCheck
from tests.conformance.ceph import GUEST, Ceph
from tests.conformance.gateway import client_of, listed, set_policy, statement
from tests.installation import Installation
from tests.jobs.multipart_uploads.conftest import Sweeper
from tests.objects.buckets import BucketForTests

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg
    from mypy_boto3_s3 import S3Client

pytestmark = pytest.mark.conformance

ODD = [
    "files/a b",
    "files/a+b",
    "files/a%20b",
    "files/100%25",
    "files/\u00e9",
    "files/e\u0301",
    "files/a\nb",
    "files/a\rb",
    "files/<&>",
]

NEEDED = ["AbortMultipartUpload", "ListMultipartUploadParts", "GetObject"]
NEEDED_ON_BUCKET = ["ListBucket", "ListBucketMultipartUploads"]


def begin(client: S3Client, bucket: str, key: str, *sizes: int) -> str:
    """An upload with parts of these sizes."""
    upload_id = client.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
    for number, size in enumerate(sizes, start=1):
        client.upload_part(
            Bucket=bucket, Key=key, UploadId=upload_id, PartNumber=number, Body=b"x" * size
        )
    return upload_id


def found(client: S3Client, bucket: str, *, page: int = 1000) -> set[tuple[str, str]]:
    return {
        (upload.key, upload.upload_id)
        for upload in list_uploads(client, bucket, "files/", page=page)
    }


@pytest.fixture
def gate(owner: S3Client, connection: psycopg.Connection, bucket: str) -> Gate:
    settings = BucketForTests(endpoint_url=None, bucket=bucket)
    return Gate(owner, settings, ReferenceCheck(connection))


def no_proof_needed() -> None:
    """The caller's lock is not what these tests look at."""


@pytest.mark.parametrize("page", [1, 2, 1000])
def test_every_upload_is_listed_by_its_exact_key_on_pages_of_any_size(
    owner: S3Client, bucket: str, page: int
) -> None:
    begun = {(key, begin(owner, bucket, key)) for key in [*ODD, *["files/same"] * 3]}
    begin(owner, bucket, "other/a")
    assert found(owner, bucket, page=page) == begun


def test_a_key_that_no_xml_carries_is_listed_and_aborted_although_its_begin_was_an_error(
    owner: S3Client, gate: Gate, bucket: str
) -> None:
    with pytest.raises(ClientError):
        # The server began it, and its answer holds the key as it is: nobody can read that.
        begin(owner, bucket, "files/a\x01b")
    after = begin(owner, bucket, "files/b")
    [(key, upload_id), other] = sorted(found(owner, bucket, page=1))
    assert (key, other) == ("files/a\x01b", ("files/b", after))
    assert list_parts(owner, bucket, key, upload_id) == Parts(0, 0, None)
    assert gate.abort(key, upload_id, no_proof_needed).fate is AbortFate.ABORTED
    assert found(owner, bucket) == {("files/b", after)}


def test_an_upload_is_aborted_with_its_parts_and_a_second_abort_finds_nothing(
    owner: S3Client, gate: Gate, bucket: str
) -> None:
    upload_id = begin(owner, bucket, "files/a", 5, 7)
    parts = list_parts(owner, bucket, "files/a", upload_id)
    assert parts is not None
    assert (parts.count, parts.size) == (2, 12)
    assert parts.newest is not None

    aborted = gate.abort("files/a", upload_id, no_proof_needed)
    assert (aborted.fate, aborted.bytes_freed) == (AbortFate.ABORTED, 12)
    assert list_parts(owner, bucket, "files/a", upload_id) is None
    assert gate.abort("files/a", upload_id, no_proof_needed).fate is AbortFate.ALREADY_GONE


def test_an_upload_that_was_completed_is_told_by_its_object_which_stays(
    owner: S3Client, gate: Gate, bucket: str
) -> None:
    upload_id = begin(owner, bucket, "files/a", 5)
    entries: list[Any] = owner.list_parts(Bucket=bucket, Key="files/a", UploadId=upload_id)["Parts"]
    owner.complete_multipart_upload(
        Bucket=bucket,
        Key="files/a",
        UploadId=upload_id,
        MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": entries[0]["ETag"]}]},
    )
    aborted = gate.abort("files/a", upload_id, no_proof_needed)
    assert (aborted.fate, aborted.object_size) == (AbortFate.OBJECT_THERE, 5)
    assert listed(owner, bucket) == ["files/a"]


def test_a_part_that_is_on_its_way_at_the_abort_leaves_nothing_behind(
    owner: S3Client, gate: Gate, bucket: str
) -> None:
    upload_id = begin(owner, bucket, "files/a", 5)
    address = urlsplit(
        owner.generate_presigned_url(
            "upload_part",
            Params={"Bucket": bucket, "Key": "files/a", "UploadId": upload_id, "PartNumber": 2},
        )
    )
    half, aborted, answers = threading.Event(), threading.Event(), []

    def send() -> None:
        connection = HTTPConnection(address.netloc, timeout=30)
        connection.putrequest("PUT", f"{address.path}?{address.query}")
        connection.putheader("Content-Length", str(2 << 20))
        connection.endheaders()
        connection.send(b"y" * (1 << 20))
        half.set()
        assert aborted.wait(30)
        connection.send(b"y" * (1 << 20))
        answers.append(connection.getresponse().status)
        connection.close()

    thread = threading.Thread(target=send)
    thread.start()
    assert half.wait(30)
    time.sleep(0.5)
    first = gate.abort("files/a", upload_id, no_proof_needed)
    aborted.set()
    thread.join()

    assert first.fate is AbortFate.ABORTED
    # What this server does: the part is refused at its end. On another one it may be there now;
    # the next run would find it by the row's id, and a second abort takes it.
    assert answers == [404]
    assert list_parts(owner, bucket, "files/a", upload_id) is None
    assert gate.abort("files/a", upload_id, no_proof_needed).fate is AbortFate.ALREADY_GONE


def test_the_rule_that_is_printed_is_one_that_the_server_takes_and_then_finds(
    owner: S3Client, bucket: str
) -> None:
    before = read_backstop(owner, bucket, ["files/"])
    assert (before.state, before.uncovered) == ("missing", ("files/",))
    rule = json.loads(rule_to_add(before.uncovered, timedelta(days=7)))
    owner.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration=rule)
    after = read_backstop(owner, bucket, ["files/"])
    assert (after.state, after.days) == ("there", 14)


# The job


@pytest.fixture
def sweep(tmp_path: Path, database_url: str, bucket: str, owner: S3Client, ceph: Ceph) -> Sweeper:
    """The job, as a user who may do exactly what it needs."""
    installation = Installation(tmp_path, database_url, bucket, owner, ceph.endpoint_url)
    guest = client_of(ceph.endpoint_url, GUEST)
    set_policy(
        owner,
        bucket,
        statement(bucket, "Allow", NEEDED_ON_BUCKET, [""]),
        statement(bucket, "Allow", NEEDED, ["/files/*"]),
        statement(bucket, "Allow", ["GetObject", "PutObject"], ["/filejobs-adopted/*"]),
    )
    return Sweeper(installation, guest)


@pytest.mark.timeout(180)
def test_the_job_takes_idle_uploads_of_odd_keys_and_leaves_those_of_living_rows(
    sweep: Sweeper, owner: S3Client, bucket: str
) -> None:
    begun = {key: begin(owner, bucket, key, 5, 7) for key in ODD}
    [(row, key)] = sweep.installation.execute("SELECT id, key FROM begin_upload('files/')")
    living = begin(owner, bucket, key, 100)
    sweep.installation.execute("SELECT record_upload_id(%s, %s)", (row, living))
    cleaned, cleaned_id = sweep.row("cleaned")
    strange = begin(owner, bucket, "other/a", 5)

    dry = sweep("dry", idle_for=timedelta(0))
    assert dry.ok, dry.error
    assert dry.detail["would_collect"] == len(begun)
    assert dry.detail["would_free_bytes"] == 12 * len(begun)
    assert len(found(owner, bucket)) == len(begun) + 1

    outcome = sweep(idle_for=timedelta(0), batch_size=4)
    assert outcome.ok, outcome.error
    assert outcome.detail["classes"] == {"aborted": len(begun), "referenced": 1}
    assert outcome.detail["bytes_freed"] == 12 * len(begun)
    assert outcome.detail["asked_by_id"] == 1, f"{cleaned} {cleaned_id}, which never was there"
    assert found(owner, bucket) == {(key, living)}
    assert list_parts(owner, bucket, "other/a", strange) is not None
    assert outcome.detail["backstop_state"] == "unknown", "s3:GetLifecycleConfiguration is missing"

    young = begin(owner, bucket, "files/young", 5)
    sweep.adopted = False  # It is, and here the marker belongs to whoever wrote it last.
    again = sweep(idle_for=timedelta(days=1))
    assert again.ok, again.error
    assert again.detail["classes"] == {"young": 2}
    assert ("files/young", young) in found(owner, bucket)


@pytest.mark.parametrize("missing", [*NEEDED[:2], "ListBucketMultipartUploads"])
def test_a_right_that_is_missing_fails_the_run_and_is_named(
    sweep: Sweeper, owner: S3Client, bucket: str, missing: str
) -> None:
    begin(owner, bucket, f"files/{uuid.uuid4()}", 5)
    sweep.adopt()
    set_policy(
        owner,
        bucket,
        statement(bucket, "Allow", [it for it in NEEDED_ON_BUCKET if it != missing], [""]),
        statement(bucket, "Allow", [it for it in NEEDED if it != missing], ["/files/*"]),
        statement(bucket, "Allow", ["GetObject", "PutObject"], ["/filejobs-adopted/*"]),
    )
    outcome = sweep(idle_for=timedelta(0))
    assert not outcome.ok
    assert f"s3:{missing}" in str(outcome.error)
    assert len(found(owner, bucket)) == 1
