"""A database of the operator's is promoted in a drain, or restored: real servers, in each job.

The project's own database stays as it is, and so do marker and counter: nothing there tells.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import dagster as dg
import psycopg
import pytest

from filejobs_dagster.door import belonging, door
from filejobs_dagster.door.databases import Databases, take_over
from filejobs_dagster.door.guards import GUARDS
from filejobs_dagster.objects.client import make_client
from tests.door.pairs import Pair, after_first_batch, started_pair
from tests.jobs.storage_orphans.conftest import Sweeper
from tests.orchestration.conftest import Code, failure_of
from tests.own_tables import OwnTables, example, schema

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.postgres import EmbeddedPostgres
    from filejobs_dagster.embedded.s3 import EmbeddedS3

pytestmark = pytest.mark.thorough

BATCH = 4
KEYS = frozenset(f"files/{number:02}" for number in range(3 * BATCH))
KEPT = "files/kept"
JOBS = ["upload_reservations", "deleted_files", "storage_orphans"]
CARELESS = tuple(guard for guard in GUARDS if not isinstance(guard, Databases))
"""A door that believes every database of the operator's."""


def prepared(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(schema("CREATE TABLE documents").encode())
    refer(url, {KEPT})


def refer(url: str, keys: set[str] | frozenset[str]) -> None:
    """What a client does there: each of the files is complete, and shown to users."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO documents (status, storage_key) SELECT 'complete', unnest(%s::text[])"
            " ON CONFLICT (storage_key) DO UPDATE SET status = 'complete', expires_at = NULL",
            (list(keys),),
        )


@dataclass
class World:
    """An installation whose bucket has a source in the operator's own database."""

    installation: OwnTables
    code: Code
    job: str

    def put(self) -> None:
        """The objects, and the rows that are there from the beginning."""
        for key in {*KEYS, KEPT}:
            if self.job == "upload_reservations" and key != KEPT:
                self.installation.document_row(key)
            else:
                self.installation.client.put_object(
                    Bucket=self.installation.bucket, Key=key, Body=b"bytes"
                )

    def become_due(self) -> None:
        """What is in the project's database, or in the bucket alone."""
        if self.job == "deleted_files":
            self.installation.execute(
                "INSERT INTO file (state, storage_key, deleted_at)"
                " SELECT 'deleted', unnest(%s::text[]), now() - interval '3 days'",
                (list(KEYS),),
            )
        elif self.job == "storage_orphans":
            assert self.run() == ""  # The first sighting.

    def run(self) -> str:
        """One live run; why it failed, or nothing."""
        if self.job == "storage_orphans":
            client = make_client(self.installation.settings().buckets["uploads"])
            sweeper = Sweeper(self.installation, client, guards=vars(door)["GUARDS"])
            return sweeper(batch_size=BATCH).error or ""
        result = self.code.run(self.job, dry_run=False, batch_size=BATCH)
        return "" if result.success else failure_of(result)

    def lost(self, used: set[str] | frozenset[str]) -> set[str]:
        return set(used) - self.installation.keys()


@pytest.fixture(params=JOBS)
def job(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def world(
    tmp_path: Path,
    database_url: str,
    bucket: str,
    s3_client: S3Client,
    s3_server: EmbeddedS3,
    job: str,
) -> Iterator[World]:
    """Without the operator's server yet."""
    installation = OwnTables(tmp_path, database_url, bucket, s3_client, s3_server.endpoint_url)
    installation.use(example("public.documents"))
    installation.document["jobs"]["deleted_files"] = {"by_hand": True, "restore_window": "1d"}
    installation.document["jobs"]["storage_orphans"] = {"by_hand": True}
    with dg.instance_for_test() as instance:
        yield World(installation, Code(installation, instance), job)


@pytest.fixture
def pair() -> Iterator[Pair]:
    with started_pair(prepared) as pair:
        yield pair


def promoted_in_the_middle(world: World, pair: Pair, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Make a drain in which the application goes on at a promoted server; what it refers to."""
    world.installation.app_url = pair.url
    world.put()
    world.become_due()
    used: set[str] = set()

    def fail_over() -> None:
        pair.promote()
        used.update(KEYS & world.installation.keys())
        refer(pair.standby.url(), used)
        pair.move_address()

    after_first_batch(monkeypatch, fail_over)
    return used


def test_a_drain_stops_when_the_operators_standby_is_promoted(
    world: World, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(belonging, "FRESH_FOR", 0.0)
    with monkeypatch.context() as patch:
        used = promoted_in_the_middle(world, pair, patch)
        said = world.run()
    assert len(used) == len(KEYS) - BATCH
    assert world.lost(used) == set()
    assert "FILEJOBS_APP_DATABASE_URL" in said
    assert "a standby was promoted" in said

    # A legitimate promotion is taken over by the next run.
    assert world.run() == ""
    assert world.lost(used) == set()
    assert world.installation.value("SELECT timeline FROM watched_database") == 2

    # The old primary never gets it back.
    world.installation.app_url = pair.primary.url()
    assert "this is the old primary" in world.run()
    assert world.lost(used) == set()


@pytest.mark.parametrize("job", ["deleted_files"])
def test_the_last_question_alone_stops_it_where_the_proof_of_the_batch_came_too_early(
    world: World, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(belonging, "FRESH_FOR", 0.0)
    monkeypatch.setattr(Databases, "prove", lambda *_: None)
    used = promoted_in_the_middle(world, pair, monkeypatch)
    said = world.run()
    assert world.lost(used) == set()
    assert "could not be asked which keys it names" in said
    assert "a standby was promoted" in said


def test_control_without_the_guard_the_drain_loses_what_the_promoted_server_refers_to(
    world: World, pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(belonging, "FRESH_FOR", 0.0)
    monkeypatch.setattr(door, "GUARDS", CARELESS)
    used = promoted_in_the_middle(world, pair, monkeypatch)
    assert world.run() == ""
    assert len(used) == len(KEYS) - BATCH
    assert world.lost(used) == used


@pytest.mark.parametrize("job", ["deleted_files"])
@pytest.mark.parametrize("told", [True, False], ids=["told", "nobody tells: control"])
def test_where_the_address_stays_the_adoption_on_the_new_primary_stops_the_drain(
    world: World, pair: Pair, monkeypatch: pytest.MonkeyPatch, told: bool
) -> None:
    world.installation.app_url = pair.primary.url()
    new = replace(world.installation, app_url=pair.standby.url())
    world.put()
    world.become_due()
    used: set[str] = set()

    def fail_over() -> None:
        pair.promote()
        used.update(KEYS & new.keys())
        refer(new.app_url, used)
        if told:
            with new.database.connect("test") as connection:
                take_over(new.settings(), "uploads", new.database, connection, by="x", again=None)

    after_first_batch(monkeypatch, fail_over)
    said = world.run()
    assert ("this is the old primary" in said) == told
    assert world.lost(used) == (set() if told else used)


def put_back(server: EmbeddedPostgres, snapshot: Path) -> None:
    """Take the server back to what its disk was."""
    server.kill()
    shutil.rmtree(server._place.data)
    subprocess.run(["cp", "-a", snapshot, server._place.data], check=True)
    server.restart()


def test_an_operators_database_that_was_restored_is_refused(
    world: World,
    separate_postgres_server: EmbeddedPostgres,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server, snapshot = separate_postgres_server, tmp_path / "snapshot"
    world.installation.app_url = server.url()
    prepared(server.url())
    world.put()
    with psycopg.connect(server.url(), autocommit=True) as connection:
        # The server of tests commits asynchronously.
        connection.execute("CHECKPOINT")
    server.kill()
    subprocess.run(["cp", "-a", server._place.data, snapshot], check=True)
    server.restart()
    # All of them are in use, so this run removes nothing.
    refer(server.url(), KEYS)
    assert world.run() == ""
    assert world.lost(KEYS) == set()

    put_back(server, snapshot)
    if world.job == "deleted_files":
        world.become_due()
    for _ in range(2):
        said = world.run()
        assert "FILEJOBS_APP_DATABASE_URL leads to a server whose log ends at" in said
        assert "It was restored from a backup or a snapshot" in said
    assert world.lost(KEYS) == set()

    # CONTROL: nobody looks at the operator's database.
    monkeypatch.setattr(door, "GUARDS", CARELESS)
    for _ in range(2):
        assert world.run() == ""
    assert world.lost(KEYS) == KEYS
