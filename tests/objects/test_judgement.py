"""The last look is taken right before the request, and says no where it cannot tell."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.objects import judgement
from filejobs_dagster.objects.adaptive_rate import AdaptiveRate
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.objects.deletion_mode import DeletionMode
from filejobs_dagster.objects.targets import Expected, Target
from tests.objects.buckets import BucketForTests
from tests.objects.grouped import Removal
from tests.objects.orphans import gate_on, keys_of, no_proof_needed, put
from tests.objects.scripted import Answer, Request, ScriptedS3, errors, result

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import psycopg
    from mypy_boto3_s3 import S3Client

ETAG = "0123456789abcdef0123456789abcdef"
LAST_MODIFIED = "Sat, 29 Nov 2025 10:00:00 GMT"
MODIFIED = 1764410400_000


def refer(connection: psycopg.Connection, key: str) -> None:
    connection.execute("INSERT INTO file (state, storage_key) VALUES ('ready', %s)", (key,))


# When it is taken


def test_what_is_referenced_while_a_slow_pace_waits_stays(
    client: S3Client, bucket: str, connection: psycopg.Connection
) -> None:
    """Two requests, one for a batch and one for a key that XML cannot carry, far apart."""
    orphans = put(client, bucket, "files/a", "files/b ", "files/c")
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        refer(connection, "files/b ")

    pace = AdaptiveRate(sleep=sleep)
    pace.rate = 0.01
    removal = gate_on(client, connection, bucket, pace=pace).remove(orphans, no_proof_needed)
    assert len(waited) == 1
    assert waited[0] > 50
    assert set(removal.deleted) == {b"files/a", b"files/c"}
    assert removal.kept == {b"files/b ": "referenced by file"}
    assert keys_of(client, bucket) == {"files/b "}


@pytest.mark.parametrize("others", [0, 1])
def test_what_is_referenced_between_the_older_versions_and_the_current_one_stays(
    client: S3Client, versioned_bucket: str, connection: psycopg.Connection, others: int
) -> None:
    """Within seconds of the look before: an earlier request has its own."""
    keys = ["files/a", *(f"files/{number}" for number in range(others))]
    for key in keys:
        put(client, versioned_bucket, key, body=b"the older one")
    orphans = put(client, versioned_bucket, *keys)
    asked: list[None] = []

    def prove() -> None:
        asked.append(None)
        if len(asked) == 1:
            refer(connection, "files/a")

    purge = DeletionMode("enabled", purge_versions=True)
    gate = gate_on(client, connection, versioned_bucket)
    removal = gate.remove(orphans, prove, purge)
    assert removal.kept == {b"files/a": "referenced by file"}
    assert len(removal.purged) == others
    assert keys_of(client, versioned_bucket) == {"files/a"}


def test_what_was_gone_after_a_try_that_seemed_to_fail_is_not_asked_for_again(
    scripted: ScriptedS3, connection: psycopg.Connection
) -> None:
    """The server deletes, and its answer is lost; somebody might upload before the next try."""
    gone: set[str] = set()

    def script(request: Request) -> Answer:
        if request.method == "POST":
            gone.update(request.named_keys())
            return Answer(500, errors("InternalError"))
        if request.path.rsplit("/", 1)[1] in gone_names():
            return Answer(404)
        return Answer(headers={"ETag": f'"{ETAG}"', "Last-Modified": LAST_MODIFIED})

    def gone_names() -> set[str]:
        return {key.rsplit("/", 1)[1] for key in gone}

    scripted.script = script
    client = make_client(BucketForTests(endpoint_url=scripted.address, max_attempts=3))
    orphans = [Expected(f"files/{name}".encode(), ETAG, 0, MODIFIED) for name in "ab"]
    removal = gate_on(client, connection, "acme").remove(orphans, no_proof_needed)
    assert removal == Removal(already_gone=(b"files/a", b"files/b"))
    assert len(scripted.of("POST")) == 1


def test_an_orphan_that_is_named_twice_goes_and_counts_once(
    client: S3Client, bucket: str, connection: psycopg.Connection
) -> None:
    (orphan,) = put(client, bucket, "files/a")
    gate = gate_on(client, connection, bucket)
    removal = gate.remove([orphan, orphan, orphan], no_proof_needed)
    assert removal == Removal(deleted=(b"files/a",), freed=5)


# What it can tell


@pytest.mark.parametrize(
    ("seen", "headers", "goes"),
    [
        ({}, {"ETag": f'"{ETAG}"'}, True),
        ({}, {"Last-Modified": LAST_MODIFIED}, True),
        ({"etag": ""}, {"ETag": f'"{ETAG}"', "Last-Modified": LAST_MODIFIED}, True),
        # A size alone is no identity.
        ({}, {}, False),
        ({"etag": ""}, {"ETag": f'"{ETAG}"'}, False),
        ({"etag": "", "modified": -1}, {"ETag": f'"{ETAG}"'}, False),
        ({"modified": -1}, {"Last-Modified": LAST_MODIFIED}, False),
        # A proxy that compresses makes a weak ETag of it; with the same size it is the same.
        ({}, {"ETag": f'W/"{ETAG}"', "Last-Modified": LAST_MODIFIED}, True),
        ({"size": 1}, {"ETag": f'W/"{ETAG}"', "Last-Modified": LAST_MODIFIED}, False),
        # Rounded in one of the two, a year ago.
        ({}, {"ETag": f'"{ETAG}"', "Last-Modified": "Sat, 29 Nov 2025 10:00:02 GMT"}, True),
        ({}, {"ETag": f'"{ETAG}"', "Last-Modified": "Sat, 29 Nov 2025 10:00:03 GMT"}, False),
        # A clock that went back is as good a reason as one that went on.
        ({}, {"ETag": f'"{ETAG}"', "Last-Modified": "Sat, 29 Nov 2025 09:59:57 GMT"}, False),
        ({"modified": MODIFIED + 999}, {"Last-Modified": LAST_MODIFIED}, True),
        ({"modified": MODIFIED + 1000}, {"Last-Modified": LAST_MODIFIED}, False),
    ],
)
def test_without_proof_that_it_is_the_same_object_it_stays(
    scripted: ScriptedS3,
    scripted_client: S3Client,
    connection: psycopg.Connection,
    seen: dict[str, int],
    headers: dict[str, str],
    goes: bool,
) -> None:
    def script(request: Request) -> Answer:
        if request.method == "POST":
            return Answer(body=result(request.named_keys()))
        return Answer(404) if scripted.of("POST") else Answer(headers=headers)

    scripted.script = script
    orphan = replace(Expected(b"files/a", ETAG, 0, MODIFIED), **seen)  # type: ignore[arg-type]
    removal = gate_on(scripted_client, connection, "acme").remove([orphan], no_proof_needed)
    assert removal.deleted == ((b"files/a",) if goes else ())
    assert [*removal.changed, *removal.undecided] == ([] if goes else [b"files/a"])


# Marked or deleted


@pytest.mark.parametrize(
    ("versioning", "version", "marked"),
    [
        ("enabled", "v1", True),
        ("enabled", None, True),
        ("suspended", "v1", True),
        ("suspended", "null", False),
        ("unknown", "v1", True),
        ("unknown", None, False),
        ("off", None, False),
    ],
)
def test_what_a_marker_only_hides_is_not_called_freed_when_the_answer_does_not_say_so(
    scripted: ScriptedS3,
    scripted_client: S3Client,
    connection: psycopg.Connection,
    versioning: str,
    version: str | None,
    marked: bool,
) -> None:
    headers = {"ETag": f'"{ETAG}"', "Last-Modified": LAST_MODIFIED}
    if version is not None:
        headers["x-amz-version-id"] = version

    def script(request: Request) -> Answer:
        if request.method == "POST":
            return Answer(body=result(request.named_keys()))
        return Answer(404) if scripted.of("POST") else Answer(headers=headers)

    scripted.script = script
    gate = gate_on(scripted_client, connection, "acme")
    orphan = Expected(b"files/a", ETAG, 0, MODIFIED)
    removal = gate.remove([orphan], no_proof_needed, DeletionMode(versioning))  # type: ignore[arg-type]
    assert removal == (Removal(marked=(b"files/a",)) if marked else Removal(deleted=(b"files/a",)))


def test_a_condition_goes_only_where_the_server_obeys_it(
    scripted: ScriptedS3, scripted_client: S3Client, connection: psycopg.Connection
) -> None:
    """`batch only`: a key that XML cannot carry has a request of its own, which may be refused."""
    headers = {"ETag": f'"{ETAG}"', "Last-Modified": LAST_MODIFIED}

    def script(request: Request) -> Answer:
        if request.method == "DELETE":
            return Answer(501, errors("NotImplemented")) if "if-match" in request.headers else ok
        return Answer(404) if scripted.of("DELETE") else Answer(headers=headers)

    ok = Answer(204)
    scripted.script = script
    gate = gate_on(scripted_client, connection, "acme")
    orphan = Expected(b"files/a ", ETAG, 0, MODIFIED)
    removal = gate.remove([orphan], no_proof_needed, DeletionMode(conditional="batch only"))
    assert removal.deleted == (b"files/a ",)


@pytest.mark.parametrize("careless", [False, True], ids=["asked", "control: a look holds for all"])
def test_what_is_referenced_between_two_requests_for_single_objects_stays(
    client: S3Client,
    bucket: str,
    connection: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    *,
    careless: bool,
) -> None:
    """A moment after the look at both."""
    monkeypatch.setattr(judgement, "time", SimpleNamespace(monotonic=lambda: 1000.0))
    if careless:
        monkeypatch.setattr(judgement, "min", lambda *_: judgement.HOLDS, raising=False)
    orphans = put(client, bucket, "files/a", "files/b")

    def prove() -> None:
        if keys_of(client, bucket) == {"files/b"}:
            return
        refer(connection, "files/b")

    removal = gate_on(client, connection, bucket).remove(
        orphans, prove, DeletionMode("off", conditional="single only")
    )
    assert keys_of(client, bucket) == (set() if careless else {"files/b"})
    assert removal.kept == ({} if careless else {b"files/b": "referenced by file"})


def test_sources_that_take_their_time_are_not_asked_for_each_object() -> None:
    """What they say holds for as long as they took, and never for long."""
    now, asked = [1000.0], list[list[str]]()

    def admit(keys: Sequence[str]) -> Mapping[str, str]:
        asked.append(list(keys))
        now[0] += took
        return {}

    for took, again in ((0.0, 3), (1.0, 0), (1000.0, 3)):
        asked.clear()
        question = judgement.LastQuestion(list("abcd"), admit=admit)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(judgement, "time", SimpleNamespace(monotonic=lambda: now[0]))
            for key in "abcd":
                question.withdrawn([Target(key)], again=False)
                now[0] += 0.1 if took < 1000 else 3
        assert len(asked) == 1 + again, took


@pytest.mark.parametrize("careless", [False, True], ids=["asked", "control: another's answer"])
@pytest.mark.parametrize("again", [False, True], ids=["first try", "another try"])
def test_what_was_said_of_one_key_is_no_answer_for_the_next_one(
    monkeypatch: pytest.MonkeyPatch, *, again: bool, careless: bool
) -> None:
    """What was said of `c` is older than what was said of `b` a moment ago."""
    now, took, referenced = [1000.0], [0.6], set[str]()

    def admit(keys: Sequence[str]) -> Mapping[str, str]:
        said = dict.fromkeys(referenced.intersection(keys), "referenced")
        now[0] += took[0]
        return said

    monkeypatch.setattr(judgement, "time", SimpleNamespace(monotonic=lambda: now[0]))
    question = judgement.LastQuestion(list("abc"), admit=admit)
    assert not question.withdrawn([Target("a")], again=False)
    referenced.add("c")
    now[0] += 0.7
    took[0] = 0.2
    if careless:
        # One moment for all keys, and only the one is asked about that is sent.
        monkeypatch.setattr(question, "_and_those_after", lambda key: [key])
        question._answer_holds_until = defaultdict(lambda: now[0] + 0.2, b=0.0)
    assert not question.withdrawn([Target("b")], again=again)
    now[0] += 0.1
    assert bool(question.withdrawn([Target("c")], again=False)) is not careless
