"""A deletion believes what the server says of each key, and loses nothing when it is stopped."""

from __future__ import annotations

import threading
import time
import urllib.request
from typing import TYPE_CHECKING
from unittest.mock import Mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from moto.s3.models import s3_backends
from tenacity import wait_none

from filejobs_dagster.book.outcomes import Fate, ProofRefused, StorageRejected
from filejobs_dagster.objects import sending
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.objects.judgement import HOLDS, LastQuestion
from filejobs_dagster.objects.sending import FEWEST_TO_FLY, MOST_TRIES, Deleting
from filejobs_dagster.objects.targets import Target
from tests.objects.buckets import BucketForTests
from tests.objects.deleting import delete_objects
from tests.objects.grouped import Deletion
from tests.objects.odd_keys import COMPOSED, DECOMPOSED, ODD_KEYS
from tests.objects.scripted import Answer, Request, ScriptedS3, errors, result
from tests.objects.test_client import unused_port

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.book.outcomes import Outcomes
    from filejobs_dagster.embedded.s3 import EmbeddedS3

NO_WAIT = wait_none()
MOTO_ACCOUNT = "123456789012"


def delete(client: S3Client, keys: Sequence[str], bucket: str = "acme") -> Outcomes[str]:
    return delete_objects(client, bucket, keys, wait=NO_WAIT)


def fates(client: S3Client, keys: Sequence[str]) -> tuple[Outcomes[str], Sequence[str]]:
    """What became of the keys, and those of which that is not known."""
    try:
        return delete(client, keys), ()
    except StorageRejected as rejected:
        return rejected.so_far, rejected.unanswered


def put(client: S3Client, bucket: str, *keys: str) -> None:
    for key in keys:
        client.put_object(Bucket=bucket, Key=key, Body=b"bytes")


def put_directly(bucket: str, *keys: str) -> None:
    """Write into moto's memory: over HTTP it knows no key with a new line, and takes its time."""
    for key in keys:
        s3_backends[MOTO_ACCOUNT]["aws"].put_object(bucket, key, b"bytes")


def listed(client: S3Client, bucket: str) -> set[str]:
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return {entry["Key"] for page in pages for entry in page.get("Contents", [])}


# What is deleted


def test_every_odd_key_is_deleted_and_nothing_else(client: S3Client, bucket: str) -> None:
    put(client, bucket, *ODD_KEYS, "files/stays")
    assert listed(client, bucket) == {*ODD_KEYS, "files/stays"}
    deletion = delete(client, ODD_KEYS, bucket)
    assert set(deletion.deleted) == set(ODD_KEYS)
    assert listed(client, bucket) == {"files/stays"}


@pytest.mark.parametrize("key", ODD_KEYS)
def test_an_odd_key_alone_is_deleted_and_its_twins_stay(
    client: S3Client, bucket: str, key: str
) -> None:
    others = set(ODD_KEYS) - {key}
    put(client, bucket, *ODD_KEYS)
    assert delete(client, [key], bucket).deleted == (key,)
    assert listed(client, bucket) == others


def test_composed_and_decomposed_letters_are_two_keys(client: S3Client, bucket: str) -> None:
    put(client, bucket, COMPOSED, DECOMPOSED)
    delete(client, [COMPOSED], bucket)
    assert listed(client, bucket) == {DECOMPOSED}


@pytest.mark.parametrize(("count", "requests"), [(1000, 1), (1001, 2), (2500, 3)])
def test_more_keys_than_a_request_carries_take_several(
    scripted: ScriptedS3, scripted_client: S3Client, count: int, requests: int
) -> None:
    scripted.script = lambda request: Answer(body=result(request.named_keys()))
    keys = [f"files/{number:04}" for number in range(count)]
    assert delete(scripted_client, keys).deleted == tuple(keys)
    assert len(scripted.requests) == requests
    assert [key for request in scripted.requests for key in request.named_keys()] == keys


def test_a_thousand_and_one_objects_are_gone_from_a_real_server(
    client: S3Client, bucket: str
) -> None:
    keys = [f"files/{number:04}" for number in range(1001)]
    put_directly(bucket, *keys)
    assert len(delete(client, keys, bucket).deleted) == 1001
    assert listed(client, bucket) == set()


def test_no_key_needs_no_request_and_a_repeated_one_counts_once(
    scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    assert delete(scripted_client, []) == Deletion()
    assert scripted.requests == []
    scripted.script = lambda request: Answer(body=result(request.named_keys()))
    assert delete(scripted_client, ["a", "b", "a"]).deleted == ("a", "b")


def test_in_a_versioned_bucket_objects_are_marked_and_not_called_deleted(
    client: S3Client, versioned_bucket: str
) -> None:
    put(client, versioned_bucket, "files/a", "files/b ")
    deletion = delete(client, ["files/a", "files/b "], versioned_bucket)
    assert deletion == Deletion(marked=("files/a", "files/b "))
    versions = client.list_object_versions(Bucket=versioned_bucket)
    assert {version["Key"] for version in versions["Versions"]} == {"files/a", "files/b "}


def test_what_the_server_calls_gone_already_is_counted_apart(
    scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    def script(request: Request) -> Answer:
        if request.method == "DELETE":
            return Answer(404, errors("NoSuchKey"))
        return Answer(body=result(["a"], {"b": "NoSuchKey"}))

    scripted.script = script
    deletion = delete(scripted_client, ["a", "b", "c "])
    assert deletion == Deletion(deleted=("a",), already_gone=("b", "c "))


def test_a_404_that_does_not_name_the_key_is_no_proof_that_the_object_is_gone(
    scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    scripted.script = lambda _request: Answer(404, "<html>no such page</html>")
    deletion = delete(scripted_client, ["a\nb"])
    assert list(deletion.failed) == ["a\nb"]


# A carriage return in a key


def test_an_unescaped_return_in_a_batch_deletes_another_object_control(
    client: S3Client, bucket: str, s3_server: EmbeddedS3
) -> None:
    put_directly(bucket, "files/a\rb", "files/a\nb")
    body = b"<Delete><Object><Key>files/a\rb</Key></Object></Delete>"
    careless = urllib.request.Request(  # noqa: S310 (a loopback address)
        f"{s3_server.endpoint_url}/{bucket}?delete", data=body, method="POST"
    )
    careless.add_header("Content-Type", "application/xml")
    with urllib.request.urlopen(careless):  # noqa: S310 (a loopback address)
        pass
    assert listed(client, bucket) == {"files/a\rb"}


def test_an_answer_to_a_batch_names_another_key_than_the_one_with_a_return_control(
    client: S3Client, bucket: str
) -> None:
    put_directly(bucket, "files/a\rb", "files/a\nb")
    answer = client.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "files/a\rb"}]})
    assert [entry.get("Key") for entry in answer["Deleted"]] == ["files/a\nb"]


def test_ours_deletes_the_key_with_a_return_and_keeps_the_one_with_a_new_line(
    client: S3Client, bucket: str
) -> None:
    put_directly(bucket, "files/a\rb", "files/a\nb")
    assert delete(client, ["files/a\rb"], bucket) == Deletion(deleted=("files/a\rb",))
    assert listed(client, bucket) == {"files/a\nb"}


def test_a_server_that_does_not_know_keys_with_a_new_line_is_not_believed_to_have_deleted_one(
    client: S3Client, bucket: str
) -> None:
    put_directly(bucket, "files/a\nb")
    deletion = delete(client, ["files/a\nb"], bucket)
    assert list(deletion.failed) == ["files/a\nb"]
    assert listed(client, bucket) == {"files/a\nb"}


# Errors of single keys


def test_a_denied_key_looks_deleted_to_code_that_ignores_errors_control(
    scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    scripted.script = lambda _request: Answer(body=result(["a"], {"b": "AccessDenied"}))
    answer = scripted_client.delete_objects(
        Bucket="acme", Delete={"Objects": [{"Key": "a"}, {"Key": "b"}]}
    )
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 200
    deletion = delete(scripted_client, ["a", "b"])
    assert deletion == Deletion(deleted=("a",), failed={"b": "AccessDenied: made up"})


def test_a_key_that_is_both_deleted_and_refused_has_failed(
    scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    scripted.script = lambda _request: Answer(body=result(["a"], {"a": "AccessDenied"}))
    assert delete(scripted_client, ["a"]) == Deletion(failed={"a": "AccessDenied: made up"})


def test_only_the_keys_whose_failure_may_pass_are_tried_again(
    scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    answers = [
        result(["a"], {"b": "SlowDown", "c": "InternalError", "d": "AccessDenied"}),
        result(["b"], {"c": "SlowDown"}),
        result(["c"]),
    ]
    scripted.script = lambda _request: Answer(body=answers[len(scripted.requests) - 1])
    deletion = delete(scripted_client, ["a", "b", "c", "d"])
    assert [request.named_keys() for request in scripted.requests] == [
        ["a", "b", "c", "d"],
        ["b", "c"],
        ["c"],
    ]
    assert deletion == Deletion(deleted=("a", "b", "c"), failed={"d": "AccessDenied: made up"})


def test_a_poison_object_fails_after_a_few_tries_and_the_others_go(
    scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    def script(request: Request) -> Answer:
        fine = [key for key in request.named_keys() if key != "poison"]
        return Answer(body=result(fine, {"poison": "InternalError"}))

    scripted.script = script
    deletion = delete(scripted_client, ["a", "poison", "z"])
    assert deletion.deleted == ("a", "z")
    assert deletion.failed == {"poison": "InternalError: made up (after 4 tries)"}
    assert len(scripted.requests) == MOST_TRIES


def test_an_odd_key_is_tried_again_too(scripted: ScriptedS3, scripted_client: S3Client) -> None:
    scripted.script = lambda _request: (
        Answer(500, errors("InternalError")) if len(scripted.requests) < 3 else Answer(204)
    )
    assert delete(scripted_client, ["a "]).deleted == ("a ",)
    assert [request.path for request in scripted.requests] == ["/acme/a%20"] * 3


def test_the_path_of_a_single_request_is_not_normalised(
    scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    scripted.script = lambda _request: Answer(204)
    delete(scripted_client, ["files/../b\r/./c//%2F+"])
    assert scripted.requests[0].path == "/acme/files/../b%0D/./c//%252F%2B"


def test_a_key_that_the_server_will_not_read_is_tried_apart_from_the_others(
    scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    def script(request: Request) -> Answer:
        if request.method == "POST":
            return Answer(400, errors("MalformedXML"))
        return Answer(400, errors("KeyTooLongError")) if "long" in request.path else Answer(204)

    scripted.script = script
    deletion = delete(scripted_client, ["a", "long", "z"])
    assert deletion.deleted == ("a", "z")
    assert deletion.failed == {"long": "KeyTooLongError: made up"}


def test_keys_that_s3_cannot_have_fail_alone(
    scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    scripted.script = lambda request: Answer(body=result(request.named_keys()))
    deletion = delete(scripted_client, ["a", "", "\udc80"])
    assert deletion.deleted == ("a",)
    assert set(deletion.failed) == {"", "\udc80"}


# Answers that say less than they should


def test_keys_that_the_answer_does_not_name_are_looked_at(
    scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    def script(request: Request) -> Answer:
        if request.method == "POST":
            return Answer(body=result(nameless=4))
        if request.path.endswith("marked"):
            return Answer(404, headers={"x-amz-delete-marker": "true"})
        return Answer({"gone": 404, "there": 200}.get(request.path.rsplit("/", 1)[1], 403))

    scripted.script = script
    deletion = delete(scripted_client, ["gone", "there", "marked", "denied"])
    assert deletion.deleted == ("gone",)
    assert deletion.marked == ("marked",)
    assert "still there" in deletion.failed["there"]
    assert "403" in deletion.failed["denied"]
    assert all(reason.startswith("unconfirmed") for reason in deletion.failed.values())


def test_an_error_without_its_key_is_not_taken_for_success(
    scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    scripted.script = lambda request: Answer(
        body=result(["a"], nameless_error="AccessDenied") if request.method == "POST" else ""
    )
    deletion = delete(scripted_client, ["a", "b"])
    assert deletion.deleted == ("a",)
    assert "AccessDenied" in deletion.failed["b"]


def test_a_throttling_error_without_its_key_is_tried_again(
    scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    def script(request: Request) -> Answer:
        if request.method == "HEAD":
            return Answer()
        first = len(scripted.of("POST")) == 1
        return Answer(
            body=result(nameless_error="SlowDown") if first else result(request.named_keys())
        )

    scripted.script = script
    assert delete(scripted_client, ["a"]) == Deletion(deleted=("a",))


@pytest.mark.parametrize("body", [errors("SlowDown"), errors("InternalError"), "<html>", ""])
def test_a_200_that_is_no_answer_is_never_success(
    scripted: ScriptedS3, scripted_client: S3Client, body: str
) -> None:
    scripted.script = lambda _request: Answer(body=body)
    deletion, unanswered = fates(scripted_client, ["a", "b"])
    assert deletion.deleted == ()
    assert deletion.marked == ()
    assert {*deletion.failed, *unanswered} == {"a", "b"}


def test_an_error_inside_a_200_is_tried_again_and_then_succeeds(scripted: ScriptedS3) -> None:
    client = make_client(BucketForTests(endpoint_url=scripted.address, max_attempts=2))
    scripted.script = lambda request: Answer(
        body=errors("SlowDown") if len(scripted.requests) == 1 else result(request.named_keys())
    )
    assert delete(client, ["a"]).deleted == ("a",)
    assert len(scripted.requests) == 2


# Whole requests that fail


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (403, "AccessDenied"),
        (403, "InvalidAccessKeyId"),
        (400, "ExpiredToken"),
        (404, "NoSuchBucket"),
        (503, "SlowDown"),
        (500, "InternalError"),
        (501, "NotImplemented"),
    ],
)
def test_a_rejected_batch_is_raised_and_what_was_done_before_is_not_lost(
    scripted: ScriptedS3, scripted_client: S3Client, status: int, code: str
) -> None:
    scripted.script = lambda request: (
        Answer(body=result(request.named_keys()))
        if len(scripted.requests) == 1
        else Answer(status, errors(code))
    )
    keys = [f"{number:04}" for number in range(2500)]
    with pytest.raises(StorageRejected, match=code) as caught:
        delete(scripted_client, keys)
    assert caught.value.so_far == Deletion(deleted=tuple(keys[:1000]))
    assert caught.value.unanswered == tuple(keys[1000:])
    # Whoever knows no batches is asked for one object alone, and knows that as little.
    assert len(scripted.requests) == 2 + (code == "NotImplemented")


@pytest.mark.parametrize("code", ["ExpiredToken", "NoSuchBucket", "SlowDown"])
def test_an_odd_key_meets_a_failure_of_every_request_and_the_rest_is_not_tried(
    scripted: ScriptedS3, scripted_client: S3Client, code: str
) -> None:
    scripted.script = lambda _request: Answer(404 if code == "NoSuchBucket" else 400, errors(code))
    with pytest.raises(StorageRejected, match=code) as caught:
        delete(scripted_client, ["a ", "b "])
    assert caught.value.unanswered == ("a ", "b ")
    assert len(scripted.requests) == 1


def test_a_refused_connection_is_raised() -> None:
    client = make_client(BucketForTests(endpoint_url=f"http://127.0.0.1:{unused_port()}"))
    with pytest.raises(StorageRejected, match="EndpointConnectionError") as caught:
        delete(client, ["a", "b "])
    assert caught.value.unanswered == ("a", "b ")


def test_storage_that_fails_while_keys_are_confirmed_leaves_them_unanswered(
    scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    scripted.script = lambda request: (
        Answer(body=result(["a"], nameless=1)) if request.method == "POST" else Answer(503)
    )
    with pytest.raises(StorageRejected) as caught:
        delete(scripted_client, ["a", "b"])
    assert caught.value.so_far == Deletion(deleted=("a",))
    assert caught.value.unanswered == ("b",)


# The proof before bytes go


def test_the_proof_is_asked_before_every_request_that_deletes(
    scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    asked: list[int] = []
    answers = [result(["a"], {"b": "SlowDown"}), result(["b"]), ""]
    scripted.script = lambda _request: Answer(body=answers[len(scripted.requests) - 1])
    delete_objects(
        scripted_client,
        "acme",
        ["a", "b", "c "],
        before_request=lambda: asked.append(len(scripted.requests)),
        wait=NO_WAIT,
    )
    assert asked == [0, 1, 2]


def test_a_refused_proof_stops_the_deletion_and_loses_nothing(
    scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    def prove() -> None:
        if scripted.requests:
            raise ConnectionError("the lock is gone, password=" + "x" * 10)

    scripted.script = lambda request: Answer(body=result(request.named_keys()))
    keys = [f"{number:04}" for number in range(1500)]
    with pytest.raises(ProofRefused, match="the lock is gone") as caught:
        delete_objects(scripted_client, "acme", keys, before_request=prove, wait=NO_WAIT)
    assert isinstance(caught.value.__cause__, ConnectionError)
    assert caught.value.so_far.deleted == tuple(keys[:1000])
    assert caught.value.unanswered == tuple(keys[1000:])
    assert "xxxx" not in caught.value.reason
    assert len(scripted.requests) == 1


# Many requests for one object each: some are under way at once, each after a proof of its own

ALONE = [f"{number:02} " for number in range(FEWEST_TO_FLY * 2)]
"""A blank at the end takes a request of its own."""


def test_several_are_under_way_at_once_and_each_was_proven_by_itself(
    scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    two_at_once, proofs = threading.Barrier(2), list[int]()

    def script(_request: Request) -> Answer:
        two_at_once.wait(30)
        return Answer(204)

    scripted.script = script
    outcome = delete_objects(
        scripted_client, "acme", ALONE, before_request=lambda: proofs.append(len(scripted.requests))
    )
    assert set(outcome.deleted) == set(ALONE)
    assert len(proofs) == len(scripted.requests) == len(ALONE)
    assert all(sent <= place for place, sent in enumerate(proofs))


def test_a_refused_proof_ends_it_and_what_was_under_way_is_told(
    scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    asked: list[None] = []

    def prove() -> None:
        asked.append(None)
        if len(asked) == 10:
            raise ConnectionError("the lock is gone")

    scripted.script = lambda _request: Answer(204)
    with pytest.raises(ProofRefused, match="the lock is gone") as caught:
        delete_objects(scripted_client, "acme", ALONE, before_request=prove)
    assert len(scripted.requests) == 9
    assert set(caught.value.so_far.deleted) == set(ALONE[:9])
    assert set(caught.value.unanswered) == set(ALONE[9:])


@pytest.mark.parametrize("status", [403, 500])
def test_whatever_fails_the_others_go_and_none_is_told_twice(
    scripted: ScriptedS3, scripted_client: S3Client, status: int
) -> None:
    failed: list[str] = []

    def script(request: Request) -> Answer:
        if "07" in request.path and (status == 403 or not failed):
            failed.append(request.path)
            return Answer(status, errors("AccessDenied" if status == 403 else "InternalError"))
        return Answer(204)

    scripted.script = script
    outcome = delete_objects(scripted_client, "acme", ALONE, wait=NO_WAIT)
    assert set(outcome.failed) == ({ALONE[7]} if status == 403 else set())
    assert set(outcome.deleted) == set(ALONE) - set(outcome.failed)
    assert len(list(outcome)) == len(ALONE)


def test_credentials_that_end_meanwhile_stop_it_and_what_was_answered_stays_known(
    scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    scripted.script = lambda request: (
        Answer(403, errors("ExpiredToken")) if "12" in request.path else Answer(204)
    )
    with pytest.raises(StorageRejected, match="ExpiredToken") as caught:
        delete_objects(scripted_client, "acme", ALONE, wait=NO_WAIT)
    assert {*ALONE[:12]} <= set(caught.value.so_far.deleted)
    assert ALONE[12] in caught.value.unanswered


@pytest.mark.parametrize("careless", [False, True], ids=["ours", "control"])
def test_botocore_does_not_send_one_again_before_its_questions_were_asked_again(
    scripted: ScriptedS3, monkeypatch: pytest.MonkeyPatch, *, careless: bool
) -> None:
    referenced: set[str] = set()

    def script(request: Request) -> Answer:
        if "05" in request.path and not referenced:
            referenced.add(ALONE[5])
            return Answer(500, errors("InternalError"))
        return Answer(204)

    scripted.script = script
    client = make_client(BucketForTests(endpoint_url=scripted.address, max_attempts=3))
    question = LastQuestion(
        ALONE, admit=lambda keys: dict.fromkeys(referenced.intersection(keys), "referenced")
    )
    work = Deleting(
        client, "acme", [Target(key) for key in ALONE], before_request=lambda: None, wait=NO_WAIT,
        supervisor=question,
    )  # fmt: skip
    if careless:
        # What a client that is left alone with its tries does.
        monkeypatch.setattr(work, "_sent_beside", Mock(spec=set, __contains__=lambda *_: False))
    work.run()
    sent = [it for it in scripted.of("DELETE") if "05" in it.path]
    assert (work.verdicts[Target(ALONE[5])].fate is Fate.KEPT) is not careless
    assert len(sent) == (2 if careless else 1)


@pytest.mark.parametrize("holds", [HOLDS, 0.05], ids=["in time", "too late"])
def test_what_botocore_keeps_waiting_after_its_proof_is_proven_anew_before_it_is_sent(
    scripted: ScriptedS3, scripted_client: S3Client, monkeypatch: pytest.MonkeyPatch, holds: float
) -> None:
    monkeypatch.setattr(sending, "HOLDS", holds)
    main, taken_over = threading.get_ident(), threading.Event()

    def wait_for_credentials(**_: object) -> None:
        if threading.get_ident() != main:
            time.sleep(0.2)
            taken_over.set()

    def prove() -> None:
        if taken_over.is_set():
            raise ConnectionError("another run has taken over")

    scripted.script = lambda _request: Answer(204)
    scripted_client.meta.events.register("before-sign.s3.DeleteObject", wait_for_credentials)
    with pytest.raises(ProofRefused, match="taken over") as caught:
        delete_objects(scripted_client, "acme", ALONE, before_request=prove)
    sent = len(scripted.requests)
    assert (sent > 0) is (holds > 1)
    assert len(caught.value.so_far.deleted) == sent
    assert len(caught.value.unanswered) == len(ALONE) - sent


# Whatever the server says


BEHAVIOURS = ["deleted", "nameless", "silent", "AccessDenied", "SlowDown", "NoSuchKey", "both"]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    behaviours=st.dictionaries(
        st.text(alphabet=st.sampled_from("ab\r \x01/"), max_size=6),
        st.sampled_from(BEHAVIOURS),
        max_size=12,
    ),
    whole=st.sampled_from([200, 200, 200, 403, 503]),
    still_there=st.booleans(),
)
def test_every_key_has_exactly_one_fate(
    scripted: ScriptedS3,
    scripted_client: S3Client,
    behaviours: dict[str, str],
    whole: int,
    still_there: bool,
) -> None:
    def script(request: Request) -> Answer:
        if request.method == "HEAD":
            return Answer(200 if still_there else 404)
        if request.method == "DELETE":
            return Answer(204 if whole == 200 else whole)
        said = {key: behaviours.get(key, "silent") for key in request.named_keys()}
        return Answer(
            whole,
            result(
                [key for key, what in said.items() if what in {"deleted", "both"}],
                {
                    key: "AccessDenied" if what == "both" else what
                    for key, what in said.items()
                    if what in {"AccessDenied", "SlowDown", "NoSuchKey", "both"}
                },
                nameless=sum(what == "nameless" for what in said.values()),
            ),
        )

    scripted.script = script
    deletion, unanswered = fates(scripted_client, list(behaviours))
    groups = [deletion.deleted, deletion.marked, deletion.already_gone, tuple(deletion.failed)]
    everything = [key for group in [*groups, unanswered] for key in group]
    assert sorted(everything) == sorted(behaviours)
    denied = {key for key, what in behaviours.items() if what in {"AccessDenied", "both"}}
    batched = {key for request in scripted.of("POST") for key in request.named_keys()}
    assert not (denied & batched & set(deletion.deleted))
