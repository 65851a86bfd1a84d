"""kill -9 between any two steps of a real `dagster job execute`, and then run again."""

from __future__ import annotations

import signal
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.e2e.deployment import MODULE
from tests.e2e.killed_at import POINTS

if TYPE_CHECKING:
    from tests.e2e.deployment import Deployment

pytestmark = pytest.mark.e2e

ONE_OF_THEM = "after the commit"
"""The point that is tried each time; the others take their time."""

KILLER = str(Path(__file__).with_name("killed_at.py"))
LIVE = {"ops": {"upload_reservations": {"config": {"dry_run": False, "batch_size": 4}}}}
AT_ONCE = timedelta(0)


@pytest.mark.parametrize(
    "point",
    [it if it == ONE_OF_THEM else pytest.param(it, marks=pytest.mark.thorough) for it in POINTS],
)
def test_a_run_killed_at_any_point_loses_nothing_and_the_next_finishes_the_work(
    deployment: Deployment, point: str
) -> None:
    installation = deployment.installation
    keys = {f"files/{n}" for n in range(10)}
    for key in keys:
        installation.reserve(key)
    installation.reserve("files/ready", state="ready")
    live = str(installation.folder / "live.yaml")
    Path(live).write_text(yaml.safe_dump(LIVE))

    killed = deployment.run(
        [
            sys.executable, KILLER, point,
            "job", "execute", "-m", MODULE, "-j", "upload_reservations", "-c", live,
        ],
        check=False,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL, killed.stdout + killed.stderr

    rows = {row[0] for row in installation.execute("SELECT storage_key FROM file")}
    objects = installation.keys()
    assert rows <= objects, "a row whose bytes are gone is what a user meets as a broken download"

    again = deployment.execute("-c", live)
    assert again.returncode == 0
    left = installation.execute("SELECT storage_key FROM file")
    assert left == [("files/ready",)]
    orphans = installation.keys() - {"files/ready"}
    assert orphans == (objects - rows), "only what the killed run had committed is an orphan"

    deployment.reconcile(silence=AT_ONCE)
    records = {record["outcome"]: record for record in installation.records()}
    assert len(installation.records()) == 2
    assert records["ok"]["mode"] == records["failed"]["mode"] == "live"
    assert records["failed"]["detail"]["ended"] == "lost"
    assert "no final word" in records["failed"]["error"]
    if point in ("before the claim", "before the commit"):
        assert records["failed"]["acted"] is None
    else:
        assert records["failed"]["detail"]["claimed"] >= 4
    with deployment.instance() as instance:
        assert {run.status.value for run in instance.get_runs()} == {"SUCCESS", "FAILURE"}

    claimed = installation.execute(
        "SELECT body::jsonb->>'file_id' FROM audit_event"
        " WHERE body::jsonb->>'kind' = 'upload_reservation.collected'"
    )
    assert len(claimed) == len(set(claimed)) == len(keys)
