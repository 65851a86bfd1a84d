"""What is found for less than a HEAD each, and that what is not found is asked for by itself."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest
from tenacity import wait_none

from filejobs_dagster.book.outcomes import Fate
from filejobs_dagster.objects.adaptive_rate import AdaptiveRate
from filejobs_dagster.objects.deletion_mode import DeletionMode
from filejobs_dagster.objects.finding import (
    ENTRIES_PER_HEAD,
    FEWEST_KEYS,
    FIRST_PAGE,
    MOST_IN_FLIGHT,
    Present,
    faster_client,
    found_by_listing,
    found_for_less,
)
from filejobs_dagster.objects.heads import look_at_targets, measure
from filejobs_dagster.objects.removing import Removing
from filejobs_dagster.objects.targets import Expected, Target
from tests.objects.odd_keys import ODD_KEYS
from tests.objects.scripted import XML, Answer, Request, ScriptedS3, result

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
        if params["Key"] in KEYS:
            asked.append(params["Key"])

    client.meta.events.register("provide-client-params.s3.HeadObject", note)
    try:
        measured = measure(client, bucket, KEYS)
    finally:
        client.meta.events.unregister("provide-client-params.s3.HeadObject", note)

    for length, key in enumerate(KEYS[:-3]):
        found = measured[key]
        assert isinstance(found, Present)
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
    assert all(isinstance(measured[key], Present) for key in KEYS)
    assert len([r for r in scripted.of("HEAD") if r.path.startswith("/acme/")]) == len(KEYS)


def test_an_object_that_no_page_names_is_not_thereby_absent(
    scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    scripted.script = lambda request: page([]) if is_listing(request) else Answer(200)
    measured = measure(scripted_client, "acme", KEYS)
    assert all(isinstance(measured[key], Present) for key in KEYS)


# By the faster client.

SCATTERED = [f"files/{number % 7}/{number:04d}-é+ &?.txt" for number in range(FEWEST_KEYS * 2)]
ITS_OWN = pytest.mark.skipif(sys.version_info < (3, 11), reason="it needs Python 3.11")


def by_faster(requests: Iterable[Request]) -> list[Request]:
    """The HEADs that botocore has not sent: its user agent begins with its own name."""
    return [
        it
        for it in requests
        if it.method == "HEAD" and not it.headers.get("user-agent", "").startswith("Boto3")
    ]


def there(_request: Request) -> Answer:
    when = {"Last-Modified": "Tue, 01 Dec 2026 08:00:00 GMT", "ETag": '"e"'}
    return Answer(200, headers=when)


def scattered(request: Request) -> Answer:
    """A listing that does not pay, and every object there."""
    return page([], truncated=False) if is_listing(request) else there(request)


@ITS_OWN
def test_it_sees_of_every_odd_key_what_botocore_sees_or_is_not_asked(
    client: S3Client, bucket: str
) -> None:
    keys = [*ODD_KEYS, *SCATTERED, "files/a/"]
    for length, key in enumerate(keys):
        client.put_object(Bucket=bucket, Key=key, Body=b"x" * length)
    faster = faster_client(client, bucket)
    assert faster is not None
    found = faster.found(keys)
    assert set(SCATTERED) <= set(found)
    assert {"files/a b", "files/a+b", "files/a%2Fb", "files/\U0001f642.txt"} <= set(found)
    alone = look_at_targets(client, bucket, [Target(key) for key in found])
    assert {key: alone[Target(key)] for key in found} == found
    # Their names would become those of others, or be refused.
    assert not {"files//a", "/files/a", "files/a/", "files/a/./b", "files/.."} & set(found)


@ITS_OWN
def test_a_variable_that_names_another_server_does_not_lead_it_there(
    scripted: ScriptedS3, scripted_client: S3Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody-else")
    scripted.script = scattered
    assert set(found_for_less(scripted_client, "acme", SCATTERED)) == set(SCATTERED)
    asked = by_faster(scripted.requests)
    assert len(asked) == len(SCATTERED)
    assert not any("somebody-else" in it.headers["authorization"] for it in asked)


@pytest.mark.parametrize(
    ("conditional", "goes"), [("ignored", False), (None, False), ("honoured", True)]
)
def test_a_listing_that_is_behind_lets_nothing_go_that_was_written_again(
    scripted: ScriptedS3, scripted_client: S3Client, conditional: Any, *, goes: bool
) -> None:
    seen = datetime(2026, 11, 1, 8, tzinfo=timezone.utc)
    entries = "".join(
        f"<Contents><Key>{key}</Key><Size>0</Size><ETag>old</ETag>"
        f"<LastModified>{seen.isoformat()}</LastModified></Contents>"
        for key in KEYS
    )
    listed = f"{XML}<ListBucketResult><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>"

    def script(request: Request) -> Answer:
        if request.method == "POST":
            # Of a server that honours the condition, this is a refusal.
            return Answer(200, result(refused=dict.fromkeys(request.named_keys(), "AccessDenied")))
        return Answer(200, listed) if is_listing(request) else there(request)

    scripted.script = script
    removing = Removing(
        scripted_client,
        "acme",
        [Expected(key.encode(), "old", 0, int(seen.timestamp() * 1000)) for key in KEYS],
        owned=lambda _: None,
        admit=lambda _: {},
        before_request=lambda: None,
        deletion_mode=DeletionMode(conditional=conditional),
        wait=wait_none(),
        pace=AdaptiveRate(),
    )
    outcomes = removing.run()
    assert bool(scripted.of("POST")) is goes
    # Whatever goes by a listing goes on the condition that it is what was listed.
    for request in scripted.of("POST"):
        assert request.body.count("<ETag>old</ETag>") == len(request.named_keys())
    if not goes:
        assert {it.fate for it in outcomes} == {Fate.CHANGED}


@ITS_OWN
def test_what_it_does_not_find_is_never_absent_before_botocore_has_said_so(
    scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    def script(request: Request) -> Answer:
        if request in by_faster([request]):
            # As a server answers that was reached under another name.
            return Answer(404)
        return scattered(request)

    scripted.script = script
    seen = look_at_targets(
        scripted_client, "acme", [Target(key) for key in SCATTERED], without_versions=True
    )
    assert all(isinstance(it, Present) for it in seen.values())
    assert len(by_faster(scripted.requests)) == len(SCATTERED)


@ITS_OWN
@pytest.mark.parametrize("status", [301, 400, 403, 500, 503])
def test_a_server_that_refuses_it_is_asked_once_and_never_again(
    scripted: ScriptedS3, scripted_client: S3Client, status: int
) -> None:
    scripted.script = lambda request: Answer(status) if by_faster([request]) else scattered(request)
    for _ in range(2):
        measured = measure(scripted_client, "acme", SCATTERED)
        assert all(isinstance(it, Present) for it in measured.values())
    assert len(by_faster(scripted.requests)) == 1


@ITS_OWN
def test_what_fails_on_the_way_goes_through_botocore_and_fewer_are_in_flight(
    scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    def script(request: Request) -> Answer:
        return Answer(503) if by_faster([request]) and "0042" in request.path else there(request)

    scripted.script = lambda it: page([]) if is_listing(it) else script(it)
    faster = faster_client(scripted_client, "acme")
    assert faster is not None
    measured = measure(scripted_client, "acme", SCATTERED)
    assert all(isinstance(it, Present) for it in measured.values())
    assert faster.in_flight == MOST_IN_FLIGHT // 2
    scripted.script = scattered
    measure(scripted_client, "acme", SCATTERED)
    assert MOST_IN_FLIGHT // 2 < faster.in_flight < MOST_IN_FLIGHT


def test_where_it_cannot_be_had_everything_goes_through_botocore(
    scripted: ScriptedS3, scripted_client: S3Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    scripted.script = scattered
    measured = measure(scripted_client, "acme", SCATTERED)
    assert all(isinstance(it, Present) for it in measured.values())
    assert by_faster(scripted.requests) == []


@ITS_OWN
def test_where_versions_are_kept_botocore_looks_because_it_tells_versions_and_locks(
    scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    scripted.script = scattered
    look_at_targets(scripted_client, "acme", [Target(key) for key in SCATTERED])
    assert by_faster(scripted.requests) == []


@ITS_OWN
def test_a_process_that_was_forked_goes_through_botocore_and_waits_for_nobody(
    scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    scripted.script = scattered
    assert len(found_for_less(scripted_client, "acme", SCATTERED)) == len(SCATTERED)
    asked = len(by_faster(scripted.requests))
    child = os.fork()
    if child == 0:
        # Nothing of pytest may run here, and one that waits without end is ended.
        signal.alarm(60)
        with contextlib.suppress(BaseException):
            found = measure(scripted_client, "acme", SCATTERED)
            os._exit(0 if all(isinstance(it, Present) for it in found.values()) else 1)
        os._exit(2)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert len(by_faster(scripted.requests)) == asked
