"""Listing finds what lies close together, and what it does not find is asked for by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.objects.heads import (
    ENTRIES_PER_HEAD,
    FEWEST_KEYS,
    FIRST_PAGE,
    Found,
    found_by_listing,
    measure,
)
from tests.objects.scripted import XML, Answer, Request, ScriptedS3

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mypy_boto3_s3 import S3Client

KEYS = [f"files/{number:04d}" for number in range(FEWEST_KEYS * 2)]


def page(keys: Iterable[str], *, truncated: bool = False) -> Answer:
    entries = "".join(
        f"<Contents><Key>{key}</Key><Size>7</Size><ETag>e</ETag></Contents>" for key in keys
    )
    said = f"<IsTruncated>{str(truncated).lower()}</IsTruncated>"
    return Answer(200, f"{XML}<ListBucketResult>{said}{entries}</ListBucketResult>")


def is_listing(request: Request) -> bool:
    return request.method == "GET" and "list-type=2" in request.path


def test_keys_that_lie_together_are_found_with_a_listing_and_absent_ones_are_asked_for(
    client: S3Client, bucket: str
) -> None:
    for length, key in enumerate(KEYS[:-3]):
        client.put_object(Bucket=bucket, Key=key, Body=b"x" * length)
    asked: list[str] = []

    def note(params: dict[str, str], **_: object) -> None:
        asked.append(params["Key"])

    client.meta.events.register("provide-client-params.s3.HeadObject", note)
    try:
        measured = measure(client, bucket, KEYS)
    finally:
        client.meta.events.unregister("provide-client-params.s3.HeadObject", note)

    for length, key in enumerate(KEYS[:-3]):
        found = measured[key]
        assert isinstance(found, Found)
        assert (found.size, bool(found.etag)) == (length, True)
    assert [measured[key] for key in KEYS[-3:]] == [None] * 3
    # The first key too: a listing begins behind the key that it is given.
    assert sorted(asked) == [KEYS[0], *KEYS[-3:]]


def test_the_answer_is_that_of_single_requests(client: S3Client, bucket: str) -> None:
    keys = [*KEYS, *(f"files/é{number}" for number in range(60)), "files/\U0001f600", "files/a\tb"]
    for number, key in enumerate(keys):
        if number % 3:
            client.put_object(Bucket=bucket, Key=key, Body=b"x" * number)
    alone = {key: measure(client, bucket, [key])[key] for key in keys}
    assert measure(client, bucket, keys) == alone


def test_few_keys_are_not_worth_a_listing(scripted: ScriptedS3, scripted_client: S3Client) -> None:
    scripted.script = lambda _request: Answer(200)
    measure(scripted_client, "acme", KEYS[: FEWEST_KEYS - 1])
    assert not any(map(is_listing, scripted.requests))


def test_among_many_other_objects_the_listing_ends_after_one_small_page(
    scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    others = [f"files/0000-{number:04d}" for number in range(FIRST_PAGE)]
    others[5 : 5 + FIRST_PAGE // ENTRIES_PER_HEAD - 1] = KEYS[1 : FIRST_PAGE // ENTRIES_PER_HEAD]
    scripted.script = lambda _request: page(sorted(others), truncated=True)
    found = found_by_listing(scripted_client, "acme", KEYS)
    assert set(found) == set(KEYS[1 : FIRST_PAGE // ENTRIES_PER_HEAD])
    assert len(scripted.requests) == 1
    assert f"max-keys={FIRST_PAGE}" in scripted.requests[0].path
    assert "prefix=files%2F00" in scripted.requests[0].path


def test_pages_follow_each_other_as_long_as_they_pay(
    scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    def script(_request: Request) -> Answer:
        first = len(scripted.requests) == 1
        return page(KEYS[1:40] if first else KEYS[40:], truncated=first)

    scripted.script = script
    assert set(found_by_listing(scripted_client, "acme", KEYS)) == set(KEYS[1:])
    assert f"start-after={KEYS[39].replace('/', '%2F')}" in scripted.requests[1].path


@pytest.mark.parametrize("order", [KEYS[::-1], [KEYS[0]] * 60, []])
def test_a_server_that_lists_in_another_order_ends_the_listing(
    scripted: ScriptedS3, scripted_client: S3Client, order: list[str]
) -> None:
    scripted.script = lambda _request: page(order, truncated=True)
    assert set(found_by_listing(scripted_client, "acme", KEYS)) == set(order)
    assert len(scripted.requests) == 1


@pytest.mark.parametrize("status", [301, 400, 403, 501, 503])
def test_a_listing_that_is_refused_leaves_every_key_to_a_request_of_its_own(
    scripted: ScriptedS3, scripted_client: S3Client, status: int
) -> None:
    scripted.script = lambda request: Answer(status if is_listing(request) else 200)
    measured = measure(scripted_client, "acme", KEYS)
    assert all(isinstance(measured[key], Found) for key in KEYS)
    assert len([r for r in scripted.of("HEAD") if r.path.startswith("/acme/")]) == len(KEYS)


def test_an_object_that_no_page_names_is_not_thereby_absent(
    scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    scripted.script = lambda request: page([]) if is_listing(request) else Answer(200)
    measured = measure(scripted_client, "acme", KEYS)
    assert all(isinstance(measured[key], Found) for key in KEYS)
