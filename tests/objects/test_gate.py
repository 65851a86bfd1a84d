"""The one gate: what passes it, what it keeps, and that there is no way around it."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tenacity import wait_none

import filejobs_dagster
from filejobs_dagster.book.outcomes import AdmissionFailed, ProofRefused, StorageRejected
from filejobs_dagster.objects import sending
from filejobs_dagster.objects.deletion_mode import Abilities, learn
from filejobs_dagster.objects.gate import Gate
from filejobs_dagster.references.check import ReferenceCheck, ReferencesUnknown
from tests.objects.buckets import BucketForTests
from tests.objects.grouped import Deletion
from tests.objects.scripted import Answer, ScriptedS3, errors, result
from tests.references.sources import SourceForTests

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg
    from mypy_boto3_s3 import S3Client

PACKAGE = Path(filejobs_dagster.__file__).parent


def no_proof_needed() -> None:
    """The caller's lock is not what these tests look at."""


def gate_for(
    client: S3Client,
    connection: psycopg.Connection,
    bucket: str = "acme",
    *,
    sources: Sequence[SourceForTests] = (),
    owns: Sequence[str] = ("files/",),
    owns_whole_bucket: bool = False,
    protect: Sequence[str] = (),
) -> Gate:
    settings = BucketForTests(
        endpoint_url=None,
        bucket=bucket,
        owns=owns,
        owns_whole_bucket=owns_whole_bucket,
        protect=protect,
    )
    return Gate(client, settings, ReferenceCheck(connection, sources), wait=wait_none())


@pytest.fixture
def gate(client: S3Client, connection: psycopg.Connection, bucket: str) -> Gate:
    """A gate that owns `files/` of a bucket on a real server."""
    return gate_for(client, connection, bucket)


def insert(connection: psycopg.Connection, key: str, state: str = "ready") -> None:
    connection.execute("INSERT INTO file (state, storage_key) VALUES (%s, %s)", (state, key))


def listed(client: S3Client, bucket: str) -> set[str]:
    return {entry["Key"] for entry in client.list_objects_v2(Bucket=bucket).get("Contents", [])}


# Owned, protected, directory marker


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("files/a", None),
        ("files//a", None),
        ("files/.hidden", None),
        ("files/_tmp/x", None),
        ("other/a", "not owned"),
        ("files", "not owned"),
        ("files-of-somebody-else/a", "not owned"),
        ("/files/a", "not owned"),
        ("FILES/a", "not owned"),
        ("", "not owned"),
        ("files/brand/logo.png", "protected"),
        ("files/brand/", "protected"),
        ("files/brand", None),
        ("files/brand-new", None),
        ("files/terms.pdf", "protected"),
        ("files/terms.pdf/page-1", "protected"),
        ("files/terms.pdf.old", None),
        ("files/", "directory marker"),
        ("files/2024/", "directory marker"),
        ("files/\udc80", "not UTF-8"),
    ],
)
def test_a_key_is_owned_protected_or_a_marker_by_its_exact_name(
    scripted_client: S3Client, connection: psycopg.Connection, key: str, reason: str | None
) -> None:
    gate = gate_for(scripted_client, connection, protect=["files/brand/", "files/terms.pdf"])
    assert gate.owned(key) == reason


def test_nothing_is_owned_unless_the_settings_say_so(
    scripted_client: S3Client, connection: psycopg.Connection
) -> None:
    assert gate_for(scripted_client, connection, owns=[]).owned("files/a") == "not owned"
    assert gate_for(scripted_client, connection, owns=[""]).owned("files/a") == "not owned"
    assert gate_for(scripted_client, connection, owns=["files"]).owned("files/a") == "not owned"


def test_the_whole_bucket_is_owned_only_by_its_flag_and_protection_still_wins(
    scripted_client: S3Client, connection: psycopg.Connection
) -> None:
    gate = gate_for(scripted_client, connection, owns=[], owns_whole_bucket=True, protect=["keep/"])
    assert gate.owned("anything") is None
    assert gate.owned("keep/this") == "protected"
    assert gate.owned("") == "not owned"


# References


@pytest.mark.parametrize("state", ["pending", "ready", "deleted"])
def test_a_key_of_a_file_in_any_state_is_kept(
    gate: Gate, client: S3Client, connection: psycopg.Connection, bucket: str, state: str
) -> None:
    for key in ("files/named", "files/free"):
        client.put_object(Bucket=bucket, Key=key, Body=b"x")
    insert(connection, "files/named", state)
    outcome = gate.delete(["files/named", "files/free"], no_proof_needed)
    assert outcome == Deletion(deleted=("files/free",))
    assert outcome.kept == {"files/named": "referenced by file"}
    assert listed(client, bucket) == {"files/named"}


def test_a_row_that_appears_after_the_candidate_was_chosen_keeps_its_object(
    gate: Gate, client: S3Client, connection: psycopg.Connection, bucket: str
) -> None:
    client.put_object(Bucket=bucket, Key="files/a", Body=b"x")
    assert gate.admit(["files/a"]).admitted == ("files/a",)
    insert(connection, "files/a")
    assert gate.delete(["files/a"], no_proof_needed).kept == {"files/a": "referenced by file"}
    assert listed(client, bucket) == {"files/a"}


def test_reasons_name_every_source_and_keys_keep_their_order(
    scripted_client: S3Client, connection: psycopg.Connection
) -> None:
    connection.execute("CREATE TABLE account (avatar_key text)")
    connection.execute("INSERT INTO account VALUES ('files/face'), ('files/both')")
    insert(connection, "files/both")
    avatars = SourceForTests("avatars", "select avatar_key from account")
    gate = gate_for(scripted_client, connection, sources=[avatars])
    keys = ["files/z", "files/both", "other/x", "files/face", "files/d/", "files/a", "files/z"]
    admission = gate.admit(keys)
    assert admission.admitted == ("files/z", "files/a")
    assert dict(admission.kept) == {
        "files/both": "referenced by file, avatars",
        "other/x": "not owned",
        "files/face": "referenced by avatars",
        "files/d/": "directory marker",
    }


def test_a_source_that_fails_lets_nothing_pass(
    scripted: ScriptedS3, scripted_client: S3Client, connection: psycopg.Connection
) -> None:
    broken = SourceForTests("broken", "select no_such_column from file")
    gate = gate_for(scripted_client, connection, sources=[broken])
    with pytest.raises(ReferencesUnknown, match="broken"):
        gate.admit(["files/a"])
    with pytest.raises(AdmissionFailed, match="broken") as caught:
        gate.delete(["files/a"], no_proof_needed)
    assert isinstance(caught.value.__cause__, ReferencesUnknown)
    assert caught.value.unanswered == ("files/a",)
    assert scripted.requests == []


def test_a_source_that_fails_later_does_not_lose_what_was_deleted_before(
    scripted: ScriptedS3, scripted_client: S3Client, connection: psycopg.Connection
) -> None:
    def drop_the_table() -> None:
        connection.execute("ALTER TABLE file RENAME TO renamed")

    insert(connection, "files/0001")
    scripted.script = lambda request: Answer(body=result(request.named_keys()))
    keys = [f"files/{number:04}" for number in range(1500)]
    with pytest.raises(AdmissionFailed) as caught:
        gate_for(scripted_client, connection).delete(keys, drop_the_table)
    assert len(caught.value.so_far.deleted) == 999
    assert caught.value.so_far.kept == {"files/0001": "referenced by file"}
    assert caught.value.unanswered == tuple(keys[1000:])


# Deleting


def test_nothing_is_sent_and_no_proof_asked_when_nothing_is_admitted(
    scripted: ScriptedS3, scripted_client: S3Client, connection: psycopg.Connection
) -> None:
    def proof() -> None:
        raise AssertionError("asked for nothing")

    outcome = gate_for(scripted_client, connection).delete(["other/a"], proof)
    assert outcome == Deletion()
    assert outcome.kept == {"other/a": "not owned"}
    assert scripted.requests == []


def test_no_byte_goes_without_the_proof(gate: Gate, client: S3Client, bucket: str) -> None:
    def given_up_for_dead() -> None:
        raise RuntimeError("this run was given up for dead")

    client.put_object(Bucket=bucket, Key="files/a", Body=b"x")
    with pytest.raises(ProofRefused, match="given up for dead") as caught:
        gate.delete(["files/a"], given_up_for_dead)
    assert caught.value.unanswered == ("files/a",)
    assert listed(client, bucket) == {"files/a"}


@pytest.mark.parametrize("slow", [True, False])
def test_a_proof_that_took_its_time_makes_the_sources_asked_again(
    gate: Gate,
    client: S3Client,
    bucket: str,
    connection: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    *,
    slow: bool,
) -> None:
    """Without the second question, as after a proof of a moment, the object is lost: CONTROL."""
    if slow:
        monkeypatch.setattr(sending, "HOLDS", 0.0)
    client.put_object(Bucket=bucket, Key="files/a", Body=b"a")

    def proof() -> None:
        if not connection.execute("SELECT FROM file").fetchone():
            insert(connection, "files/a")

    result = gate.delete(["files/a"], proof)
    assert result.kept == ({"files/a": "referenced by file"} if slow else {})
    assert result.deleted == (() if slow else ("files/a",))


def test_a_rejected_batch_says_what_was_deleted_kept_and_not_tried(
    scripted: ScriptedS3, scripted_client: S3Client, connection: psycopg.Connection
) -> None:
    scripted.script = lambda request: (
        Answer(body=result(request.named_keys()))
        if len(scripted.requests) == 1
        else Answer(403, errors("AccessDenied"))
    )
    keys = ["other/a", *(f"files/{number:04}" for number in range(2500))]
    with pytest.raises(StorageRejected, match="AccessDenied") as caught:
        gate_for(scripted_client, connection).delete(keys, no_proof_needed)
    assert caught.value.so_far.deleted == tuple(keys[1:1001])
    assert caught.value.so_far.kept == {"other/a": "not owned"}
    assert caught.value.unanswered == tuple(keys[1001:])


# No way around it


ON_THEIR_OWN_SERVER = {"embedded/seaweedfs.py", "rehearse/there.py"}

PRIVATE_TO_THE_GATE = {
    "removing": {"objects/gate.py"},
    "purging": {"objects/gate.py", "objects/removing.py"},
    # The probe deletes an object that it has just made, under a key of its own beside the marker.
    "sending": {
        "objects/gate.py",
        "door/server.py",
        "objects/purging.py",
        "objects/removing.py",
    },
}


def test_only_one_module_sends_deletions_and_only_the_gate_uses_it() -> None:
    senders = set()
    users: dict[str, set[str]] = {name: set() for name in PRIVATE_TO_THE_GATE}
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE).as_posix()
        if module.startswith("prove/") or module in ON_THEIR_OWN_SERVER:
            # What careless code does, a probe and a rehearsal, each on a server that it starts.
            continue
        text = path.read_text("utf-8")
        if re.search(r"\.delete_(objects?|bucket)\b|['\"]delete_objects?['\"]", text):
            senders.add(module)
        for imported in imports_of(text):
            name = imported.removeprefix("filejobs_dagster.objects.")
            if name in users:
                users[name].add(module)
    assert senders == {"objects/sending.py"}
    assert users == PRIVATE_TO_THE_GATE


def imports_of(text: str) -> set[str]:
    """The full names of all modules that a module's text imports, wherever it does."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return found


# Keys that are one object there


def test_where_keys_are_paths_a_key_that_is_another_ones_stays_and_so_does_its_twin(
    client: S3Client, bucket: str, connection: psycopg.Connection
) -> None:
    learn(client, bucket, Abilities(folds_slashes=True))
    connection.execute("INSERT INTO file (state, storage_key) VALUES ('ready', 'files//named')")
    gate = gate_for(client, connection, bucket)
    keys = ["files//a", "files/named", "files/free"]
    admission = gate.admit(keys)
    assert admission.admitted == ("files/free",)
    assert admission.kept["files//a"] == "ambiguous path"
    assert "files//named" in admission.kept["files/named"]
    assert "referenced by" in admission.kept["files/named"]


def test_control_where_keys_are_no_paths_they_are_two_objects_and_both_go(
    client: S3Client, bucket: str, connection: psycopg.Connection
) -> None:
    connection.execute("INSERT INTO file (state, storage_key) VALUES ('ready', 'files//named')")
    admission = gate_for(client, connection, bucket).admit(["files//a", "files/named"])
    assert admission.admitted == ("files//a", "files/named")
