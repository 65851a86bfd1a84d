"""The probe finds out what a server does with a condition, and leaves nothing behind."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

import pytest

from filejobs_dagster.door import server as module
from filejobs_dagster.door.server import ProbeFailed, doubts, probe
from filejobs_dagster.objects.deletion_mode import Abilities
from tests.objects.orphans import keys_of, markers_in, versions_in
from tests.objects.scripted import XML, Answer, Request, ScriptedS3, errors, result

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.s3 import EmbeddedS3

MARKER = "filejobs-adopted.json"
ETAG = "0123456789abcdef0123456789abcdef"
LATER = "Sat, 29 Nov 2025 10:00:00 GMT"


class Killed(BaseException):
    """Nothing is done any more."""


class Server:
    """Holds objects, and can do what it is told.

    Attributes:
        single: What it makes of a condition in a request for one object.
        batch: The same of one for many; "unknown" knows no such requests at all.
        folds: True to hold keys as paths.
        modified: What its listing and its HEAD say of the time of an object.
        etags: What they say of its ETag.
    """

    def __init__(
        self,
        single: str = "obeys",
        batch: str = "obeys",
        *,
        folds: bool = False,
        modified: tuple[str, str] = ("2025-11-29T10:00:00.900Z", "Sat, 29 Nov 2025 10:00:00 GMT"),
        etags: tuple[str, str] = (f'"{ETAG}"', f'"{ETAG}"'),
    ) -> None:
        self.single = single
        self.batch = batch
        self.folds = folds
        self.modified = modified
        self.etags = etags
        self.there: set[str] = set()
        self.keys: set[str] = set()

    def __call__(self, request: Request) -> Answer:
        path, _, query = request.path.partition("?")
        self.keys.add(path)
        key = path.removeprefix("/acme").removeprefix("/")
        if self.folds:
            key = re.sub("/+", "/", key)
        if "versions" in query or "uploads" in query:
            return Answer(501, errors("NotImplemented"))
        if request.method in ("PUT", "HEAD", "GET"):
            return self.looked_at(request.method, key)
        if request.method == "DELETE":
            condition = request.headers.get("if-match")
            return self.answer(
                key, self.single, condition, Answer(204), Answer(412, errors("PreconditionFailed"))
            )
        if self.batch == "unknown":
            return Answer(405, errors("MethodNotAllowed"))
        (key,) = request.named_keys()
        found = re.search("<ETag>(.*?)</ETag>", request.body)
        return self.answer(
            key,
            self.batch,
            None if found is None else found[1],
            Answer(body=result([key])),
            Answer(body=result([], {key: "PreconditionFailed"})),
        )

    def looked_at(self, method: str, key: str) -> Answer:
        if method == "GET":
            return Answer(body=self.listing())
        if method == "PUT":
            self.there.add(key)
            return Answer(headers={"ETag": f'"{ETAG}"'})
        headers = {"ETag": self.etags[1], "Last-Modified": self.modified[1]}
        return Answer(headers=headers) if not key or key in self.there else Answer(404)

    def listing(self) -> str:
        entries = "".join(
            f"<Contents><Key>{key}</Key><Size>1</Size><ETag>{escape(self.etags[0])}</ETag>"
            f"<LastModified>{self.modified[0]}</LastModified></Contents>"
            for key in sorted(self.there)
        )
        return f"{XML}<ListBucketResult>{entries}</ListBucketResult>"

    def answer(
        self, key: str, deletion_mode: str, condition: str | None, gone: Answer, kept: Answer
    ) -> Answer:
        if condition is None or deletion_mode == "ignores":
            self.there.discard(key)
            return gone
        if deletion_mode == "refuses":
            return Answer(501, errors("NotImplemented"))
        if deletion_mode == "obeys" and ETAG in condition:
            self.there.discard(key)
            return gone
        return kept


@pytest.mark.parametrize(
    ("single", "batch", "word"),
    [
        ("obeys", "obeys", "honoured"),
        ("obeys", "ignores", "single only"),
        ("ignores", "obeys", "batch only"),
        ("ignores", "ignores", "ignored"),
        ("refuses", "refuses", "unsupported"),
        ("refuses", "ignores", "ignored"),
        ("obeys", "refuses", "single only"),
        ("obeys", "unknown", "single only"),
        ("ignores", "unknown", "ignored"),
        # Refuses every condition, also one that holds: with it nothing would ever go.
        ("never", "never", "unsupported"),
    ],
)
def test_what_a_server_does_with_a_condition_is_found_out(
    scripted: ScriptedS3, scripted_client: S3Client, single: str, batch: str, word: str
) -> None:
    server = Server(single, batch)
    scripted.script = server
    found = probe(scripted_client, "acme", MARKER)
    assert (found.abilities.conditional, found.leftover) == (word, None)
    assert found.abilities.bulk is (batch != "unknown")
    assert not server.there
    assert all(path.startswith(f"/acme/{MARKER}.probe-") for path in server.keys - {"/acme"})


@pytest.mark.parametrize(
    ("server", "found"),
    [
        (Server(), {}),
        (Server(folds=True), {"folds_slashes": True}),
        # Rounded up in one of the two.
        (Server(modified=("2025-11-29T09:59:59Z", LATER)), {"seconds_apart": 1}),
        # Hours of a time zone, called UTC.
        (Server(modified=("2025-11-29T02:00:00Z", LATER)), {"seconds_apart": 8 * 3600}),
        (Server(etags=(f'"{ETAG}"', f'W/"{ETAG}"')), {"etags": "weakly"}),
        (Server(etags=(ETAG, f'"{ETAG}"')), {}),
        (Server(etags=('"another"', f'"{ETAG}"')), {"etags": "different"}),
    ],
)
def test_what_two_looks_at_one_object_say_is_found_out(
    scripted: ScriptedS3, scripted_client: S3Client, server: Server, found: dict[str, Any]
) -> None:
    scripted.script = server
    abilities = probe(scripted_client, "acme", MARKER).abilities
    assert asdict(abilities) == asdict(Abilities("honoured", **found))
    # Up to two seconds are rounding; what is more keeps every orphan for ever, and is said.
    assert bool(doubts(abilities)) is (
        abilities.seconds_apart == 8 * 3600 or abilities.etags == "different"
    )


def test_on_the_embedded_server_nothing_is_left_and_nothing_else_is_touched(
    client: S3Client, bucket: str
) -> None:
    client.put_object(Bucket=bucket, Key=MARKER, Body=b"the marker")
    client.put_object(Bucket=bucket, Key="files/a", Body=b"a file")
    found = probe(client, bucket, MARKER)
    assert found.abilities == Abilities("single only", lists_uploads=True)
    assert "Werkzeug" in found.server
    assert keys_of(client, bucket) == {MARKER, "files/a"}


def test_where_versions_are_kept_the_probe_leaves_none(
    client: S3Client, versioned_bucket: str
) -> None:
    assert probe(client, versioned_bucket, MARKER).leftover is None
    assert versions_in(client, versioned_bucket) == []
    assert markers_in(client, versioned_bucket) == []


def test_killed_in_the_middle_it_leaves_one_object_which_the_next_one_removes(
    scripted: ScriptedS3, scripted_client: S3Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server()
    server.there.add(f"{MARKER}.probe-of-an-earlier-version")
    scripted.script = server
    cleans_up = module._clean_up

    def killed(*_looked_at: object) -> bool:
        monkeypatch.setattr(module, "_clean_up", killed)
        raise Killed

    for _ in range(3):
        monkeypatch.setattr(module, "_clean_up", cleans_up)
        monkeypatch.setattr(module, "_folds_slashes", killed)
        with pytest.raises(Killed):
            probe(scripted_client, "acme", MARKER)
        assert server.there == {f"{MARKER}.probe-object/x"}
    monkeypatch.undo()
    probe(scripted_client, "acme", MARKER)
    assert server.there == set()


KILLED = """
import os, signal, sys
from filejobs_dagster.door import server
from filejobs_dagster.objects.client import make_client
from tests.objects.buckets import BucketForTests

endpoint, bucket, marker = sys.argv[1:]
server._folds_slashes = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
server.probe(make_client(BucketForTests(endpoint_url=endpoint)), bucket, marker)
"""


@pytest.mark.thorough
def test_a_process_that_is_killed_leaves_one_object_however_often_and_the_next_one_none(
    s3_server: EmbeddedS3, client: S3Client, bucket: str
) -> None:
    command = [sys.executable, "-c", KILLED, s3_server.endpoint_url, bucket, MARKER]
    for _ in range(2):
        assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
        assert keys_of(client, bucket) == {f"{MARKER}.probe-object/x"}
    assert probe(client, bucket, MARKER).leftover is None
    assert keys_of(client, bucket) == set()


def test_beside_what_an_earlier_probe_could_not_remove_no_other_object_is_written(
    scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    server = Server()
    server.there.add(f"{MARKER}.probe-locked")

    def script(request: Request) -> Answer:
        if request.method == "POST":
            return Answer(body=result([], dict.fromkeys(request.named_keys(), "AccessDenied")))
        return server(request)

    scripted.script = script
    with pytest.raises(ProbeFailed, match=r"probe-locked.* of an earlier probe"):
        probe(scripted_client, "acme", MARKER)
    assert not scripted.of("PUT")
    assert server.there == {f"{MARKER}.probe-locked"}


@pytest.mark.parametrize("status", [403, 503])
def test_a_probe_that_may_not_write_says_which_rights_it_needs(
    scripted: ScriptedS3, scripted_client: S3Client, status: int
) -> None:
    scripted.script = lambda _request: Answer(status, errors("AccessDenied"))
    with pytest.raises(ProbeFailed, match="s3:PutObject"):
        probe(scripted_client, "acme", MARKER)
    # A request that failed may have arrived all the same, so its object is taken away again.
    named = [key for request in scripted.of("POST") for key in request.named_keys()]
    assert all(key.startswith(f"{MARKER}.probe-") for key in named)


def test_what_the_probe_could_not_remove_is_named(
    scripted: ScriptedS3, scripted_client: S3Client
) -> None:
    server = Server("never", "never")

    def script(request: Request) -> Answer:
        if request.method == "POST" and "<ETag>" not in request.body:
            return Answer(body=result([], dict.fromkeys(request.named_keys(), "AccessDenied")))
        return server(request)

    scripted.script = script
    found = probe(scripted_client, "acme", MARKER)
    assert found.leftover is not None
    assert found.leftover.startswith(f"{MARKER}.probe-")
