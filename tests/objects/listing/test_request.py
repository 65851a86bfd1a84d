"""The requests are botocore's own: only its parser is left out, and only for our pages."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from botocore.credentials import RefreshableCredentials

from filejobs_dagster.objects.client import make_client
from filejobs_dagster.objects.listing import Listed, ListingFailed, list_objects, read_server_date
from filejobs_dagster.objects.listing.ask import date_of
from tests.objects.buckets import BucketForTests, Revealed
from tests.objects.listing.bucket import BucketOfKeys, keys_of
from tests.objects.scripted import Answer, ScriptedS3, errors

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.streams import Scratch

KEYS = [f"files/{number:03}" for number in range(30)]


def run(client: S3Client, scratch: Scratch, bucket: str = "bucket") -> Listed:
    return list_objects(client, bucket, ["files/"], parts=1, scratch=scratch)


def test_requests_are_signed_with_the_clients_region_and_session(
    scripted: ScriptedS3, scratch: Scratch
) -> None:
    scripted.script = BucketOfKeys(KEYS)
    client = make_client(
        BucketForTests(
            endpoint_url=scripted.address,
            region="eu-central-1",
            session_token=Revealed("a-session"),
        )
    )
    run(client, scratch)
    [request] = scripted.requests
    assert "/eu-central-1/s3/aws4_request" in request.headers["authorization"]
    assert request.headers["x-amz-security-token"] == "a-session"
    assert "filejobs_dagster" in request.headers["user-agent"]
    assert request.path.startswith("/bucket?list-type=2&")
    assert "encoding-type=url" in request.path


def test_a_bucket_in_the_hosts_name_stays_there(scripted: ScriptedS3, scratch: Scratch) -> None:
    scripted.script = BucketOfKeys(KEYS)
    address = scripted.address.replace("127.0.0.1", "localhost")
    client = make_client(BucketForTests(endpoint_url=address, addressing="virtual"))
    sent: list[str] = []

    def to_this_machine(request: Any, **_event: object) -> None:
        sent.append(request.url)
        request.url = request.url.replace("bucket.localhost", "127.0.0.1")

    client.meta.events.register("before-send.s3.ListObjectsV2", to_this_machine)
    assert keys_of(run(client, scratch)) == [key.encode() for key in KEYS]
    assert sent[0].startswith("http://bucket.localhost:")


def test_credentials_that_are_over_are_renewed_between_pages(
    scripted: ScriptedS3, scratch: Scratch
) -> None:
    renewed: list[str] = []

    def renew() -> dict[str, str]:
        renewed.append(f"key-{len(renewed)}")
        # Each is over at once, so that every request needs another.
        over = datetime.now(timezone.utc) + timedelta(seconds=1)
        return {
            "access_key": renewed[-1],
            "secret_key": "secret",
            "token": "session",
            "expiry_time": over.isoformat(),
        }

    client = make_client(BucketForTests(endpoint_url=scripted.address))
    credentials = RefreshableCredentials.create_from_metadata(renew(), renew, "test")
    client._request_signer._credentials = credentials  # type: ignore[attr-defined]
    scripted.script = BucketOfKeys(KEYS, page=10)
    assert keys_of(run(client, scratch)) == [key.encode() for key in KEYS]
    used = {
        request.headers["authorization"].split("Credential=")[1][:5]
        for request in scripted.requests
    }
    assert len(scripted.requests) == 3
    assert len(used) == 3


def test_botocore_parses_no_body_of_a_page(
    scripted: ScriptedS3, scripted_client: S3Client, scratch: Scratch
) -> None:
    """Not even to look for errors in it: that alone would halve the speed."""
    seen: list[bytes] = []

    def look(response_dict: dict[str, Any], **_event: object) -> None:
        seen.append(response_dict["body"])

    scripted_client.meta.events.register_first("before-parse.s3.*", look)
    scripted.script = BucketOfKeys(KEYS)
    run(scripted_client, scratch)
    assert seen == [b"<ListBucketResult/>"]


def test_other_listings_with_the_same_client_are_left_alone(
    scripted: ScriptedS3, scripted_client: S3Client, scratch: Scratch
) -> None:
    scripted.script = BucketOfKeys(KEYS)
    run(scripted_client, scratch)
    answer = scripted_client.list_objects_v2(Bucket="bucket")
    assert [it["Key"] for it in answer["Contents"]] == KEYS


def test_secrets_do_not_reach_the_message(scripted: ScriptedS3, scratch: Scratch) -> None:
    client = make_client(
        BucketForTests(
            endpoint_url=scripted.address, secret_access_key=Revealed("very-secret-value")
        )
    )
    scripted.script = lambda _request: Answer(403, errors("AccessDenied", "for Signature=abcdef"))
    with pytest.raises(ListingFailed) as raised:
        run(client, scratch)
    assert "very-secret-value" not in str(raised.value)


def test_the_servers_time_comes_with_the_listing(
    scripted: ScriptedS3, scripted_client: S3Client, scratch: Scratch
) -> None:
    scripted.script = BucketOfKeys(KEYS)
    before = datetime.now(timezone.utc)
    listed = run(scripted_client, scratch)
    assert listed.server_date is not None
    assert abs(listed.server_date - before) < timedelta(minutes=1)
    assert before <= listed.read_at <= datetime.now(timezone.utc)
    asked = read_server_date(scripted_client, "bucket")
    # This server answers HEAD like GET.
    assert asked is not None
    assert abs(asked - before) < timedelta(minutes=1)


@pytest.mark.parametrize("headers", [{}, {"date": "yesterday"}])
def test_a_time_that_cannot_be_read_is_unknown(headers: dict[str, str]) -> None:
    assert date_of(headers) is None


@pytest.mark.parametrize("zone", ["GMT", "+0000", "-0000"])
def test_a_time_always_has_a_zone(zone: str) -> None:
    expected = datetime(2026, 11, 29, 12, 34, 56, tzinfo=timezone.utc)
    assert date_of({"date": f"Sun, 29 Nov 2026 12:34:56 {zone}"}) == expected


def test_a_server_that_does_not_answer_has_no_time(
    scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    scripted.script = lambda _request: Answer(403)
    with pytest.raises(ListingFailed, match="what time it is"):
        read_server_date(scripted_client, "bucket")
