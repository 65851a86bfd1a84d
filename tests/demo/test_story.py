"""The demo's steps when something goes wrong, on real servers and with little data."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest
from rich.console import Console

from filejobs_dagster.demo import servers, story
from filejobs_dagster.demo.configuration import BUCKET, write_files
from filejobs_dagster.demo.feature import Amounts, Answers
from filejobs_dagster.demo.place import DemoPlace
from filejobs_dagster.demo.record import verify
from filejobs_dagster.demo.screen import DemoFailed
from filejobs_dagster.demo.story import load_rows, run_demo, store_objects
from filejobs_dagster.embedded.s3 import S3Endpoint
from filejobs_dagster.postgres.migrate import migrate

pytestmark = pytest.mark.e2e

FEW = Amounts(
    ready=12,
    expired=12,
    live=6,
    without_expiry=2,
    soft_deleted=2,
    orphans=3,
    audit_events=5,
    quick_clients=1,
    slow_clients=1,
)

# As the command is started: `python -m` and these words.
BROKEN_COMMAND = ["json.tool", "--no-such-option"]

SECONDS_UNTIL_NOTICED = 20


def test_a_run_that_fails_is_shown_whole_and_ends_the_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(story, "command", lambda *_: BROKEN_COMMAND)
    place = DemoPlace.at(tmp_path / "state")
    with pytest.raises(DemoFailed) as failure:
        run_demo(place, Console(file=io.StringIO()), FEW)
    assert "exit code 2" in failure.value.found
    assert "--no-such-option" in failure.value.found, "all that the process said"
    assert "dry-run.log" in failure.value.advice
    assert servers.find(place) is None
    assert not place.postgres.exists(), "the data goes with the servers"


@pytest.fixture
def place(tmp_path: Path) -> DemoPlace:
    place = DemoPlace.at(tmp_path / "state")
    place.make_empty()
    return place


def test_whoever_removes_the_folder_ends_the_servers(place: DemoPlace) -> None:
    running = servers.start(place)
    data = Path(json.loads(place.servers.read_text())["postgres_directory"])
    assert data.exists()
    shutil.rmtree(place.home)
    deadline = time.monotonic() + SECONDS_UNTIL_NOTICED
    while running.keeper.process() is not None:
        assert time.monotonic() < deadline, "the servers outlive their folder"
        time.sleep(0.1)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(running.database_url, connect_timeout=5)
    assert not data.exists(), "also where the data had to be kept elsewhere"


def test_a_lost_upload_and_lost_bytes_are_found(place: DemoPlace) -> None:
    running = servers.start(place)
    try:
        migrate(running.database_url)
        feature = load_rows(running, FEW)
        store_objects(running, feature, lambda _: None)
        promised = next(row for row in feature.expired if row.storage_key in feature.objects)
        others = [row for row in feature.expired if row is not promised]
        client = S3Endpoint(running.s3_endpoint).client()
        with psycopg.connect(running.database_url, autocommit=True) as connection:
            connection.execute("SELECT complete_upload(%s)", (promised.id,))
            for row in others:
                connection.execute("DELETE FROM file WHERE id = %s", (row.id,))
                client.delete_object(Bucket=BUCKET, Key=row.storage_key)
            answers = Answers(completed=[promised])
            assert verify(running, feature, answers).completed == 1

            client.delete_object(Bucket=BUCKET, Key=promised.storage_key)
            with pytest.raises(DemoFailed, match="every upload that was promised to a client"):
                verify(running, feature, answers)

            client.put_object(Bucket=BUCKET, Key=promised.storage_key, Body=b"")
            with pytest.raises(DemoFailed, match="every upload that was promised to a client"):
                verify(running, feature, answers)

            body = b"x" * feature.objects[promised.storage_key]
            client.put_object(Bucket=BUCKET, Key=promised.storage_key, Body=body)
            ready = feature.in_state("ready")[0]
            client.delete_object(Bucket=BUCKET, Key=ready.storage_key)
            with pytest.raises(DemoFailed, match="every file and every live reservation"):
                verify(running, feature, answers)
    finally:
        servers.stop(place)


def test_the_environment_leads_a_shell_to_the_demo_and_nowhere_else(place: DemoPlace) -> None:
    running = servers.start(place)
    try:
        write_files(place, running)
        script = (
            f". '{place.environment}'\n"
            'echo "profile=${AWS_PROFILE-unset} service=${PGSERVICE-unset} home=$DAGSTER_HOME"\n'
            "psql -X -A -t -c 'SELECT current_database()'\n"
        )
        result = subprocess.run(
            ["/bin/sh", "-c", script],
            env={
                "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
                "AWS_PROFILE": "real",
                "PGSERVICE": "real",
                "HOME": str(place.home),
            },
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        servers.stop(place)
    assert result.stderr == ""
    assert result.stdout.splitlines() == [
        f"profile=unset service=unset home={place.dagster_home}",
        "filejobs",
    ]
