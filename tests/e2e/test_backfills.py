"""`filejobs backfill` with a real code server, daemon and webserver."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from filejobs_dagster.orchestration.launching import backfill_named
from tests.e2e.deployment import SCRIPTS, kill_group, wait_until
from tests.e2e.webserver import Webserver

if TYPE_CHECKING:
    import subprocess

    from tests.e2e.deployment import Deployment

pytestmark = [pytest.mark.e2e, pytest.mark.thorough, pytest.mark.timeout(600)]

JOB = "upload_reservations"
TODAY = datetime.now(timezone.utc).date()
SLOW = [{"name": "slow", "sql": "select pg_sleep(300)::text", "min_rows": 0}]


def day(ago: int) -> str:
    return (TODAY - timedelta(days=ago)).isoformat()


def backfill(
    deployment: Deployment, *arguments: str, check: bool = True
) -> subprocess.CompletedProcess[str]:
    command = [str(SCRIPTS / "filejobs"), "backfill", *arguments]
    if not {"--list", "--cancel"} & set(arguments):
        command += ["-w", str(deployment.workspace())]
    return deployment.run(command, check=check)


def id_in(said: str) -> str:
    found = re.search(r"Asked for backfill (\w+)", said)
    assert found is not None, said
    return found[1]


def by_hand(deployment: Deployment, *days_ago: int) -> None:
    """A job that nothing starts by itself, and one expired reservation on each day."""
    deployment.installation.document["jobs"][JOB] = {"by_hand": True, "mode": "live"}
    for ago in days_ago:
        deployment.installation.execute(
            "INSERT INTO file (storage_key, upload_expires_at) VALUES (%s, %s)",
            (f"files/{ago}", f"{day(ago)}T12:00:00Z"),
        )
    deployment.installation.write()


def recorded(deployment: Deployment, backfill_id: str, number: int) -> list[dict[str, Any]]:
    def found() -> list[dict[str, Any]]:
        rows = [
            row
            for row in deployment.installation.records()
            if row["detail"]["trigger"]["name"] == backfill_id
        ]
        return rows if len(rows) >= number else []

    rows: list[dict[str, Any]] = wait_until(found, f"{number} days are recorded", 150)
    return rows


def test_a_dry_backfill_paints_nothing_a_live_one_its_days_and_the_next_takes_what_is_left(
    deployment: Deployment,
) -> None:
    by_hand(deployment, 5, 4, 3, 2)
    deployment.start_code_server()
    deployment.start_daemon()
    webserver = Webserver.of(deployment)

    dry = backfill(deployment, JOB, "--from", day(5), "--to", day(4))
    assert "dry: reports" in dry.stdout
    looked = recorded(deployment, id_in(dry.stdout), 2)
    assert {(row["mode"], row["acted"]) for row in looked} == {("dry", 0)}
    assert webserver.days(JOB) == {}, "a day that was only looked at is not done"

    live = backfill(deployment, JOB, "--from", day(5), "--to", day(3), "--mode", "live")
    assert f"{day(5)} to {day(3)}" in live.stdout
    swept = recorded(deployment, id_in(live.stdout), 3)
    assert {(row["mode"], row["outcome"], row["acted"]) for row in swept} == {("live", "ok", 1)}
    assert [row["detail"]["window"]["covers"] for row in swept] == [day(5), day(4), day(3)]
    for earlier, later in pairwise(swept):
        assert earlier["finished_at"] <= later["started_at"], "one after the other"
    assert webserver.days(JOB) == {day(ago): "SUCCESS" for ago in (5, 4, 3)}
    wait_until(
        lambda: webserver.backfills()[id_in(live.stdout)] == "COMPLETED_SUCCESS",
        "the page of backfills calls it completed",
        60,
    )

    rest = backfill(deployment, JOB, "--from", day(5), "--to", day(2), "--mode", "live")
    assert "1 day (UTC)" in rest.stdout
    assert "Left out: 3 days" in rest.stdout
    [last] = recorded(deployment, id_in(rest.stdout), 1)
    assert last["detail"]["window"]["covers"] == day(2)
    again = backfill(deployment, JOB, "--from", day(5), "--to", day(2), "--mode", "live")
    assert "Nothing is missing" in again.stdout
    assert deployment.installation.value("SELECT count(*) FROM file") == 0


def test_a_cancelled_backfill_stays_off_is_not_doubled_and_can_be_resumed(
    deployment: Deployment,
) -> None:
    installation = deployment.installation
    installation.document["buckets"]["uploads"]["sources"] = SLOW
    by_hand(deployment, 4, 3, 2)
    server = deployment.start_code_server()
    deployment.start_daemon()
    asked = ("--from", day(4), "--to", day(2), "--mode", "live")

    first = id_in(backfill(deployment, JOB, *asked).stdout)
    wait_until(installation.progress, "the first day is at work", 60)
    twice = backfill(deployment, JOB, *asked, check=False)
    assert twice.returncode == 1
    assert first in twice.stderr
    backfill(deployment, "--cancel", first)
    with deployment.instance() as instance:
        wait_until(
            lambda: backfill_named(instance, "test", first).state == "cancelled",
            "it is cancelled",
            90,
        )
    assert "cancelled" in backfill(deployment, "--list").stdout
    recorded(deployment, first, 1)

    kill_group(server)
    installation.document["buckets"]["uploads"]["sources"] = []
    installation.write()
    deployment.start_code_server()
    assert len(installation.execute("SELECT 1 FROM file")) == 3, "nothing was taken"
    with deployment.instance() as instance:
        assert not [run for run in instance.get_runs() if not run.is_finished]
        assert not [run for run in instance.get_runs() if "dagster/retry_number" in run.tags]
    resumed = backfill(deployment, "--resume", first)
    done = recorded(deployment, id_in(resumed.stdout), 3)
    assert {(row["mode"], row["outcome"], row["acted"]) for row in done} == {("live", "ok", 1)}
    assert "left nothing" in backfill(deployment, "--resume", first).stdout
