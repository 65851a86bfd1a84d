"""upload_reservations when storage misbehaves: refused keys, refused requests, silence."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import psycopg
import pytest
from botocore.awsrequest import AWSResponse, HeadersDict

from filejobs_dagster.jobs.collecting.removal import Removal
from filejobs_dagster.postgres.connect import Database

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.installation import Installation
    from tests.jobs.conftest import Collector

SHORT = timedelta(milliseconds=300)


class _Body:
    """The part of urllib3's response that botocore reads."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self, *_: Any, **__: Any) -> Any:
        yield self._content


def answer(status: int, body: str) -> AWSResponse:
    headers: Any = HeadersDict({"content-type": "application/xml"})
    return AWSResponse("http://127.0.0.1", status, headers, _Body(body.encode()))


def error(code: str) -> str:
    return f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>no</Message></Error>"


def on_delete(collect: Collector, reply: Callable[[list[str]], AWSResponse | None]) -> list[int]:
    """Let a fault answer DeleteObjects; None lets the real server answer."""
    sizes: list[int] = []

    def before_send(request: Any, **_: Any) -> AWSResponse | None:
        if request.method != "POST" or not request.url.endswith("?delete"):
            return None
        body = request.body if isinstance(request.body, bytes) else request.body.encode()
        names = [
            element.text or ""
            for element in ET.fromstring(body).iter()  # noqa: S314 (our own request)
            if element.tag.endswith("Key")
        ]
        sizes.append(len(names))
        return reply(names)

    events: Any = collect.client.meta.events
    events.register("before-send.s3.DeleteObjects", before_send)
    return sizes


def denied(names: list[str], poison: Callable[[str], bool]) -> AWSResponse:
    parts = [
        f"<Error><Key>{name}</Key><Code>AccessDenied</Code><Message>no</Message></Error>"
        if poison(name)
        else f"<Deleted><Key>{name}</Key></Deleted>"
        for name in names
    ]
    return answer(200, f"<?xml version='1.0'?><DeleteResult>{''.join(parts)}</DeleteResult>")


@pytest.mark.thorough
def test_one_poison_object_among_ten_thousand_is_recorded_and_the_others_go(
    installation: Installation, collect: Collector
) -> None:
    installation.reserve_many([f"files/{n}" for n in range(10_000)])
    poison = "files/5000"
    on_delete(collect, lambda names: denied(names, lambda name: name == poison))

    outcome = collect(batch_size=1000, count_bytes=False)

    assert outcome.ok
    assert (outcome.scanned, outcome.acted) == (10_000, 9_999)
    assert outcome.detail["objects_left"] == 1
    assert outcome.detail["samples"]["bytes left"] == [f"{poison}: AccessDenied: no"]


def test_control_counting_what_was_asked_for_would_call_the_poison_collected(
    installation: Installation, collect: Collector
) -> None:
    for key in ("files/a", "files/poison"):
        installation.reserve(key)
    on_delete(collect, lambda names: denied(names, lambda name: "poison" in name))

    careless = collect.client.delete_objects(
        Bucket=installation.bucket,
        Delete={"Objects": [{"Key": "files/a"}, {"Key": "files/poison"}]},
    )

    assert careless["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert installation.has_object("files/poison"), "a 200, and the object is still there"
    assert collect().acted == 1


@pytest.mark.parametrize(
    "reply",
    [
        lambda names: denied(names, lambda _: True),
        lambda _: answer(403, error("AccessDenied")),
        lambda _: answer(503, error("SlowDown")),
        lambda _: answer(200, error("SlowDown")),
        lambda _: answer(400, error("ExpiredToken")),
    ],
    ids=["every key denied", "request denied", "503", "an error inside a 200", "expired token"],
)
def test_when_storage_rejects_a_whole_batch_no_further_row_is_claimed_and_the_run_fails(
    installation: Installation, collect: Collector, reply: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    installation.reserve_many([f"files/{n}" for n in range(30)])
    on_delete(collect, reply)

    outcome = collect(batch_size=10, count_bytes=False)

    assert not outcome.ok
    assert installation.value("SELECT count(*) FROM file") == 20, "only one batch was claimed"
    [progress] = installation.progress()
    assert progress["acted"] == 0
    assert progress["detail"]["objects_left"] == 10
    assert progress["detail"]["stopped_reason"] == "storage rejected a batch"
    assert "storage_orphans" in str(outcome.error)


def test_a_batch_that_storage_rejects_after_others_keeps_their_numbers(
    installation: Installation, collect: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    installation.reserve_many([f"files/{n}" for n in range(30)])
    calls: list[int] = []

    def reply(names: list[str]) -> AWSResponse | None:
        calls.append(len(names))
        return answer(503, error("SlowDown")) if len(calls) > 1 else None

    on_delete(collect, reply)

    outcome = collect(batch_size=10, count_bytes=False)

    assert not outcome.ok
    assert (outcome.scanned, outcome.acted) == (20, 10)
    assert installation.value("SELECT count(*) FROM file") == 10


def test_a_503_that_passes_is_survived(
    installation: Installation, collect: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    installation.reserve("files/a")
    calls: list[int] = []

    def reply(names: list[str]) -> AWSResponse | None:
        calls.append(len(names))
        return answer(503, error("SlowDown")) if len(calls) == 1 else None

    on_delete(collect, reply)

    outcome = collect()

    assert outcome.ok
    assert outcome.acted == 1
    assert len(calls) == 2
    assert not installation.has_object("files/a")


def test_a_source_that_fails_after_the_commit_leaves_the_bytes_and_fails_the_run(
    installation: Installation, collect: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation.execute("CREATE TABLE account (avatar_key text)")
    installation.execute("INSERT INTO account VALUES ('files/x')")
    installation.document["buckets"]["uploads"]["sources"] = [
        {"name": "avatars", "sql": "select avatar_key from account"}
    ]
    installation.reserve("files/a")
    installation.reserve("files/b")
    delete_bytes = Removal.remove

    def drop(self: Any, won: Any) -> None:
        installation.execute("DROP TABLE IF EXISTS account")
        delete_bytes(self, won)

    monkeypatch.setattr(Removal, "remove", drop)

    outcome = collect(batch_size=1)

    assert not outcome.ok
    assert "avatars" in str(outcome.error)
    assert installation.keys() == {"files/a", "files/b"}
    assert installation.value("SELECT count(*) FROM file") == 1


def test_in_a_versioned_bucket_bytes_are_called_marked_not_freed(
    installation: Installation, collect: Collector
) -> None:
    installation.client.put_bucket_versioning(
        Bucket=installation.bucket, VersioningConfiguration={"Status": "Enabled"}
    )
    installation.reserve("files/a", body=b"123")

    outcome = collect()

    assert outcome.ok
    assert outcome.acted == 1
    assert outcome.detail["classes"]["marked"] == 1
    assert outcome.detail["bytes_freed"] == 0
    assert outcome.detail["bytes_by_class"]["marked"] == 3


def test_the_audit_log_names_what_was_left(installation: Installation, collect: Collector) -> None:
    installation.reserve("files/a")
    installation.reserve("files/poison")
    on_delete(collect, lambda names: denied(names, lambda name: "poison" in name))

    collect()

    [[result]] = installation.execute(
        "SELECT body::jsonb FROM audit_event WHERE body::jsonb->>'kind' = 'objects.delete.result'"
    )
    assert result["deleted"] == 1
    assert result["failed"] == {"files/poison": "AccessDenied: no"}


def test_uploads_that_never_arrived_do_not_make_refused_deletions_a_success(
    installation: Installation, collect: Collector
) -> None:
    for number in range(5):
        installation.reserve(f"files/absent-{number}", body=None)
    installation.reserve("files/denied")
    on_delete(collect, lambda names: denied(names, lambda _: True))

    outcome = collect()

    assert not outcome.ok
    assert outcome.detail["objects_left"] == 1
    assert outcome.acted == 5
    assert "could be collected" in str(outcome.error)


def test_small_batches_of_refusals_add_up_and_stop_the_claiming(
    installation: Installation, collect: Collector
) -> None:
    installation.reserve_many([f"files/{n:02}" for n in range(30)])
    on_delete(collect, lambda names: denied(names, lambda _: True))

    outcome = collect(batch_size=1, count_bytes=False)

    assert not outcome.ok
    assert installation.value("SELECT count(*) FROM file") == 20


def test_locked_objects_among_uploads_that_never_arrived_do_not_stop_the_run(
    installation: Installation, collect: Collector
) -> None:
    for number in range(20):
        installation.reserve(f"files/absent-{number}", body=None, due_ago=timedelta(days=2))
    for number in range(2):
        installation.reserve(f"files/locked-{number}", due_ago=timedelta(days=2))
    for number in range(30):
        installation.reserve(f"files/later-{number}")
    on_delete(collect, lambda names: denied(names, lambda name: "locked" in name))

    outcome = collect(batch_size=22)

    assert outcome.ok
    assert outcome.detail["objects_left"] == 2
    assert installation.value("SELECT count(*) FROM file") == 0


def test_without_sizes_bytes_are_unknown_and_never_zero(
    installation: Installation, collect: Collector
) -> None:
    installation.reserve("files/a", body=b"123")

    outcome = collect(count_bytes=False)

    assert outcome.detail["bytes_freed"] is None
    assert outcome.detail["never_arrived"] is None
    assert outcome.detail["unmeasured"] == 1


def test_a_storage_that_does_not_say_sizes_still_deletes_and_says_that_bytes_are_unknown(
    installation: Installation, collect: Collector
) -> None:
    installation.reserve("files/a", body=b"123")
    events: Any = collect.client.meta.events
    events.register("before-send.s3.HeadObject", lambda **_: answer(403, ""))

    outcome = collect()

    assert outcome.ok
    assert outcome.detail["bytes_freed"] is None
    assert not installation.has_object("files/a")


def test_a_run_that_was_given_up_is_not_helped_by_the_retries_of_the_client(
    installation: Installation, collect: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    installation.reserve("files/a")

    def give_up_then_fail(_: list[str]) -> AWSResponse:
        installation.execute("UPDATE job_progress SET closed_at = now()")
        return answer(503, error("SlowDown"))

    sizes = on_delete(collect, give_up_then_fail)

    with pytest.raises(Exception, match="given up for dead"):
        collect(count_bytes=False)

    assert len(sizes) == 1, "the second attempt was not sent"
    assert installation.has_object("files/a")


def test_a_run_that_ends_between_commit_and_bytes_says_what_may_be_left(
    installation: Installation, collect: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        installation.reserve(f"files/{number}")

    def die(self: Any, keys: Any) -> None:
        raise RuntimeError("the machine went away")

    monkeypatch.setattr(Removal, "remove", die)

    collect()

    [progress] = installation.progress()
    assert progress["detail"]["claimed"] == 3
    assert progress["detail"]["objects_left"] == 3
    assert progress["acted"] == 0


def test_bytes_that_went_while_the_run_was_given_up_are_in_the_audit_log(
    installation: Installation, collect: Collector
) -> None:
    installation.reserve("files/a")

    def give_up(_: list[str]) -> None:
        installation.execute("UPDATE job_progress SET closed_at = now()")

    on_delete(collect, give_up)

    with pytest.raises(Exception, match="given up for dead"):
        collect(count_bytes=False)

    assert not installation.has_object("files/a"), "the request was on its way"
    [[result]] = installation.execute(
        "SELECT body::jsonb FROM audit_event WHERE body::jsonb->>'kind' = 'objects.delete.result'"
    )
    assert result["deleted"] == 1


def test_a_result_that_meets_a_locked_audit_head_is_written_when_the_lock_is_free(
    installation: Installation, collect: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation.reserve("files/a")
    holder = psycopg.connect(installation.database_url)
    monkeypatch.setattr(
        type(installation), "database", Database(installation.database_url, lock_timeout=SHORT)
    )

    def hold_the_head(_: list[str]) -> None:
        holder.execute("SELECT FROM audit_chain FOR UPDATE")
        threading.Timer(1.0, holder.rollback).start()

    on_delete(collect, hold_the_head)

    outcome = collect(count_bytes=False)
    holder.close()

    assert outcome.ok
    assert outcome.acted == 1
