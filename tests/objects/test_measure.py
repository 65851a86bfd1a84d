"""Measuring: absent is a fact, an error is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.book.outcomes import StorageRejected
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.objects.errors import StorageError
from filejobs_dagster.objects.finding import Present
from filejobs_dagster.objects.heads import measure
from tests.objects.buckets import BucketForTests
from tests.objects.odd_keys import ODD_KEYS
from tests.objects.scripted import Answer, Request, ScriptedS3
from tests.objects.test_client import unused_port

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


def test_objects_of_odd_keys_are_measured_and_absent_ones_are_none(
    client: S3Client, bucket: str
) -> None:
    for length, key in enumerate(ODD_KEYS):
        client.put_object(Bucket=bucket, Key=key, Body=b"x" * length)
    measured = measure(client, bucket, [*ODD_KEYS, "files/absent"])
    assert measured.pop("files/absent") is None
    for length, key in enumerate(ODD_KEYS):
        found = measured[key]
        assert isinstance(found, Present)
        assert found.size == length
        assert found.etag


def test_no_key_needs_no_request(scripted: ScriptedS3, scripted_client: S3Client) -> None:
    assert measure(scripted_client, "acme", []) == {}
    assert scripted.requests == []


def test_an_error_of_one_key_is_recorded_for_that_key(
    scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    def script(request: Request) -> Answer:
        return Answer(403 if request.path.endswith("denied") else 200)

    scripted.script = script
    measured = measure(scripted_client, "acme", ["fine", "denied", "", "\udc80"])
    assert isinstance(measured["fine"], Present)
    assert measured["denied"] == StorageError("403", "Forbidden")
    assert isinstance(measured[""], StorageError)
    assert isinstance(measured["\udc80"], StorageError)


def test_in_a_bucket_that_is_gone_no_key_is_called_absent(client: S3Client) -> None:
    with pytest.raises(StorageRejected, match="Nothing can be concluded"):
        measure(client, "no-such-bucket-anywhere", ["a"])


def test_a_bucket_that_may_not_be_listed_does_not_spoil_what_was_measured(
    scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    scripted.script = lambda request: Answer(403 if request.path == "/acme" else 404)
    assert measure(scripted_client, "acme", ["a"]) == {"a": None}


@pytest.mark.parametrize("status", [301, 401, 503])
def test_a_failure_of_every_request_is_raised(
    scripted: ScriptedS3, scripted_client: S3Client, status: int
) -> None:
    scripted.script = lambda _request: Answer(status)
    with pytest.raises(StorageRejected):
        measure(scripted_client, "acme", [str(number) for number in range(100)])


def test_a_refused_connection_is_raised() -> None:
    client = make_client(BucketForTests(endpoint_url=f"http://127.0.0.1:{unused_port()}"))
    with pytest.raises(StorageRejected, match="EndpointConnectionError"):
        measure(client, "acme", ["a"])
