"""On a server that keeps keys as paths, `files//a` and `files/a` are one object."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.door.server import probe
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.objects.deletion_mode import Abilities, DeletionMode, learn
from tests.conformance.ceph import OWNER
from tests.conformance.gateway import listed, put
from tests.installation import Installation
from tests.jobs.conftest import Collector
from tests.jobs.storage_orphans.conftest import Sweeper
from tests.objects.orphans import gate_on, no_proof_needed, seen

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg

    from tests.conformance.seaweedfs import SeaweedFS

pytestmark = pytest.mark.conformance

MARKER = "filejobs-adopted.json"


@pytest.fixture
def bucket(seaweedfs: SeaweedFS) -> str:
    """The name of a new, empty bucket."""
    name = f"test-{uuid.uuid4().hex}"
    seaweedfs.client.create_bucket(Bucket=name)
    return name


@pytest.fixture
def installation(
    tmp_path: Path, database_url: str, seaweedfs: SeaweedFS, bucket: str
) -> Installation:
    return Installation(tmp_path, database_url, bucket, seaweedfs.client, seaweedfs.endpoint_url)


@pytest.fixture
def sweep(installation: Installation) -> Sweeper:
    environment = installation.environment | {
        "FILEJOBS_S3_ACCESS_KEY_ID": OWNER.access_key_id,
        "FILEJOBS_S3_SECRET_ACCESS_KEY": OWNER.secret_access_key,
    }
    settings = installation.settings(environment).buckets["uploads"]
    return Sweeper(installation, make_client(settings))


def test_the_probe_finds_it_out_and_leaves_nothing(seaweedfs: SeaweedFS, bucket: str) -> None:
    found = probe(seaweedfs.client, bucket, MARKER)
    assert found.abilities == Abilities("honoured", folds_slashes=True, lists_uploads=True)
    assert found.leftover is None
    assert listed(seaweedfs.client, bucket) == []


def test_control_deleting_the_one_takes_the_other(seaweedfs: SeaweedFS, bucket: str) -> None:
    put(seaweedfs.client, bucket, ["files/a"])
    seaweedfs.client.delete_object(Bucket=bucket, Key="files//a")
    assert listed(seaweedfs.client, bucket) == []


def test_the_gate_lets_neither_go(
    seaweedfs: SeaweedFS, bucket: str, connection: psycopg.Connection
) -> None:
    client = seaweedfs.client
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
