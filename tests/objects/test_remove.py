"""An orphan goes only while it is the object that was judged and nothing refers to it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
from tenacity import wait_none

from filejobs_dagster.book.outcomes import DeletionStopped
from filejobs_dagster.objects import judgement, removing
from filejobs_dagster.objects.adaptive_rate import FASTEST, AdaptiveRate
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.objects.deletion_mode import DeletionMode
from filejobs_dagster.objects.targets import Expected
from tests.objects.buckets import BucketForTests
from tests.objects.deleting import delete_objects
from tests.objects.grouped import Removal
from tests.objects.orphans import gate_on, keys_of, no_proof_needed, put, seen
from tests.objects.scripted import Answer, Request, ScriptedS3, errors, result
from tests.references.sources import SourceForTests

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import psycopg
    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.objects.gate import Gate
    from filejobs_dagster.references.near import ReferenceForms
    from filejobs_dagster.references.own_tables import Claim

ETAG = "0123456789abcdef0123456789abcdef"
HEADERS = {"ETag": f'"{ETAG}"', "Last-Modified": "Sat, 29 Nov 2025 10:00:00 GMT"}
MODIFIED = 1764410400_000


@pytest.fixture
def gate(client: S3Client, connection: psycopg.Connection, bucket: str) -> Gate:
    return gate_on(client, connection, bucket)


def refer(connection: psycopg.Connection, key: str) -> None:
    connection.execute("INSERT INTO file (state, storage_key) VALUES ('ready', %s)", (key,))


def expected(*keys: str) -> list[Expected]:
    """What `script` serves."""
    return [Expected(key.encode(), ETAG, 0, MODIFIED) for key in keys]


def script(answer: Callable[[Request], Answer]) -> Callable[[Request], Answer]:
    """Objects that are there until an answer says that they were deleted."""
    gone: set[str] = set()

    def serve(request: Request) -> Answer:
        key = request.path.partition("?")[0].split("/", 2)[-1]
        if request.method == "HEAD":
            return Answer(404) if key in gone else Answer(headers=HEADERS)
        said = answer(request)
        if said.status in (200, 204):
            named = request.named_keys() or [key]
            gone.update(name for name in named if f"<Key>{name}</Key></Deleted>" in said.body)
            gone.update([key] if request.method == "DELETE" else [])
        return said

    return serve


# What goes, and what stays


def test_what_the_server_may_still_carry_out_is_told_from_what_it_refused(
    scripted: ScriptedS3, scripted_client: S3Client, connection: psycopg.Connection
) -> None:
    first = {"files/a": "InternalError", "files/b": "InternalError", "files/c": "AccessDenied"}
    # Of the second try it says that the key may not go: the first may arrive all the same.
    later = {"files/a": "AccessDenied"}

    def answer(request: Request) -> Answer:
        keys = request.named_keys()
        refused = first if "files/c" in keys else later
        return Answer(
            body=result(
                deleted=[key for key in keys if key not in refused],
                refused={key: code for key, code in refused.items() if key in keys},
            )
        )

    scripted.script = script(answer)
    gate = gate_on(scripted_client, connection, "acme")
    removal = gate.remove(expected(*first), no_proof_needed)
    assert removal.deleted == (b"files/b",)
    assert set(removal.failed) == {b"files/a", b"files/c"}
    assert removal.unsettled == {b"files/a"}


def test_orphans_go_and_their_bytes_are_counted(gate: Gate, client: S3Client, bucket: str) -> None:
    orphans = put(client, bucket, "files/a", "files/b c ", "files/x\ty")
    put(client, bucket, "files/stays")
    removal = gate.remove(orphans, no_proof_needed)
    assert removal == Removal(deleted=tuple(it.key for it in orphans), freed=3 * len(b"bytes"))
    assert keys_of(client, bucket) == {"files/stays"}


def test_what_is_not_ours_or_protected_or_no_text_stays_unasked(
    scripted: ScriptedS3, scripted_client: S3Client, connection: psycopg.Connection
) -> None:
    gate = gate_on(
        scripted_client,
        connection,
        "acme",
        owns=[],
        owns_whole_bucket=True,
        protect=["files/brand/"],
    )
    orphans = [
        *expected("files/brand/logo", "filejobs-adopted.json", "filejobs-adopted.json.probe-1"),
        Expected(b"files/\xff", ETAG, 0, MODIFIED),
        *expected("files/folder/", "files/../a"),
    ]
    removal = gate.remove(orphans, no_proof_needed)
    assert removal.kept == {
        b"files/brand/logo": "protected",
        b"filejobs-adopted.json": "protected",
        b"filejobs-adopted.json.probe-1": "protected",
        b"files/\xff": "not UTF-8",
        b"files/folder/": "directory marker",
        b"files/../a": "ambiguous path",
    }
    assert scripted.requests == []
    assert gate_on(scripted_client, connection, "acme").remove(
        expected("other/a"), no_proof_needed
    ) == Removal(kept={b"other/a": "not owned"})


def test_a_referenced_object_stays_and_so_does_what_is_derived_from_one(
    gate: Gate, client: S3Client, bucket: str, connection: psycopg.Connection
) -> None:
    a, b, thumbnail, other = put(
        client, bucket, "files/a", "files/b", "files/thumbnails/a", "files/thumbnails/gone"
    )
    refer(connection, "files/a")
    removal = gate.remove(
        [
            a,
            b,
            replace(thumbnail, owners=("files/none", "files/a")),
            replace(other, owners=("files/gone",)),
        ],
        no_proof_needed,
    )
    assert removal.deleted == (b"files/b", b"files/thumbnails/gone")
    assert removal.kept == {
        b"files/a": "referenced by file",
        b"files/thumbnails/a": "derived from 'files/a', which is referenced by file",
    }
    assert keys_of(client, bucket) == {"files/a", "files/thumbnails/a"}


def test_an_object_stays_whose_owner_no_source_can_be_asked_for(
    gate: Gate, client: S3Client, bucket: str
) -> None:
    (thumbnail,) = put(client, bucket, "files/thumbnails/a")
    removal = gate.remove([replace(thumbnail, owners=("files/\udcff",))], no_proof_needed)
    assert removal.kept == {
        b"files/thumbnails/a": "derived from 'files/\\udcff', which no source can be asked for"
    }
    assert keys_of(client, bucket) == {"files/thumbnails/a"}


def test_the_derived_object_of_a_referenced_one_goes_where_nobody_asks_for_owners_control(
    gate: Gate, client: S3Client, bucket: str, connection: psycopg.Connection
) -> None:
    (thumbnail,) = put(client, bucket, "files/thumbnails/a")
    refer(connection, "files/a")
    gate.remove([thumbnail], no_proof_needed)
    assert keys_of(client, bucket) == set()


def test_what_is_gone_already_is_counted_apart_and_frees_nothing(
    gate: Gate, client: S3Client, bucket: str
) -> None:
    a, b = put(client, bucket, "files/a", "files/b")
    client.delete_object(Bucket=bucket, Key="files/a")
    removal = gate.remove([a, b], no_proof_needed)
    assert removal == Removal(deleted=(b"files/b",), already_gone=(b"files/a",), freed=5)


def test_in_a_bucket_that_is_gone_nothing_is_called_gone(
    client: S3Client, connection: psycopg.Connection
) -> None:
    gate = gate_on(client, connection, "no-such-bucket-anywhere")
    with pytest.raises(DeletionStopped) as stopped:
        gate.remove(expected("files/a"), no_proof_needed)
    assert stopped.value.kind == "storage"
    assert stopped.value.so_far == Removal()
    assert stopped.value.unanswered == (b"files/a",)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"etag": "f" * 32}, "ETag"),
        ({"size": 4}, "size"),
        ({"modified": 1_000_000_000_000}, "seconds later"),
    ],
)
def test_another_object_of_the_same_key_stays(
    gate: Gate, client: S3Client, bucket: str, change: dict[str, int], reason: str
) -> None:
    (orphan,) = put(client, bucket, "files/a")
    removal = gate.remove([replace(orphan, **change)], no_proof_needed)  # type: ignore[arg-type]
    assert removal.removed() == ()
    assert reason in {**removal.changed, **removal.undecided}[b"files/a"]
    assert keys_of(client, bucket) == {"files/a"}


def test_another_object_of_the_same_key_goes_where_only_the_key_counts_control(
    gate: Gate, client: S3Client, bucket: str
) -> None:
    put(client, bucket, "files/a")
    put(client, bucket, "files/a", body=b"somebody uploads other bytes")
    gate.delete(["files/a"], no_proof_needed)
    assert keys_of(client, bucket) == set()


def test_milliseconds_that_only_the_listing_knows_are_no_difference(
    gate: Gate, client: S3Client, bucket: str
) -> None:
    (orphan,) = put(client, bucket, "files/a")
    precise = replace(orphan, modified=orphan.modified // 1000 * 1000 + 789)
    unknown = replace(put(client, bucket, "files/b")[0], modified=-1)
    assert gate.remove([precise, unknown], no_proof_needed).deleted == (b"files/a", b"files/b")


# Between the look and the request


def overwriting(client: S3Client, bucket: str) -> Callable[[], None]:
    def prove() -> None:
        client.put_object(Bucket=bucket, Key="files/a", Body=b"uploaded in the last moment")

    return prove


def test_what_changes_after_the_last_look_stays_where_the_server_obeys_conditions(
    gate: Gate, client: S3Client, bucket: str
) -> None:
    (orphan,) = put(client, bucket, "files/a")
    removal = gate.remove(
        [orphan], overwriting(client, bucket), DeletionMode(conditional="single only")
    )
    assert list(removal.changed) == [b"files/a"]
    assert keys_of(client, bucket) == {"files/a"}


def test_what_changes_after_the_last_look_is_lost_where_the_server_does_not_control(
    gate: Gate, client: S3Client, bucket: str
) -> None:
    """The window that the pages describe: one request long."""
    (orphan,) = put(client, bucket, "files/a")
    assert gate.remove([orphan], overwriting(client, bucket)).deleted == (b"files/a",)
    assert keys_of(client, bucket) == set()


@pytest.mark.parametrize("conditional", ["honoured", "batch only"])
def test_batches_name_the_etag_where_the_server_obeys_it_there(
    scripted: ScriptedS3,
    scripted_client: S3Client,
    connection: psycopg.Connection,
    conditional: str,
) -> None:
    scripted.script = script(
        lambda _request: Answer(body=result(["files/a"], {"files/b": "PreconditionFailed"}))
    )
    gate = gate_on(scripted_client, connection, "acme")
    deletion_mode = DeletionMode(conditional=conditional)  # type: ignore[arg-type]
    removal = gate.remove(expected("files/a", "files/b"), no_proof_needed, deletion_mode)
    assert removal.deleted == (b"files/a",)
    assert list(removal.changed) == [b"files/b"]
    assert scripted.of("POST")[0].body.count(f"<ETag>{ETAG}</ETag>") == 2


def test_a_condition_is_not_sent_to_a_server_that_nobody_has_probed(
    scripted: ScriptedS3, scripted_client: S3Client, connection: psycopg.Connection
) -> None:
    scripted.script = script(lambda request: Answer(body=result(request.named_keys())))
    gate_on(scripted_client, connection, "acme").remove(expected("files/a"), no_proof_needed)
    assert "ETag" not in scripted.of("POST")[0].body


# Between two tries


def test_what_is_referenced_while_the_server_was_busy_stays(
    scripted: ScriptedS3, scripted_client: S3Client, connection: psycopg.Connection
) -> None:
    def busy(request: Request) -> Answer:
        if len(scripted.of("POST")) == 1:
            refer(connection, "files/a")
            return Answer(body=result(["files/c"], {"files/a": "SlowDown", "files/b": "SlowDown"}))
        return Answer(body=result(request.named_keys()))

    scripted.script = script(busy)
    gate = gate_on(scripted_client, connection, "acme")
    removal = gate.remove(expected("files/a", "files/b", "files/c"), no_proof_needed)
    assert set(removal.deleted) == {b"files/b", b"files/c"}
    assert removal.kept == {b"files/a": "referenced by file"}
    assert scripted.of("POST")[1].named_keys() == ["files/b"]


def test_what_is_referenced_while_the_server_was_busy_goes_without_another_look_control(
    scripted: ScriptedS3, scripted_client: S3Client, connection: psycopg.Connection
) -> None:
    def busy(request: Request) -> Answer:
        if len(scripted.of("POST")) == 1:
            refer(connection, "files/a")
            return Answer(body=result([], {"files/a": "SlowDown"}))
        return Answer(body=result(request.named_keys()))

    scripted.script = script(busy)
    outcome = delete_objects(scripted_client, "acme", ["files/a"], wait=wait_none())
    assert outcome.deleted == ("files/a",)


def test_what_is_referenced_before_botocore_tries_again_by_itself_stays(
    scripted: ScriptedS3, connection: psycopg.Connection
) -> None:
    def failing(request: Request) -> Answer:
        if len(scripted.of("POST")) == 1:
            refer(connection, "files/a")
            return Answer(500, errors("InternalError"))
        return Answer(body=result(request.named_keys()))

    scripted.script = script(failing)
    client = make_client(BucketForTests(endpoint_url=scripted.address, max_attempts=3))
    gate = gate_on(client, connection, "acme")
    removal = gate.remove(expected("files/a", "files/b"), no_proof_needed)
    assert removal.kept == {b"files/a": "referenced by file"}
    assert removal.deleted == (b"files/b",)
    assert [request.named_keys() for request in scripted.of("POST")] == [
        ["files/a", "files/b"],
        ["files/b"],
    ]


def test_many_objects_with_a_request_each_do_not_ask_slow_sources_for_each(
    scripted: ScriptedS3,
    scripted_client: S3Client,
    connection: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(judgement, "time", SimpleNamespace(monotonic=lambda: 1000.0 + len(asked)))
    gate = gate_on(scripted_client, connection, "acme")
    judged = gate._references.judged

    def counted(
        keys: Sequence[str], forms: ReferenceForms, *, claims: Sequence[Claim] = ()
    ) -> dict[str, str]:
        asked.append(len(keys))
        return judged(keys, forms, claims=claims)

    gate._references.judged = counted  # type: ignore[method-assign]
    scripted.script = script(lambda _request: Answer(204))
    keys = [f"files/{number:03} " for number in range(150)]
    orphans = [Expected(key.encode(), ETAG, 0, MODIFIED) for key in keys]
    removal = gate.remove(orphans, no_proof_needed, DeletionMode(conditional="single only"))
    assert len(removal.deleted) == 150
    assert len(scripted.of("DELETE")) == 150
    assert asked == [100, 50]


# The proof, and sources that cannot be asked


def test_the_proof_is_asked_before_each_request_and_its_refusal_stops_with_its_cause(
    gate: Gate, client: S3Client, bucket: str
) -> None:
    class Gone(Exception):
        pass

    orphans = put(client, bucket, "files/a", "files/b ")
    asked: list[None] = []

    def prove() -> None:
        asked.append(None)
        if len(asked) == 2:
            raise Gone("the lock is gone")

    with pytest.raises(DeletionStopped, match="the lock is gone") as stopped:
        gate.remove(orphans, prove)
    assert stopped.value.kind == "proof"
    assert isinstance(stopped.value.__cause__, Gone)
    assert stopped.value.so_far == Removal(deleted=(b"files/a",), freed=5)
    assert stopped.value.unanswered == (b"files/b ",)
    assert keys_of(client, bucket) == {"files/b "}


def test_a_source_that_cannot_be_asked_stops_before_anything_is_sent(
    scripted: ScriptedS3, scripted_client: S3Client, connection: psycopg.Connection
) -> None:
    scripted.script = script(lambda request: Answer(body=result(request.named_keys())))
    source = SourceForTests("avatars", "SELECT avatar_key FROM no_such_table")
    gate = gate_on(scripted_client, connection, "acme", sources=[source])
    with pytest.raises(DeletionStopped, match="avatars") as stopped:
        gate.remove(expected("files/a"), no_proof_needed)
    assert stopped.value.kind == "references"
    assert scripted.of("POST") == []


# A server that is busy, refuses or lies


def test_throttled_keys_are_tried_again_slower_and_never_count_as_gone(
    scripted: ScriptedS3, scripted_client: S3Client, connection: psycopg.Connection
) -> None:
    scripted.script = script(
        lambda request: Answer(body=result([], dict.fromkeys(request.named_keys(), "SlowDown")))
    )
    pace = AdaptiveRate(sleep=lambda _seconds: None)
    gate = gate_on(scripted_client, connection, "acme", pace=pace)
    removal = gate.remove(expected("files/a", "files/b"), no_proof_needed)
    assert removal.removed() == ()
    assert set(removal.failed) == {b"files/a", b"files/b"}
    assert pace.rate == FASTEST / 16
    assert pace.times_throttled == 4


def test_a_busy_server_that_recovers_gets_its_requests_again(
    scripted: ScriptedS3, scripted_client: S3Client, connection: psycopg.Connection
) -> None:
    scripted.script = script(
        lambda request: (
            Answer(503, errors("SlowDown"))
            if len(scripted.of("POST")) < 3
            else Answer(body=result(request.named_keys()))
        )
    )
    gate = gate_on(scripted_client, connection, "acme")
    assert gate.remove(expected("files/a"), no_proof_needed).deleted == (b"files/a",)


@pytest.mark.parametrize(
    ("status", "code"),
    [(503, "SlowDown"), (400, "ExpiredToken"), (403, "InvalidAccessKeyId"), (403, "AccessDenied")],
)
def test_a_server_that_turns_every_request_away_stops_the_removal(
    scripted: ScriptedS3,
    scripted_client: S3Client,
    connection: psycopg.Connection,
    status: int,
    code: str,
) -> None:
    scripted.script = script(lambda _request: Answer(status, errors(code)))
    gate = gate_on(scripted_client, connection, "acme")
    with pytest.raises(DeletionStopped, match=code) as stopped:
        gate.remove(expected("files/a"), no_proof_needed)
    assert stopped.value.kind == "storage"
    assert stopped.value.unanswered == (b"files/a",)
    assert len(scripted.of("POST")) == (4 if code == "SlowDown" else 1)


def test_credentials_that_end_in_the_middle_of_a_batch_stop_the_removal(
    scripted: ScriptedS3, scripted_client: S3Client, connection: psycopg.Connection
) -> None:
    scripted.script = script(
        lambda _request: Answer(body=result(["files/a"], {"files/b": "ExpiredToken"}))
    )
    gate = gate_on(scripted_client, connection, "acme")
    with pytest.raises(DeletionStopped, match="ExpiredToken") as stopped:
        gate.remove(expected("files/a", "files/b"), no_proof_needed)
    assert stopped.value.so_far.deleted == (b"files/a",)
    assert "ExpiredToken" in stopped.value.so_far.failed[b"files/b"]


def test_a_server_that_reports_what_is_not_so_is_found_out(
    scripted: ScriptedS3,
    scripted_client: S3Client,
    connection: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(removing, "SECONDS_UNTIL_SECOND_LOOK", 0)
    scripted.script = lambda request: (
        Answer(body=result(request.named_keys()))
        if request.method == "POST"
        else Answer(headers=HEADERS)
    )
    gate = gate_on(scripted_client, connection, "acme")
    keys = [f"files/{number:04}" for number in range(100)]
    with pytest.raises(DeletionStopped, match="20 are still there") as stopped:
        gate.remove(expected(*keys), no_proof_needed)
    assert stopped.value.kind == "verification"
    so_far = stopped.value.so_far
    assert len(so_far.failed) == 20
    assert set(so_far.failed.values()) == {"reported as gone, and still there"}
    assert len(so_far.deleted) == 80


def test_an_object_that_somebody_uploads_afterwards_makes_nobody_a_liar(
    gate: Gate, client: S3Client, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (orphan,) = put(client, bucket, "files/a")
    check = removing.Removing._spot_check

    def upload_first(self: removing.Removing, ours: dict[str, Expected]) -> None:
        put(client, bucket, "files/a", body=b"another object")
        check(self, ours)

    monkeypatch.setattr(removing.Removing, "_spot_check", upload_first)
    assert gate.remove([orphan], no_proof_needed).deleted == (b"files/a",)
    assert seen(client, bucket, "files/a").size == len(b"another object")


@pytest.mark.parametrize(("count", "requests"), [(1001, 2)])
def test_more_orphans_than_a_request_carries_take_several(
    scripted: ScriptedS3,
    scripted_client: S3Client,
    connection: psycopg.Connection,
    count: int,
    requests: int,
) -> None:
    scripted.script = script(lambda request: Answer(body=result(request.named_keys())))
    keys = [f"files/{number:04}" for number in range(count)]
    gate = gate_on(scripted_client, connection, "acme")
    removal = gate.remove(expected(*keys), no_proof_needed)
    assert removal.deleted == tuple(key.encode() for key in keys)
    assert len(scripted.of("POST")) == requests
