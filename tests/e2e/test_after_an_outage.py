"""The daemon comes back after three days: one late run covers all that is due."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import dagster as dg
import pytest
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    InstigatorType,
    ScheduleInstigatorData,
    TickData,
    TickStatus,
)

from filejobs_dagster.orchestration.launching import opened_place
from tests.e2e.deployment import wait_until

if TYPE_CHECKING:
    import subprocess

    from tests.e2e.deployment import Deployment

pytestmark = [pytest.mark.e2e, pytest.mark.thorough, pytest.mark.timeout(280)]

JOB = "upload_reservations"
OUTAGE = timedelta(days=3)


def last_seen(deployment: Deployment, moment: datetime, cron: str) -> None:
    """Write down that the schedule's last tick was then, as the daemon does."""
    with (
        deployment.instance() as instance,
        opened_place(instance, "test", deployment.workspace()) as place,
    ):
        schedule = place.find(JOB).repository.get_schedule(f"{JOB}_schedule")
        instance.add_instigator_state(
            InstigatorState(
                schedule.get_remote_origin(),
                InstigatorType.SCHEDULE,
                InstigatorStatus.DECLARED_IN_CODE,
                ScheduleInstigatorData(cron, start_timestamp=moment.timestamp()),
            )
        )
        instance.create_tick(
            TickData(
                schedule.get_remote_origin_id(),
                schedule.name,
                InstigatorType.SCHEDULE,
                TickStatus.SKIPPED,
                moment.timestamp(),
                selector_id=schedule.selector_id,
            )
        )


def stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait(30)


def test_one_late_run_takes_three_days_and_a_second_start_starts_nothing(
    deployment: Deployment,
) -> None:
    installation = deployment.installation
    now = datetime.now(timezone.utc)
    # Hourly, two minutes ago: seventy-two ticks were missed, and no further one is near.
    due = now - timedelta(minutes=2)
    cron = f"{due.minute} * * * *"
    installation.job(schedule=cron, mode="live")
    for hours in range(1, 72, 4):
        installation.reserve(f"files/{hours}", due_ago=timedelta(hours=hours))
    installation.write()
    deployment.start_code_server()
    last_seen(deployment, (due - OUTAGE).replace(second=0, microsecond=0), cron)

    daemon = deployment.start_daemon()
    [record] = wait_until(installation.records, "the late run is recorded", 150)
    assert record["detail"]["trigger"] == {"kind": "schedule", "name": f"{JOB}_schedule"}
    assert record["detail"]["window"] == {"covers": "everything"}
    assert (record["outcome"], record["mode"], record["acted"]) == ("ok", "live", 18)
    assert record["detail"]["swept"]
    assert installation.keys() == set()

    stop(daemon)
    deployment.start_daemon()
    with deployment.instance() as instance:

        def evaluated() -> bool:
            beats = instance.get_daemon_heartbeats()
            return beats["SCHEDULER"].timestamp > started and "QUEUED_RUN_COORDINATOR" in beats

        started = time.time() + 20
        wait_until(evaluated, "the scheduler has looked again", 90)
        runs = instance.get_runs(dg.RunsFilter(job_name=JOB))
    assert [run.run_id for run in runs] == [record["run_id"]]
