"""On a server that keeps keys as paths, `files//a` and `files/a` are one object."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import uuid
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

import pytest

from filejobs_dagster.door.server import probe
from filejobs_dagster.embedded.seaweedfs import SeaweedFS, date_back, weed_program
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.objects.deletion_mode import Abilities, DeletionMode, learn
from tests.conformance.ceph import OWNER
from tests.conformance.gateway import client_of, listed, put
from tests.installation import Installation
from tests.jobs.conftest import Collector
from tests.jobs.storage_orphans.conftest import Sweeper
from tests.objects.orphans import gate_on, no_proof_needed, seen

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg
    from mypy_boto3_s3 import S3Client


pytestmark = pytest.mark.conformance

MARKER = "filejobs-adopted.json"
SECONDS_UNTIL_GONE = 30


@pytest.fixture
def client(seaweedfs: SeaweedFS) -> S3Client:
    return client_of(seaweedfs.endpoint_url, OWNER)


@pytest.fixture
def bucket(client: S3Client) -> str:
    """The name of a new, empty bucket."""
    name = f"test-{uuid.uuid4().hex}"
    client.create_bucket(Bucket=name)
    return name


@pytest.fixture
def installation(
    tmp_path: Path, database_url: str, seaweedfs: SeaweedFS, client: S3Client, bucket: str
) -> Installation:
    return Installation(tmp_path, database_url, bucket, client, seaweedfs.endpoint_url)


@pytest.fixture
def sweep(installation: Installation) -> Sweeper:
    environment = installation.environment | {
        "FILEJOBS_S3_ACCESS_KEY_ID": OWNER.access_key_id,
        "FILEJOBS_S3_SECRET_ACCESS_KEY": OWNER.secret_access_key,
    }
    settings = installation.settings(environment).buckets["uploads"]
    return Sweeper(installation, make_client(settings))


def test_the_probe_finds_it_out_and_leaves_nothing(client: S3Client, bucket: str) -> None:
    found = probe(client, bucket, MARKER)
    assert found.abilities == Abilities("honoured", folds_slashes=True, lists_uploads=True)
    assert found.leftover is None
    assert listed(client, bucket) == []


def test_control_deleting_the_one_takes_the_other(client: S3Client, bucket: str) -> None:
    put(client, bucket, ["files/a"])
    client.delete_object(Bucket=bucket, Key="files//a")
    assert listed(client, bucket) == []


def test_the_gate_lets_neither_go(
    client: S3Client, bucket: str, connection: psycopg.Connection
) -> None:
    learn(client, bucket, probe(client, bucket, MARKER).abilities)
    put(client, bucket, ["files/a", "files/b", "files/c"])
    connection.execute("INSERT INTO file (state, storage_key) VALUES ('ready', 'files//b')")
    gate = gate_on(client, connection, bucket)
    result = gate.delete(["files//a", "files/b", "files/c"], no_proof_needed)
    assert result.deleted == ("files/c",)
    assert set(result.kept) == {"files//a", "files/b"}
    orphan = seen(client, bucket, "files/b")
    removal = gate.remove([orphan], no_proof_needed, DeletionMode(conditional="honoured"))
    assert set(removal.kept) == {b"files/b"}
    assert listed(client, bucket) == ["files/a", "files/b"]


def test_a_reservation_of_the_one_key_leaves_the_object_of_the_other(
    sweep: Sweeper, installation: Installation
) -> None:
    # A live run of any job tries the server; what it found is kept for all.
    sweep.put("files/orphan")
    sweep.refer("files/a", "files/used")
    sweep.put("files/a", "files/used")
    assert sweep().ok
    installation.reserve("files//a", body=None)
    outcome = Collector(installation, sweep.client)()
    assert outcome.detail["classes"] == {"kept: ambiguous path": 1}
    assert installation.has_row("files//a")
    assert {"files/a", "files/used"} <= installation.keys()


def test_orphans_go_and_what_is_in_use_stays(sweep: Sweeper, installation: Installation) -> None:
    sweep.seen_before("files/a", "files/b")
    outcome = sweep()
    assert outcome.ok, outcome.error
    assert outcome.acted == 2
    assert installation.keys() == {"files/used"}


def test_an_object_is_dated_back_and_is_the_same_otherwise(
    seaweedfs: SeaweedFS, client: S3Client, bucket: str
) -> None:
    key = "files/Résumé 100%.txt"
    client.put_object(Bucket=bucket, Key=key, Body=b"bytes", Metadata={"owner": "ada"})
    client.put_object(Bucket=bucket, Key="files/other", Body=b"bytes")
    before, other = whole(client, bucket, key), whole(client, bucket, "files/other")
    date = datetime.now(timezone.utc).replace(microsecond=0) - timedelta(days=80)
    date_back(seaweedfs.filer, bucket, {key: date})
    (listed_now, *_) = client.list_objects_v2(Bucket=bucket, Prefix=key)["Contents"]
    assert listed_now["LastModified"] == date
    assert whole(client, bucket, key) == before | {"LastModified": date}
    assert whole(client, bucket, "files/other") == other


def whole(client: S3Client, bucket: str, key: str) -> dict[str, object]:
    answer = client.get_object(Bucket=bucket, Key=key)
    names = ("LastModified", "ETag", "Metadata", "ContentType", "ContentLength")
    return {**{name: answer.get(name) for name in names}, "body": answer["Body"].read()}


OWNER_OF_A_SERVER = """
import sys
from pathlib import Path
from filejobs_dagster.embedded.seaweedfs import SeaweedFS, weed_program
print(SeaweedFS.start(weed_program(), Path(sys.argv[1])).endpoint_url, flush=True)
input()
"""


def test_the_server_ends_with_its_owner_even_when_that_is_killed(tmp_path: Path) -> None:
    assert weed_program() is not None
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER_OF_A_SERVER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    address = urlsplit(owner.stdout.readline().strip())
    assert answers(address)
    owner.kill()
    owner.communicate()
    deadline = time.monotonic() + SECONDS_UNTIL_GONE
    while answers(address):
        assert time.monotonic() < deadline, "the server outlives its owner"
        time.sleep(0.1)


def answers(address: SplitResult) -> bool:
    with socket.socket() as probing:
        return probing.connect_ex((address.hostname or "", address.port or 0)) == 0
