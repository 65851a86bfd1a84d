"""The probe finds out what a server does with a condition, and leaves nothing behind."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.door.probe import ProbeFailed, probe
from tests.objects.orphans import keys_of, markers_in, versions_in
from tests.objects.scripted import Answer, Request, ScriptedS3, errors, result

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

MARKER = "filejobs-adopted.json"
ETAG = "0123456789abcdef0123456789abcdef"


class Server:
    """Holds one object, and treats conditions as it is told."""

    def __init__(self, single: str, batch: str) -> None:
        self.single = single
        self.batch = batch
        self.there = False
        self.keys: set[str] = set()

    def __call__(self, request: Request) -> Answer:
        self.keys.add(request.path.split("?")[0])
        if "versions" in request.path:
            return Answer(501, errors("NotImplemented"))
        if request.method == "PUT":
            self.there = True
            return Answer(headers={"ETag": f'"{ETAG}"'})
        if request.method == "HEAD":
            return Answer(headers={"ETag": f'"{ETAG}"'}) if self.there else Answer(404)
        if request.method == "DELETE":
            condition = request.headers.get("if-match")
            return self.answer(
                self.single, condition, Answer(204), Answer(412, errors("PreconditionFailed"))
            )
        (key,) = request.named_keys()
        found = re.search("<ETag>(.*?)</ETag>", request.body)
        return self.answer(
            self.batch,
            None if found is None else found[1],
            Answer(body=result([key])),
            Answer(body=result([], {key: "PreconditionFailed"})),
        )

    def answer(self, manner: str, condition: str | None, gone: Answer, kept: Answer) -> Answer:
        if condition is None or manner == "ignores":
            self.there = False
            return gone
        if manner == "refuses":
            return Answer(501, errors("NotImplemented"))
        if manner == "obeys" and ETAG in condition:
            self.there = False
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
    assert (found.conditional, found.leftover) == (word, None)
    assert not server.there
    assert all(path.startswith(f"/acme/{MARKER}.probe-") for path in server.keys - {"/acme"})


def test_on_the_embedded_server_nothing_is_left_and_nothing_else_is_touched(
    client: S3Client, bucket: str
) -> None:
    client.put_object(Bucket=bucket, Key=MARKER, Body=b"the marker")
    client.put_object(Bucket=bucket, Key="files/a", Body=b"a file")
    found = probe(client, bucket, MARKER)
    assert found.conditional == "single only"
    assert "Werkzeug" in found.server
    assert keys_of(client, bucket) == {MARKER, "files/a"}


def test_where_versions_are_kept_the_probe_leaves_none(
    client: S3Client, versioned_bucket: str
) -> None:
    assert probe(client, versioned_bucket, MARKER).leftover is None
    assert versions_in(client, versioned_bucket) == []
    assert markers_in(client, versioned_bucket) == []


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
