"""A code server replaced with runs in the queue, and servers that a script has started."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import dagster as dg
import psycopg
import pytest

from tests.e2e.deployment import MODULE, SCRIPTS, free_port, wait_until
from tests.e2e.test_backfills import backfill, by_hand, day, id_in, recorded
from tests.e2e.test_retries import PATIENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.deployment import Deployment

pytestmark = [pytest.mark.e2e, pytest.mark.thorough, pytest.mark.timeout(900)]

JOB = "upload_reservations"
EIGHT_DAYS = range(9, 1, -1)
RETRY = "dagster/retry_number"
QUEUED = dg.RunsFilter(statuses=[dg.DagsterRunStatus.QUEUED])


def launch(deployment: Deployment, job: str = JOB) -> None:
    deployment.dagster("job", "launch", "-w", str(deployment.workspace()), "-j", job)


def wait_for(deployment: Deployment, outcomes: list[str]) -> None:
    def over() -> bool:
        return sorted(run.status.value for run in deployment.runs()) == outcomes

    try:
        wait_until(over, f"the runs ended as {outcomes}", 180)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{deployment.log('daemon.log')}") from None


def test_runs_that_are_started_while_the_code_server_is_replaced_wait_for_the_new_one(
    deployment: Deployment,
) -> None:
    deployment.installation.job(by_hand=True, mode="dry")
    first = deployment.start_code_server()
    deployment.start_daemon()
    launch(deployment)
    wait_for(deployment, ["SUCCESS"])

    with redeploying(deployment, first):
        launch(deployment)
    wait_for(deployment, ["SUCCESS", "SUCCESS"])
    assert "The queue goes on" in deployment.log("drain.log")


@contextmanager
def redeploying(deployment: Deployment, server: subprocess.Popen[bytes]) -> Iterator[None]:
    """`filejobs drain -- …` at work: the queue is held while the body runs.

    After it the code server is told to end, is gone, and a new one takes its place.
    """
    folder = deployment.installation.folder
    replace, go, there = (folder / name for name in ("replace.sh", "go", "replaced"))
    wait = "do sleep 0.2; done"
    replace.write_text(
        f"while [ ! -e {go} ]; {wait}\nkill {server.pid}\ntouch {there}\n"
        f"while [ -e {there} ]; {wait}\n"
    )
    filejobs = str(SCRIPTS / "filejobs")
    drain = deployment.start([filejobs, "drain", "--", "sh", str(replace)], "drain.log")
    wait_until(lambda: "is held by" in deployment.log("drain.log"), "the queue is held", 180)
    yield
    go.touch()
    wait_until(there.exists, "the code server was told to end", 180)
    wait_until(lambda: server.poll() is not None, "the code server ended", 180)
    with deployment.instance() as instance:
        assert instance.get_runs_count(QUEUED) >= 1
    deployment.start_code_server()
    there.unlink()
    assert drain.wait(180) == 0


@contextmanager
def hanging(deployment: Deployment) -> Iterator[tuple[str, int]]:
    """A run that is at work waits for a table as long as this lasts; its id and its process."""
    installation = deployment.installation
    with psycopg.connect(installation.database_url) as connection:
        connection.execute("LOCK TABLE file IN ACCESS EXCLUSIVE MODE")
        wait_until(
            lambda: installation.execute(
                "SELECT 1 FROM pg_stat_activity"
                " WHERE wait_event_type = 'Lock' AND datname = current_database()"
            ),
            "a run waits for the table", 120,
        )  # fmt: skip
        (row,) = (row for row in installation.progress() if row["closed_at"] is None)
        process = re.search(r"process (\d+)", row["holder"])
        assert process is not None
        yield row["run_id"], int(process[1])


def test_no_day_of_a_backfill_and_no_retry_is_lost_or_doubled_by_a_redeploy(
    deployment: Deployment,
) -> None:
    installation = deployment.installation
    installation.document["database"].update(PATIENT)
    by_hand(deployment, *EIGHT_DAYS)
    first = deployment.start_code_server()
    deployment.start_daemon()
    asked = backfill(deployment, JOB, "--from", day(9), "--to", day(2), "--mode", "live")
    name = id_in(asked.stdout)
    recorded(deployment, name, 2)

    with hanging(deployment) as (killed, process), redeploying(deployment, first):
        # Its retry falls into the redeploy, and so do the days that have not begun.
        os.kill(process, signal.SIGKILL)
        wait_until(
            lambda: [run for run in deployment.runs() if RETRY in run.tags],
            "the daemon repeats the run", 120,
        )  # fmt: skip

    def over() -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = installation.records()
        return rows if len(rows) >= len(EIGHT_DAYS) + 1 else []

    records = wait_until(over, "every day is recorded", 240)
    done = [row for row in records if row["outcome"] == "ok"]
    assert sorted(row["detail"]["window"]["covers"] for row in done) == sorted(
        day(ago) for ago in EIGHT_DAYS
    ), "each day once"
    assert {(row["mode"], row["acted"]) for row in done} == {("live", 1)}
    (failed,) = (row for row in records if row["outcome"] == "failed")
    assert (failed["run_id"], failed["detail"]["started_again"]) == (killed, True)
    (retry,) = (
        row for row in done if row["detail"]["trigger"] == {"kind": "retry", "name": killed}
    )
    assert retry["detail"]["window"] == failed["detail"]["window"]
    assert installation.value("SELECT count(*) FROM file") == 0

    runs = deployment.runs()
    assert {run.run_id for run in runs} == {row["run_id"] for row in records}
    assert len(runs) == len(records) == len(EIGHT_DAYS) + 1
    assert {run.run_id for run in runs if run.status is dg.DagsterRunStatus.FAILURE} == {killed}


def test_control_a_run_that_begins_while_the_code_server_ends_fails(deployment: Deployment) -> None:
    other = "run_history"
    deployment.installation.document["database"].update(PATIENT)
    deployment.installation.document["jobs"] = {
        JOB: {"by_hand": True, "mode": "dry"},
        other: {"by_hand": True, "mode": "dry", "keep": "30d"},
    }
    deployment.installation.write()
    server = deployment.start_code_server()
    deployment.start_daemon()
    launch(deployment)
    with hanging(deployment):
        server.terminate()
        launch(deployment, other)

        def ended() -> list[dg.DagsterRun]:
            return [run for run in deployment.runs() if run.job_name == other and run.is_finished]

        (run,) = wait_until(ended, "the other run is over", 240)
    assert run.status is dg.DagsterRunStatus.FAILURE
    # The sensors that record it are asked of a code server: the next one, as after any redeploy.
    wait_until(lambda: server.poll() is not None, "the code server has ended", 180)
    deployment.start_code_server()

    def recorded_as() -> list[str]:
        records: list[dict[str, Any]] = deployment.installation.records()
        return [row["error"] for row in records if row["run_id"] == run.run_id]

    # What Dagster says only in the event beside.
    (said,) = wait_until(recorded_as, "the run is recorded", 120)
    assert "after telling it to shut down" in said


def test_a_drain_that_is_stopped_lets_go_and_one_that_is_killed_is_told_of(
    deployment: Deployment,
) -> None:
    filejobs = str(SCRIPTS / "filejobs")
    deployment.installation.document["jobs"][JOB] = {"by_hand": True, "mode": "dry"}
    deployment.installation.write()

    def begun(number: int) -> subprocess.Popen[bytes]:
        process = deployment.start([filejobs, "drain", "--", "sleep", "600"], f"{number}.log")
        wait_until(lambda: "is held by" in deployment.log(f"{number}.log"), "it is held", 180)
        return process

    stopped = begun(1)
    stopped.send_signal(signal.SIGHUP)
    assert stopped.wait(60) != 0
    assert "The queue goes on (it was held by" in deployment.log("1.log")
    assert "No run begins" not in deployment.run([filejobs, "status"]).stdout

    begun(2).kill()
    said = "No run begins: the queue is held by "
    assert said in deployment.run([filejobs, "status"]).stdout
    assert "no run begins: the queue is held by" in deployment.run(
        [filejobs, "doctor"], check=False
    ).stdout.replace("\n", " ")
    deployment.run([filejobs, "drain", "--resume"])
    assert "No run begins" not in deployment.run([filejobs, "status"]).stdout


def test_sigterm_ends_a_code_server_that_a_script_started_in_the_background(
    deployment: Deployment,
) -> None:
    """A shell without job control starts what ends in `&` with SIGINT ignored."""
    port = free_port()
    command = [SCRIPTS / "dagster", "api", "grpc", "-h", "127.0.0.1", "-p", str(port), "-m", MODULE]
    script = f"{' '.join(map(str, command))} & echo $! > pid; wait"
    shell = deployment.start(["sh", "-c", script], "code-server.log")
    folder = deployment.installation.folder
    wait_until(
        lambda: subprocess.run(
            [SCRIPTS / "filejobs", "live", "code", "--port", str(port)],
            check=False, capture_output=True,
        ).returncode == 0,
        "the code server serves", 180,
    )  # fmt: skip
    pid = int((folder / "pid").read_text())
    subprocess.run(["kill", "-TERM", str(pid)], check=True)
    assert shell.wait(180) in (0, 128 + signal.SIGTERM, 130)


def test_control_dagster_alone_ignores_sigterm_then() -> None:
    code = (
        "import signal; from dagster._utils.interrupts import setup_interrupt_handlers as set_up;"
        "signal.signal(signal.SIGINT, signal.SIG_IGN); set_up();"
        "print(signal.getsignal(signal.SIGTERM) is signal.SIG_IGN)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
