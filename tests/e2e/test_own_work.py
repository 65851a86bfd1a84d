"""Own jobs in real Dagster processes: runs that are killed, who is told, and a backfill by days.

A callable, a command, a job of an installed package, and one of another code location.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.e2e.deployment import (
    CHECKOUT,
    LONG,
    SCRIPTS,
    Deployment,
    free_port,
    kill_group,
    told,
    wait_until,
)
from tests.e2e.test_backfills import backfill, day, id_in, recorded
from tests.e2e.test_own_package import install
from tests.jobs.test_own_jobs import DRAFTS, RULE, is_alive

if TYPE_CHECKING:
    import subprocess

    from tests.alerts.receiver import Receiver
    from tests.installation import Installation

pytestmark = [pytest.mark.e2e, pytest.mark.thorough, pytest.mark.timeout(1800)]

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

# The second batch of a hundred meets this row, and waits.
SLOW_ROW = """
CREATE FUNCTION wait_for_long() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.id = 150 THEN PERFORM pg_sleep(600); END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER slow_row BEFORE DELETE ON draft FOR EACH ROW EXECUTE FUNCTION wait_for_long();
"""
BILLING = """
import os, time
import dagster as dg

@dg.op
def bill() -> None:
    with open(os.environ["ACME_PID"], "w") as file:
        file.write(str(os.getpid()))
    while os.path.exists(os.environ["ACME_SLOW"]):
        time.sleep(0.2)

# Else the daemon repeats a run whose process was killed, at a time of its own.
@dg.job(tags={"dagster/max_retries": "0"})
def nightly_billing() -> None:
    bill()

defs = dg.Definitions(jobs=[nightly_billing])
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
        LONG,
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


def standing(deployment: Deployment, job: str) -> dict[str, Any]:
    """What `filejobs status` says of a job, in a process of its own."""
    command = [sys.executable, "-m", "filejobs_dagster.cli", "status", "--format", "json"]
    said = json.loads(deployment.run(command, check=False).stdout)
    [found] = [one for one in said["jobs"] if one["job"] == job]
    return dict(found)


def records(installation: Installation, job: str) -> list[dict[str, Any]]:
    return [one for one in installation.records() if one["job"] == job]


def long_ago(installation: Installation, job: str) -> None:
    """As if three days had passed since everything that is recorded of the job."""
    installation.execute(
        "ALTER TABLE job_run DISABLE RULE job_run_never_updated;"
        "UPDATE job_run SET started_at = started_at - interval '3 days',"
        f" finished_at = finished_at - interval '3 days' WHERE job = '{job}';"
        "ALTER TABLE job_run ENABLE RULE job_run_never_updated"
    )


def with_variables(monkeypatch: pytest.MonkeyPatch, **more: str) -> None:
    """Let every process of a deployment have them, beside its own."""
    known = Deployment.environment.fget  # type: ignore[attr-defined]
    monkeypatch.setattr(Deployment, "environment", property(lambda it: {**known(it), **more}))


def test_a_killed_run_of_an_installed_package_is_recorded_judged_and_told(
    deployment: Deployment, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation = deployment.installation
    installed = installation.folder / "installed"
    install("--python", sys.executable, "--target", installed)
    with_variables(monkeypatch, PYTHONPATH=f"{CHECKOUT}{os.pathsep}{installed}")
    installation.execute(DRAFTS + SLOW_ROW)
    installation.execute(
        "INSERT INTO draft (abandoned_at)"
        " SELECT now() - interval '9 days' + n * interval '1 second' FROM generate_series(1, 250) n"
    )
    installation.document["database"]["statement_timeout"] = "10m"
    installation.document["jobs"]["own_old_drafts"] = {
        "by_hand": True, "mode": "live", "older_than": "7d", "stale_after": "26h",
    }  # fmt: skip
    installation.write()
    deployment.start_code_server()
    deployment.start_daemon()
    launch(deployment, "own_old_drafts")

    killed: list[int] = []

    def kill_the_worker() -> None:
        """Once it has committed a batch and is in the midst of the next."""

        def at_work() -> list[Any]:
            return [
                row[0]
                for row in installation.execute(
                    "SELECT (regexp_match(holder, 'process (\\d+)'))[1]::int FROM job_progress"
                    " WHERE job = 'own_old_drafts' AND closed_at IS NULL AND EXISTS (SELECT FROM"
                    " pg_stat_activity WHERE wait_event = 'PgSleep' AND query LIKE '%draft%')"
                )
                if row[0] not in killed
            ]

        [worker] = wait_until(at_work, "it is in the midst of a batch", LONG)
        os.kill(worker, signal.SIGKILL)
        killed.append(worker)
        # Nobody reads any more: the server would notice when it wants to answer, in ten minutes.
        installation.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
        )

    kill_the_worker()
    wait_until(lambda: records(installation, "own_old_drafts"), "it is recorded", LONG)
    # Dagster repeats what was killed, once; killed again, it is a failure.
    kill_the_worker()
    wait_until(lambda: len(records(installation, "own_old_drafts")) == 2, "both are", LONG)
    first, second = records(installation, "own_old_drafts")
    for record, committed in ((first, 100), (second, None)):
        assert (record["outcome"], record["mode"]) == ("failed", "live")
        assert record["error"].startswith(("Lost", "The run ended without a final word"))
        assert record["acted"] == committed, "what it had committed, no more"
    assert installation.value("SELECT count(*) FROM draft") == 150
    told(receiver, "own_old_drafts fails")
    found = standing(deployment, "own_old_drafts")
    assert (found["standing"], found["severity"]) == ("failed", "critical")

    # Nothing is stuck: the next run takes what is left, and whoever was told hears of it.
    installation.execute("DROP TRIGGER slow_row ON draft")
    launch(deployment, "own_old_drafts")
    wait_until(lambda: installation.value("SELECT count(*) FROM draft") == 0, "all gone", LONG)
    wait_until(
        lambda: standing(deployment, "own_old_drafts")["standing"] == "ok", "it is well", LONG
    )
    told(receiver, "over")
    assert records(installation, "own_old_drafts")[-1]["acted"] == 150
    long_ago(installation, "own_old_drafts")
    told(receiver, "own_old_drafts is stale")


class Billing:
    """A second code location, in a server of its own, with a job that lasts as long as a file."""

    def __init__(self, deployment: Deployment) -> None:
        folder = deployment.installation.folder
        self.deployment = deployment
        self.code, self.pid, self.slow = folder / "billing.py", folder / "pid", folder / "slow"
        self.port = free_port()
        self.code.write_text(BILLING)

    def start(self) -> subprocess.Popen[bytes]:
        return self.deployment.start(
            [
                str(SCRIPTS / "dagster"), "api", "grpc", "-h", "127.0.0.1", "-p", str(self.port),
                "-f", str(self.code), "--location-name", "billing",
            ],
            "billing.log",
        )  # fmt: skip

    def launch(self) -> None:
        def launched() -> bool:
            done = self.deployment.dagster(
                "job", "launch", "-w", str(self.deployment.workspace()), "-l", "billing",
                "-j", "nightly_billing", check=False,
            )  # fmt: skip
            return done.returncode == 0

        wait_until(launched, "its code server serves", LONG)

    def worker(self) -> int:
        """The process of the newest run, when it is at work."""
        [found] = pids_in(self.pid)
        self.pid.unlink()
        return found


@pytest.fixture
def billing(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> Billing:
    made = Billing(deployment)
    of_ours = Deployment.workspace

    def of_both(it: Deployment) -> Path:
        path = of_ours(it)
        said = yaml.safe_load(path.read_text())
        said["load_from"].append(
            {"grpc_server": {"host": "127.0.0.1", "port": made.port, "location_name": "billing"}}
        )
        path.write_text(yaml.safe_dump(said))
        return path

    monkeypatch.setattr(Deployment, "workspace", of_both)
    with_variables(monkeypatch, ACME_PID=str(made.pid), ACME_SLOW=str(made.slow))
    return made


def test_a_killed_run_of_another_code_location_is_failed_or_stuck_and_told(
    deployment: Deployment, receiver: Receiver, billing: Billing
) -> None:
    installation = deployment.installation
    installation.document["own_jobs"] = {
        "own_billing": {
            "schedule": "@daily", "stale_after": "26h", "max_runtime": "60s",
            "dagster_job": "nightly_billing", "code_location": "billing",
        },
    }  # fmt: skip
    installation.write()
    server = billing.start()
    deployment.start_code_server()
    deployment.start_daemon()

    # Well first, so that somebody hears of what changes.
    billing.launch()
    billing.worker()
    wait_until(lambda: records(installation, "own_billing"), "it is recorded", LONG)
    assert standing(deployment, "own_billing")["standing"] == "ok"

    # Its process alone: Dagster sees that.
    billing.slow.touch()
    billing.launch()
    os.kill(billing.worker(), signal.SIGKILL)
    wait_until(lambda: len(records(installation, "own_billing")) == 2, "it is recorded", LONG)
    record = records(installation, "own_billing")[1]
    assert (record["outcome"], record["detail"]["ended"]) == ("failed", "failure")
    told(receiver, "own_billing fails")
    assert standing(deployment, "own_billing")["standing"] == "failed"

    billing.slow.unlink()
    billing.launch()
    billing.worker()
    wait_until(lambda: standing(deployment, "own_billing")["standing"] == "ok", "it is well", LONG)

    # With its whole machine: Dagster calls it started for ever, and its start has no end.
    billing.slow.touch()
    billing.launch()
    worker = billing.worker()
    its_run = parent_of(worker)
    wait_until(lambda: "own_billing" in at_work(installation), "its start is heard of", LONG)
    kill_group(server)
    for left in (its_run, worker):
        if is_alive(left):
            os.kill(left, signal.SIGKILL)

    def stuck() -> dict[str, Any] | None:
        deployment.reconcile(silence=timedelta(seconds=1))
        found = records(installation, "own_billing")
        return found[-1] if len(found) == 4 else None

    record = wait_until(stuck, "its missing end is a failure", LONG)
    assert record["error"].startswith("Stuck: it said that it began, and until ")
    told(receiver, "Stuck: it said that it began")
    assert standing(deployment, "own_billing")["standing"] == "failed"
    theirs = [run.status.value for run in deployment.runs() if run.run_id == record["run_id"]]
    assert theirs == ["STARTED"], "what is only watched is never ended from here"

    # Nothing is stuck: it runs again, and stops.
    billing.slow.unlink()
    billing.start()
    billing.launch()
    billing.worker()
    wait_until(lambda: len(records(installation, "own_billing")) == 5, "it is recorded", LONG)
    wait_until(lambda: standing(deployment, "own_billing")["standing"] == "ok", "it is well", LONG)
    long_ago(installation, "own_billing")
    told(receiver, "own_billing is stale")


def at_work(installation: Installation) -> list[str]:
    return [
        row[0] for row in installation.execute("SELECT job FROM job_progress WHERE outcome IS NULL")
    ]
