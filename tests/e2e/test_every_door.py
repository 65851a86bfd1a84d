"""Every way to start a run ends in exactly one row of job_run, with its trigger and its mode."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.deployment import MODULE, wait_until

if TYPE_CHECKING:
    from tests.e2e.deployment import Deployment

pytestmark = [pytest.mark.e2e, pytest.mark.thorough, pytest.mark.timeout(280)]


def test_cli_launch_schedule_and_backfill_are_each_recorded_once(
    deployment: Deployment,
) -> None:
    installation = deployment.installation
    installation.job(schedule="* * * * *", stale_after="2h")
    today = datetime.now(timezone.utc).date()
    days = [(today - timedelta(days=ago)).isoformat() for ago in (5, 4, 3)]
    deployment.installation.write()
    for day in days:
        installation.execute(
            "INSERT INTO file (storage_key, upload_expires_at) VALUES (%s, %s)",
            (f"files/{day}", f"{day}T12:00:00Z"),
        )

    # A backfill from the command line creates its runs itself, and they wait in the queue. Before
    # the daemon starts, so that no schedule takes the old days first.
    deployment.start_code_server()
    workspace = str(deployment.workspace())
    deployment.dagster(
        "job", "backfill", "-w", workspace, "-j", "upload_reservations", "--noprompt",
        "--from", days[0], "--to", days[-1], "--tags", '{"filejobs/mode": "live"}',
    )  # fmt: skip
    deployment.dagster(
        "job", "launch", "-w", workspace, "-j", "upload_reservations",
        "--tags", '{"filejobs/mode": "live"}',
    )  # fmt: skip
    deployment.execute()
    deployment.start_daemon()

    def recorded(kind: str, number: int) -> list[dict[str, Any]]:
        found = [r for r in installation.records() if r["detail"]["trigger"]["kind"] == kind]
        return found if len(found) >= number else []

    backfilled = wait_until(
        lambda: recorded("backfill", 3), "three days are recorded: " + MODULE, 120
    )
    wait_until(
        lambda: recorded("cli", 2) and recorded("schedule", 1),
        "the command line's runs and a scheduled one are recorded",
        150,
    )

    assert {r["detail"]["window"]["covers"] for r in backfilled} == set(days)
    assert all((r["outcome"], r["mode"], r["acted"]) == ("ok", "live", 1) for r in backfilled)
    modes = sorted(str(record["mode"]) for record in recorded("cli", 2))
    assert modes == ["dry", "live"]
    for record in recorded("schedule", 1):
        assert (record["outcome"], record["mode"]) == ("ok", "live")
        assert record["detail"]["window"] == {"covers": "everything"}
    deployment.stop()
    deployment.reconcile()
    finished = deployment.finished()
    records = installation.records()
    assert sorted(r["run_id"] for r in records) == sorted(finished)
    scheduled = [run for run in finished.values() if "dagster/schedule_name" in run.tags]
    assert all(run.tags["dagster/partition"] >= today.isoformat() for run in scheduled)


def test_a_backlog_starts_one_run_by_its_sensor_which_is_recorded_once(
    deployment: Deployment,
) -> None:
    installation = deployment.installation
    installation.document["jobs"]["upload_reservations"] = {
        "by_hand": True,
        "mode": "live",
        "backlog_over": 20,
    }
    installation.reserve_many([f"files/{number}" for number in range(30)])
    installation.write()
    deployment.start_code_server()
    deployment.start_daemon()

    [record] = wait_until(installation.records, "the run of the sensor is recorded", 150)

    assert record["detail"]["trigger"] == {"kind": "sensor", "name": "upload_reservations_backlog"}
    assert (record["outcome"], record["mode"], record["acted"]) == ("ok", "live", 30)
    assert record["detail"]["window"] == {"covers": "everything"}
    deployment.stop()
    deployment.reconcile()
    assert [row["run_id"] for row in installation.records()] == list(deployment.finished())
