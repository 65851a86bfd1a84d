"""The client, and what a person is told when the bucket cannot be used."""

from __future__ import annotations

import base64
import hashlib
import re
import socket
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.objects.client import (
    BucketAccess,
    BucketUnavailable,
    _descriptions,
    check_access,
    make_client,
    read_versioning,
    timestamp,
)
from tests.objects.buckets import BucketForTests
from tests.objects.scripted import Answer, Request, ScriptedS3, errors, result

if TYPE_CHECKING:
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.objects.gate import BucketOwnership
    from filejobs_dagster.settings.storage import BucketSettings


def from_settings(settings: BucketSettings) -> tuple[BucketAccess, BucketOwnership]:
    """Type-checked: the settings are what the client and the gate ask for."""
    return settings, settings


def unused_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def test_requests_say_who_sends_them_and_are_tried_as_often_as_the_settings_say(
    scripted: ScriptedS3,
) -> None:
    client = make_client(BucketForTests(endpoint_url=scripted.address, max_attempts=2))
    scripted.script = lambda _request: Answer(503, errors("SlowDown"))
    with pytest.raises(BucketUnavailable, match="overloaded"):
        check_access(client, "acme")
    assert len(scripted.requests) == 2
    assert "filejobs_dagster" in scripted.requests[0].headers["user-agent"]
    assert scripted.requests[0].path == "/acme"


def test_a_refused_503_succeeds_at_the_next_try(scripted: ScriptedS3) -> None:
    client = make_client(BucketForTests(endpoint_url=scripted.address, max_attempts=3))

    def script(_request: Request) -> Answer:
        return Answer(503 if len(scripted.requests) == 1 else 200)

    scripted.script = script
    check_access(client, "acme")
    assert len(scripted.requests) == 2


def test_a_batch_carries_a_crc_by_default(scripted: ScriptedS3, scripted_client: S3Client) -> None:
    scripted.script = lambda _request: Answer(body=result(["a"]))
    scripted_client.delete_objects(Bucket="acme", Delete={"Objects": [{"Key": "a"}]})
    (request,) = scripted.requests
    assert "x-amz-checksum-crc32" in request.headers
    assert "content-md5" not in request.headers


def test_a_batch_carries_a_signed_content_md5_instead_of_the_crc_when_asked(
    scripted: ScriptedS3,
) -> None:
    client = make_client(BucketForTests(endpoint_url=scripted.address, content_md5=True))
    scripted.script = lambda _request: Answer(body=result(["a"]))
    client.delete_objects(Bucket="acme", Delete={"Objects": [{"Key": "a"}]})
    (request,) = scripted.requests
    digest = hashlib.md5(request.body.encode(), usedforsecurity=False).digest()
    assert request.headers["content-md5"] == base64.b64encode(digest).decode()
    assert "content-md5" in request.headers["authorization"].split("SignedHeaders=")[1]
    assert not [name for name in request.headers if "checksum" in name or "crc" in name]


def test_an_accessible_bucket_is_accepted_and_its_versioning_is_known(
    client: S3Client, bucket: str
) -> None:
    check_access(client, bucket)
    assert read_versioning(client, bucket) == "off"
    for status in ("Enabled", "Suspended"):
        client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": status})
        assert read_versioning(client, bucket) == status.lower()


def test_versioning_that_may_not_be_read_is_unknown(
    scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    scripted.script = lambda _request: Answer(403, errors("AccessDenied"))
    assert read_versioning(scripted_client, "acme") == "unknown"
    scripted.script = lambda _request: Answer(404, errors("NoSuchBucket"))
    with pytest.raises(BucketUnavailable, match="no bucket of that name"):
        read_versioning(scripted_client, "acme")


def test_a_bucket_that_does_not_exist_is_said_not_to_exist(client: S3Client) -> None:
    with pytest.raises(BucketUnavailable, match="no bucket of that name"):
        check_access(client, "no-such-bucket-anywhere")


@pytest.mark.parametrize(
    ("status", "code", "advice"),
    [
        (403, "AccessDenied", "s3:ListBucket"),
        (403, "InvalidAccessKeyId", "does not know the access key"),
        (403, "SignatureDoesNotMatch", "secret does not belong to it"),
        (400, "ExpiredToken", "renew them"),
        (403, "RequestTimeTooSkewed", "clock"),
    ],
)
def test_the_reason_that_a_head_cannot_give_is_found_out(
    scripted: ScriptedS3, scripted_client: S3Client, status: int, code: str, advice: str
) -> None:
    scripted.script = lambda _request: Answer(status, errors(code))
    with pytest.raises(BucketUnavailable, match=advice) as caught:
        check_access(scripted_client, "acme")
    assert code in str(caught.value)


def test_a_bucket_in_another_region_is_said_to_be_elsewhere(
    scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    scripted.script = lambda _request: Answer(301, headers={"x-amz-bucket-region": "eu-west-1"})
    with pytest.raises(BucketUnavailable, match="another region"):
        check_access(scripted_client, "acme")


def test_a_server_that_refuses_the_connection_is_named_with_its_address() -> None:
    address = f"http://127.0.0.1:{unused_port()}"
    client = make_client(BucketForTests(endpoint_url=address))
    with pytest.raises(BucketUnavailable, match=address) as caught:
        check_access(client, "acme")
    assert "Check endpoint_url" in str(caught.value)


def test_missing_credentials_are_said_to_be_missing(scripted: ScriptedS3) -> None:
    bucket = BucketForTests(
        endpoint_url=scripted.address, access_key_id=None, secret_access_key=None
    )
    with pytest.raises(BucketUnavailable, match="No complete credentials"):
        check_access(make_client(bucket), "acme")
    assert scripted.requests == []


def test_each_client_has_the_credentials_of_its_own_moment(
    scripted: ScriptedS3, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What clients share is only the description of S3."""
    bucket = BucketForTests(
        endpoint_url=scripted.address, access_key_id=None, secret_access_key=None
    )
    scripted.script = lambda _request: Answer(200)
    file = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    secret = "aws_secret_access_key = a-value-for-tests"
    for key in ("key-one", "key-two"):
        file.write_text(f"[default]\naws_access_key_id = {key}\n{secret}\n")
        check_access(make_client(bucket), "acme")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key-three")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-value-for-tests")
    check_access(make_client(bucket), "acme")

    signed = [request.headers["authorization"] for request in scripted.requests]
    keys = [re.search(r"Credential=([^/]+)", text) for text in signed]
    assert [key and key[1] for key in keys] == ["key-one", "key-two", "key-three"]


def test_many_clients_leave_nothing_behind_in_what_they_share() -> None:
    bucket = BucketForTests(endpoint_url="http://127.0.0.1:9")
    make_client(bucket)
    shared = _descriptions(None)
    before = list(shared.search_paths)
    make_client(bucket)
    assert _descriptions(None) is shared
    assert shared.search_paths == before


def test_a_hook_of_one_client_reaches_no_other(scripted: ScriptedS3) -> None:
    bucket = BucketForTests(endpoint_url=scripted.address)
    scripted.script = lambda _request: Answer(200)
    heard: list[object] = []

    def hear(**event: object) -> None:
        heard.append(event["event_name"])

    first = make_client(bucket)
    first.meta.events.register("before-send.s3", hear)
    check_access(make_client(bucket), "acme")
    assert heard == []
    check_access(first, "acme")
    assert heard == ["before-send.s3.HeadBucket"]


@pytest.mark.parametrize("address", ["127.0.0.1:9000", "http://", "not an address"])
def test_an_address_that_is_none_is_refused_before_anything_is_sent(address: str) -> None:
    with pytest.raises(BucketUnavailable, match="with http:// or https://"):
        make_client(BucketForTests(endpoint_url=address))


def test_no_secret_stands_in_what_a_person_is_told(scripted: ScriptedS3) -> None:
    bucket = replace(BucketForTests(endpoint_url=scripted.address))
    assert bucket.secret_access_key is not None
    scripted.script = lambda _request: Answer(403, errors("AccessDenied", "secret=" + "x" * 20))
    with pytest.raises(BucketUnavailable) as caught:
        check_access(make_client(bucket), "acme")
    assert "x" * 20 not in str(caught.value)
    assert bucket.secret_access_key.reveal() not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2024-05-01T12:30:45.123Z", datetime(2024, 5, 1, 12, 30, 45, 123000, timezone.utc)),
        ("2024-05-01T12:30:45Z", datetime(2024, 5, 1, 12, 30, 45, 0, timezone.utc)),
        ("2024-05-01T14:30:45+02:00", datetime(2024, 5, 1, 12, 30, 45, 0, timezone.utc)),
        ("2024-05-01T12:30:45", datetime(2024, 5, 1, 12, 30, 45, 0, timezone.utc)),
        ("Wed, 01 May 2024 12:30:45 GMT", datetime(2024, 5, 1, 12, 30, 45, 0, timezone.utc)),
        (1714566645, datetime(2024, 5, 1, 12, 30, 45, 0, timezone.utc)),
    ],
)
def test_every_form_of_a_timestamp_is_read_with_its_time_zone(
    text: str | float, expected: datetime
) -> None:
    assert timestamp(text) == expected
    assert timestamp(text).tzinfo is not None


def test_a_listing_is_read_by_the_fast_parser_and_its_times_are_right(
    client: S3Client, bucket: str
) -> None:
    client.put_object(Bucket=bucket, Key="a", Body=b"x")
    (entry,) = client.list_objects_v2(Bucket=bucket)["Contents"]
    age = datetime.now(timezone.utc) - entry["LastModified"]
    assert abs(age.total_seconds()) < 60
