"""Quarantine on real servers: a copy is whole, and nothing is written over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from filejobs_dagster.objects.client import make_client
from filejobs_dagster.objects.deletion_mode import deletion_mode_of
from filejobs_dagster.objects.quarantine import Copying, copies_below
from tests.conformance.ceph import OWNER
from tests.conformance.gateway import client_of
from tests.installation import Installation
from tests.jobs.storage_orphans.conftest import Sweeper
from tests.jobs.storage_orphans.killed import SITES_OF_QUARANTINE, killing
from tests.jobs.storage_orphans.test_sweep_killed import ORPHANS, ends_after_a_kill, in_quarantine
from tests.objects.orphans import gate_on, keys_of, no_proof_needed, put, seen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import psycopg
    from mypy_boto3_s3 import S3Client

pytestmark = pytest.mark.conformance

MEBIBYTE = 2**20
KEYS = ("files/a", "files/📎", "files/a+b", "files/a b%20c", "files/e\u0301", "files/?x=1&y#z")
NEW_LINE = "files/new\nline"


@pytest.fixture(params=["ceph", "seaweedfs"])
def server(request: pytest.FixtureRequest) -> tuple[str, S3Client]:
    """The name of a server, and our client on it."""
    name: str = request.param
    if name == "ceph":
        return name, request.getfixturevalue("owner")
    return name, client_of(request.getfixturevalue(name).endpoint_url, OWNER)


@pytest.fixture
def place(server: tuple[str, S3Client]) -> str:
    """A new bucket there."""
    name = f"test-{uuid.uuid4().hex}"
    server[1].create_bucket(Bucket=name)
    return name


def whole(client: S3Client, bucket: str, key: str) -> dict[str, Any]:
    answer: Any = client.get_object(Bucket=bucket, Key=key)
    tags = client.get_object_tagging(Bucket=bucket, Key=key)["TagSet"]
    names = ("ContentType", "CacheControl", "ContentDisposition", "Metadata", "ContentLength")
    return {
        **{name: answer.get(name) for name in names},
        "body": answer["Body"].read(),
        "tags": sorted((tag["Key"], tag["Value"]) for tag in tags),
    }


def put_whole(client: S3Client, bucket: str, key: str, body: bytes) -> None:
    client.put_object(
        Bucket=bucket,
        Key=key,
        Body=body,
        ContentType="image/png",
        CacheControl="max-age=5",
        ContentDisposition='attachment; filename="a.png"',
        Metadata={"owner": "ada"},
        Tagging="team=red&of=files",
    )


def test_what_goes_comes_back_whole_and_over_nothing(
    server: tuple[str, S3Client], place: str, connection: psycopg.Connection
) -> None:
    name, client = server
    gate = gate_on(client, connection, place)
    keys = [*KEYS, *([NEW_LINE] if name == "ceph" else [])]
    for key in keys:
        put_whole(client, place, key, key.encode())
    before = {key: whole(client, place, key) for key in keys}
    deletion_mode = deletion_mode_of(client, place, purge_versions=False, quarantine=True)
    assert deletion_mode.copies

    done = gate.remove([seen(client, place, key) for key in keys], no_proof_needed, deletion_mode)

    assert done.quarantined == tuple(key.encode() for key in keys), list(done)
    copies = [it for page in copies_below(client, place, "files/") for it in page]
    assert sorted(it.original for it in copies) == sorted(keys)
    assert keys_of(client, place) == {it.key for it in copies}

    (first, *rest) = sorted(copies, key=lambda it: it.original)
    put(client, place, first.original, body=b"newer")
    ends = {it.key: it for it in gate.bring_back([first, *rest])}
    assert ends[first.original].word == "is there"
    assert {it.word for key, it in ends.items() if key != first.original} == {"restored"}
    for it in rest:
        assert whole(client, place, it.original) == before[it.original]
    assert whole(client, place, first.original)["body"] == b"newer"

    asked = {it.key: (it, ()) for it in copies}
    expired = gate.expire(asked, no_proof_needed, deletion_mode)
    assert len(expired.deleted) == len(copies), list(expired)
    assert keys_of(client, place) == set(keys)


def test_what_is_large_or_was_written_in_parts_is_copied_and_verified(
    server: tuple[str, S3Client], place: str
) -> None:
    _, client = server
    put_whole(client, place, "files/large", b"x" * (11 * MEBIBYTE))
    begun = client.create_multipart_upload(Bucket=place, Key="files/parts")["UploadId"]
    parts: list[Any] = []
    for number, size in enumerate((5, 5, 1), start=1):
        answer = client.upload_part(
            Bucket=place,
            Key="files/parts",
            UploadId=begun,
            PartNumber=number,
            Body=bytes([number]) * (size * MEBIBYTE),
        )
        parts.append({"PartNumber": number, "ETag": answer["ETag"]})
    client.complete_multipart_upload(
        Bucket=place, Key="files/parts", UploadId=begun, MultipartUpload={"Parts": parts}
    )
    copying = Copying(client, place, largest=MEBIBYTE, part=5 * MEBIBYTE)
    orphans = [(key, seen(client, place, key)) for key in ("files/large", "files/parts")]
    assert copying.set_aside(orphans) == {}
    for page in copies_below(client, place, "files/"):
        for it in page:
            original, copy = whole(client, place, it.original), whole(client, place, it.key)
            assert copy == original
    assert not client.list_multipart_uploads(Bucket=place).get("Uploads")


@pytest.mark.parametrize("locked", [False, True])
def test_with_versions_a_marker_is_the_quarantine_also_of_what_is_locked(
    server: tuple[str, S3Client], connection: psycopg.Connection, locked: bool
) -> None:
    _, client = server
    bucket = f"test-{uuid.uuid4().hex}"
    client.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=locked)
    if not locked:
        client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    gate = gate_on(client, connection, bucket)
    orphans = put(client, bucket, "files/a", "files/b")
    if locked:
        until = datetime.now(timezone.utc) + timedelta(minutes=2)
        for orphan in orphans:
            client.put_object_retention(
                Bucket=bucket,
                Key=orphan.key.decode(),
                Retention={"Mode": "GOVERNANCE", "RetainUntilDate": until},
            )
        orphans = [seen(client, bucket, orphan.key.decode()) for orphan in orphans]
    deletion_mode = deletion_mode_of(client, bucket, purge_versions=True, quarantine=True)
    assert not deletion_mode.copies
    assert len(gate.remove(orphans, no_proof_needed, deletion_mode).marked) == 2
    assert keys_of(client, bucket) == set()

    put(client, bucket, "files/b", body=b"newer")
    assert gate.uncover("files/a", no_proof_needed).word == "restored"
    assert gate.uncover("files/b", no_proof_needed).word == "is there"
    assert client.get_object(Bucket=bucket, Key="files/a")["Body"].read() == b"bytes"
    assert client.get_object(Bucket=bucket, Key="files/b")["Body"].read() == b"newer"


AS_OWNER = {
    "FILEJOBS_S3_ACCESS_KEY_ID": OWNER.access_key_id,
    "FILEJOBS_S3_SECRET_ACCESS_KEY": OWNER.secret_access_key,
}


def sweeper(folder: Path, database_url: str, bucket: str, client: S3Client) -> Sweeper:
    """The job on a bucket that keeps what goes."""
    installation = Installation(folder, database_url, bucket, client, client.meta.endpoint_url)
    installation.document["jobs"] = {"storage_orphans": {"by_hand": True}}
    installation.keeps()
    installation.write()
    settings = installation.settings(installation.environment | AS_OWNER).buckets["uploads"]
    return Sweeper(installation, make_client(settings))


@pytest.fixture(scope="module")
def kill() -> Iterator[Callable[..., None]]:
    """Starts a live run that is killed at a step."""
    with killing() as start:
        yield start


# Those at which a request has just been answered; all others need no real server.
AFTER_A_REQUEST = (
    "between copy and verification",
    "between verification and deletion",
    "between deletion and record",
    "between copy back and verification",
    "between questions and deletion",
    "between deletion of a copy and record",
)


@pytest.mark.thorough
@pytest.mark.parametrize("server", ["ceph", "seaweedfs"], indirect=True)
@pytest.mark.parametrize("site", AFTER_A_REQUEST)
def test_killed_anywhere_the_original_or_a_copy_is_there_and_the_next_run_finishes(
    server: tuple[str, S3Client],
    place: str,
    tmp_path: Path,
    database_url: str,
    kill: Callable[..., None],
    site: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = server[1]
    sweep = sweeper(tmp_path, database_url, place, client)
    sweep.seen_before(*ORPHANS)
    if site not in SITES_OF_QUARANTINE:
        assert sweep().acted == len(ORPHANS)
        ends_after_a_kill(sweep, lambda: kill(sweep, site, AS_OWNER), monkeypatch, site)
        return
    kill(sweep, site, AS_OWNER)
    there = {*keys_of(client, place), *in_quarantine(sweep)}
    assert there >= set(ORPHANS)
    sweep.deletions_have_arrived()
    outcome = sweep()
    assert outcome.ok, outcome.error
    assert in_quarantine(sweep) == sorted(ORPHANS), "each once"
    assert keys_of(client, place).isdisjoint(ORPHANS)


@pytest.mark.thorough
@pytest.mark.parametrize("server", ["ceph", "seaweedfs"], indirect=True)
def test_restored_by_other_processes_while_a_sweep_works_nothing_is_lost(
    server: tuple[str, S3Client], place: str, tmp_path: Path, database_url: str
) -> None:
    client = server[1]
    sweep = sweeper(tmp_path, database_url, place, client)
    keys = {f"files/{n}" for n in range(40)}
    sweep.seen_before(*sorted(keys))
    environment = {**os.environ, **sweep.installation.environment, **AS_OWNER}
    command = [sys.executable, "-m", "filejobs_dagster.cli", "restore", "--since", "2020-01-01"]

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*command, "--live", "--format", "json"],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    others: list[subprocess.Popen[str]] = []
    sweep.when |= {line: lambda: others.append(start()) for line in ("Listed", "orphans with")}
    outcome = sweep(batch_size=4)
    assert outcome.ok, outcome.error
    assert outcome.acted == len(keys)
    assert len(others) == 2
    for other in others:
        _, said = other.communicate(timeout=300)
        # One that came when the sweep had ended has restored; the others were refused.
        assert other.returncode == 0 or "works on this bucket" in said or "names nothing" in said
    with start() as last:
        told = json.loads(last.communicate(timeout=300)[0])
    assert told["restored"] + told["there"] == len(keys)
    assert keys_of(client, place) >= keys
    assert set(in_quarantine(sweep)) == keys
    for key in keys:
        assert client.get_object(Bucket=place, Key=key)["Body"].read() == b"bytes"
