"""The demo and the web UI as a person uses them: real commands, real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import psycopg
import pytest

from filejobs_dagster.demo import servers, web
from filejobs_dagster.demo.configuration import BUCKET
from filejobs_dagster.demo.feature import SMALL
from filejobs_dagster.demo.place import DemoPlace
from filejobs_dagster.embedded.s3 import S3Endpoint
from filejobs_dagster.objects.targets import QUARANTINE
from filejobs_dagster.registry import JOB_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = Path(__file__).parents[2]
SECONDS_FOR_THE_DEMO = 900
SECONDS_TO_BE_READY = 300

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.thorough,
    pytest.mark.timeout(3 * SECONDS_FOR_THE_DEMO),
]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(PROJECT), "PYTHONUNBUFFERED": "1"}


def filejobs(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "filejobs_dagster.cli", *arguments],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=SECONDS_FOR_THE_DEMO,
        check=False,
    )


@pytest.fixture
def place(tmp_path: Path) -> Iterator[DemoPlace]:
    place = DemoPlace.at(tmp_path / "state")
    yield place
    filejobs("demo", "--stop", "--home", str(place.home))


def run_the_demo(place: DemoPlace) -> str:
    result = filejobs("demo", "--small", "--home", str(place.home))
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def records(database_url: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(database_url) as connection:
        return connection.execute(
            "SELECT job, outcome, mode, acted, detail #>> '{trigger,kind}' FROM job_run ORDER BY id"
        ).fetchall()


def completed_while_it_worked(database_url: str) -> dict[str, int]:
    """Key and size of what complete_upload made ready although its reservation had expired."""
    with psycopg.connect(database_url) as connection:
        return dict(
            connection.execute(
                """
                SELECT storage_key, size_bytes
                  FROM file
                 WHERE state = 'ready' AND upload_expires_at < completed_at
                """
            ).fetchall()
        )


def stored(s3_endpoint: str) -> dict[str, int]:
    pages = S3Endpoint(s3_endpoint).client().get_paginator("list_objects_v2")
    return {
        entry["Key"]: entry["Size"]
        for page in pages.paginate(Bucket=BUCKET)
        for entry in page.get("Contents", [])
    }


def assert_that_it_told_the_whole_story(place: DemoPlace, output: str) -> servers.Servers:
    running = servers.find(place)
    assert running is not None, "the servers must outlive the demo"
    dry, live, marked, swept = records(running.database_url)
    assert dry == ("upload_reservations", "ok", "dry", 0, "cli")
    assert live[:3] == ("upload_reservations", "ok", "live")
    assert marked == ("storage_orphans", "ok", "dry", 0, "cli")
    assert swept == ("storage_orphans", "ok", "live", SMALL.orphans, "cli")
    completed = completed_while_it_worked(running.database_url)
    promised = re.search(r"every one of the (\d+) completed uploads still has its row", output)
    assert promised is not None, output
    assert len(completed) == int(promised[1]) > 0
    bytes_there = stored(running.s3_endpoint)
    assert {key: bytes_there.get(key) for key in completed} == completed
    assert f"the real sweep took {SMALL.orphans} objects" in output
    assert "filejobs run storage_orphans --live --rehearsed " in output
    restored = re.search(r"\$ filejobs restore (\S+) --live", output)
    assert restored is not None, output
    assert restored[1] in bytes_there
    copies = [key for key in bytes_there if key.startswith(QUARANTINE)]
    assert SMALL.orphans - len(copies) in (0, 1), "what was restored may leave quarantine"
    assert f"It would collect {SMALL.expired}" in output
    skipped = re.search(r"won by others (\d+), held (\d+)", output)
    assert skipped is not None, output
    table = output[output.rfind("job_run ") : output.find("1 (dry)")]
    assert table
    assert "…" not in table, "80 columns are enough"
    assert sum(map(int, skipped.groups())) >= SMALL.slow_clients, (
        "rows that a client holds are skipped"
    )
    assert f"{SMALL.slow_clients} of them in the very moment" in output
    for job in JOB_NAMES:
        assert re.search(rf"{job}\W+(OK|not in the settings) ", output), f"{job} has no standing"
    assert "The chain `collectors`: sealed, pinned and verified" in output
    assert not re.search(r" - DEBUG - |Traceback", output)
    return running


def alive(pids: list[int]) -> list[str]:
    found = []
    for pid in pids:
        try:
            process = psutil.Process(pid)
            if process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline()) or process.name())
        except psutil.NoSuchProcess:
            continue
    return found


def with_children(pid: int) -> list[int]:
    return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]


def free_port() -> int:
    return next(port for port in range(34_000, 60_000) if web._refusal("127.0.0.1", port) is None)


class Dev:
    """A `filejobs dev` that runs."""

    def __init__(self, place: DemoPlace) -> None:
        self.port = free_port()
        self.said = place.home.parent / "dev.log"
        with self.said.open("w") as output:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "filejobs_dagster.cli", "dev"),
                    *("--home", str(place.home), "--port", str(self.port)),
                ],
                env=environment(),
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_until_ready(self) -> None:
        deadline = time.monotonic() + SECONDS_TO_BE_READY
        while "The web UI is ready" not in self.said.read_text():
            assert self.process.poll() is None, self.said.read_text()
            assert time.monotonic() < deadline, self.said.read_text()
            time.sleep(0.1)

    def ask(self, query: str) -> Any:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/graphql",
            json.dumps({"query": query}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as response:  # noqa: S310
            return json.load(response)["data"]


def assert_that_dev_shows_the_same_data_and_ends_whole(place: DemoPlace) -> None:
    dev = Dev(place)
    try:
        dev.wait_until_ready()
        runs = dev.ask("{runsOrError {... on Runs {results {jobName status}}}}")
        # The newest come first; at each quarter of an hour the schedule starts one more.
        *_, second, first = runs["runsOrError"]["results"]
        assert first == second == {"jobName": "upload_reservations", "status": "SUCCESS"}
        second = filejobs("dev", "--home", str(place.home), "--port", str(free_port()))
        assert second.returncode == 1
        assert f"runs there already (process {dev.process.pid})" in second.stderr
        family = with_children(dev.process.pid)
        assert len(family) >= 3, "the command, the webserver, the daemon"
    finally:
        dev.process.send_signal(signal.SIGINT)
        result = dev.process.wait(60)
    assert result == 0, dev.said.read_text()
    assert alive(family) == []
    assert web.running(place) == []


def test_the_demo_runs_twice_then_the_web_ui_and_then_nothing_is_left(place: DemoPlace) -> None:
    first = assert_that_it_told_the_whole_story(place, run_the_demo(place))
    of_first = with_children(first.keeper.pid)
    assert len(of_first) > 1, "PostgreSQL is the keeper's child"

    output = run_the_demo(place)
    assert "stopped PostgreSQL and the S3 server, which an earlier command had left" in output
    second = assert_that_it_told_the_whole_story(place, output)
    assert alive(of_first) == []

    assert_that_dev_shows_the_same_data_and_ends_whole(place)
    assert servers.find(place) == second, "what the demo started, `dev` leaves running"

    of_second = with_children(second.keeper.pid)
    stopped = filejobs("demo", "--stop", "--home", str(place.home))
    assert stopped.stdout == "Stopped PostgreSQL and the S3 server.\n"
    assert alive(of_second) == []
    again = filejobs("demo", "--stop", "--home", str(place.home))
    assert (again.returncode, again.stdout) == (0, "Nothing was running.\n")
