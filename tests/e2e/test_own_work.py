"""Own jobs in real Dagster processes: a worker that is killed, and a backfill by days."""

from __future__ import annotations

import json
import os
import signal
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.deployment import CHECKOUT, Deployment, wait_until
from tests.e2e.test_backfills import backfill, day, id_in, recorded
from tests.jobs.test_own_jobs import DRAFTS, RULE, is_alive

if TYPE_CHECKING:
    from tests.installation import Installation

pytestmark = [pytest.mark.e2e, pytest.mark.thorough, pytest.mark.timeout(280)]

SLOW = """
import os, time

def work(run):
    run.progress(scanned=3, acted=2)
    with open(os.environ["ACME_PID"], "w") as file:
        file.write(str(os.getpid()))
    time.sleep(600)
"""
REPORTS_AND_SLEEPS = """
echo '{"scanned": 3, "acted": 2}' >> "$FILEJOBS_REPORT"
sleep 600 & echo $$ $! > "$0"; wait
"""


def launch(deployment: Deployment, job: str) -> None:
    deployment.dagster(
        "job", "launch", "-w", str(deployment.workspace()), "-j", job,
        "--tags", json.dumps({"filejobs/mode": "live"}),
    )  # fmt: skip


def pids_in(path: Path) -> list[int]:
    found: list[int] = wait_until(
        lambda: path.exists() and [int(pid) for pid in path.read_text().split()],
        "it is at work",
        90,
    )
    return found


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def committed(installation: Installation, job: str) -> list[Any]:
    return installation.execute(
        "SELECT scanned, acted FROM job_progress WHERE job = %s AND acted IS NOT NULL", (job,)
    )


def test_a_worker_killed_at_own_work_is_recorded_as_lost_and_takes_its_command_with_it(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation = deployment.installation
    (installation.folder / "acme_slow.py").write_text(SLOW)
    of_callable, of_command = installation.folder / "callable", installation.folder / "command"
    known = deployment.environment
    environment = {**known, "ACME_PID": str(of_callable),
                   "PYTHONPATH": f"{CHECKOUT}{os.pathsep}{installation.folder}"}  # fmt: skip
    monkeypatch.setattr(Deployment, "environment", property(lambda _: environment))
    works: dict[str, dict[str, Any]] = {
        "own_callable": {"python": "acme_slow:work"},
        "own_command": {"command": ["/bin/sh", "-c", REPORTS_AND_SLEEPS, str(of_command)]},
    }
    for said in works.values():
        said.update(by_hand=True, mode="live", touches=["elsewhere"])
    installation.document["own_jobs"] = works
    installation.write()
    deployment.start_code_server()
    deployment.start_daemon()

    launch(deployment, "own_command")
    command = pids_in(of_command)
    wait_until(lambda: committed(installation, "own_command"), "its report is read", 30)
    worker = parent_of(command[0])
    os.kill(worker, signal.SIGKILL)
    of_command.unlink()
    launch(deployment, "own_callable")
    [other] = pids_in(of_callable)
    os.kill(other, signal.SIGKILL)

    wait_until(lambda: not any(map(is_alive, command)), "the command is gone", 30)

    def both() -> list[dict[str, Any]]:
        # Long enough for the retry that Dagster starts by itself to give a sign of life.
        deployment.reconcile(silence=timedelta(seconds=4))
        found = [one for one in installation.records() if one["mode"] == "live"]
        return found if len({one["job"] for one in found}) == 2 else []

    records = {one["job"]: one for one in wait_until(both, "both are recorded", 120)}
    assert set(records) == {"own_callable", "own_command"}
    for record in records.values():
        assert (record["outcome"], record["mode"]) == ("failed", "live")
        assert (record["scanned"], record["acted"]) == (3, 2)
        assert record["error"].startswith(("Lost", "The run ended without a final word"))

    # Nothing is stuck: Dagster tries it again by itself, or this launch does, and has the lock.
    launch(deployment, "own_command")
    again = pids_in(of_command)
    assert again != command
    os.kill(parent_of(again[0]), signal.SIGKILL)
    wait_until(lambda: not any(map(is_alive, again)), "the command is gone", 30)


def test_a_backfill_takes_its_days_of_a_rule_and_tells_them_to_a_command(
    deployment: Deployment,
) -> None:
    installation = deployment.installation
    installation.execute(DRAFTS)
    for ago in (4, 3, 2):
        installation.execute(
            "INSERT INTO draft (abandoned_at) VALUES (%s)", (f"{day(ago)}T12:00Z",)
        )
    told = installation.folder / "told"
    installation.document["own_jobs"] = {
        "own_drafts": {"by_hand": True, "mode": "live", "rule": RULE},
        "own_days": {
            "by_hand": True, "mode": "live", "touches": ["elsewhere"], "by_day": True,
            "command": ["/bin/sh", "-c", f'echo "$FILEJOBS_FROM $FILEJOBS_TO" >> {told}'],
        },
        "own_whole": {"by_hand": True, "mode": "live", "touches": ["elsewhere"],
                      "command": ["/bin/true"]},
    }  # fmt: skip
    installation.write()
    deployment.start_code_server()
    deployment.start_daemon()

    asked = {
        job: id_in(
            backfill(deployment, job, "--from", day(4), "--to", day(3), "--mode", "live").stdout
        )
        for job in ("own_drafts", "own_days")
    }
    rows = recorded(deployment, asked["own_drafts"], 2)
    assert [row["detail"]["window"]["covers"] for row in rows] == [day(4), day(3)]
    assert [(row["mode"], row["outcome"], row["acted"]) for row in rows] == [("live", "ok", 1)] * 2
    assert installation.value("SELECT count(*) FROM draft") == 1
    recorded(deployment, asked["own_days"], 2)
    assert told.read_text().split() == [
        f"{each}T00:00:00+00:00" for each in (day(4), day(3), day(3), day(2))
    ]

    refused = backfill(deployment, "own_whole", "--from", day(4), check=False)
    assert refused.returncode == 1
    assert "own_whole" in refused.stderr
