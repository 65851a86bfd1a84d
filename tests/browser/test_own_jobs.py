"""Own jobs and a job of another code location, as an operator sees them in the web UI."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from tests.e2e.deployment import SCRIPTS, Deployment, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.browser.screen import Screen

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]

BILLING = """
import dagster as dg

@dg.op
def bill() -> None:
    pass

@dg.job
def nightly_billing() -> None:
    bill()

defs = dg.Definitions(jobs=[nightly_billing])
"""

WORKSPACE = Deployment.workspace


def two_code_locations(deployment: Deployment) -> Path:
    path = WORKSPACE(deployment)
    billing = deployment.installation.folder / "billing.py"
    billing.write_text(BILLING)
    said = yaml.safe_load(path.read_text())
    said["load_from"].append({"python_file": {"relative_path": str(billing),
                                              "location_name": "billing"}})  # fmt: skip
    path.write_text(yaml.safe_dump(said))
    return path


def test_a_command_and_a_job_of_another_code_location_stand_beside_ours(
    deployment: Deployment, look: Callable[[], Screen], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Deployment, "workspace", two_code_locations)
    touched = deployment.installation.folder / "touched"
    deployment.installation.document["own_jobs"] = {
        "own_touch": {
            "by_hand": True, "mode": "live", "about": "Touches a file.",
            "command": ["/usr/bin/touch", str(touched)], "touches": ["elsewhere"],
        },
        "own_billing": {
            "schedule": "@daily", "stale_after": "26h",
            "dagster_job": "nightly_billing", "code_location": "billing",
        },
    }  # fmt: skip
    screen = look()
    deployment.start_daemon()

    config = screen.launchpad("own_touch")
    assert "dry_run: true" in config
    screen.write_config(config.replace("dry_run: true", "dry_run: false"))
    screen.launch()
    assert screen.wait_for_the_end_of_the_run() == "Success"
    assert touched.exists()
    deployment.dagster(
        "job", "launch", "-w", str(deployment.workspace()), "-l", "billing", "-j", "nightly_billing"
    )

    def recorded() -> set[tuple[str, str]]:
        return {(one["job"], one["outcome"]) for one in deployment.installation.records()}

    wait_until(lambda: len(recorded()) >= 2, "both runs are recorded", 300)
    assert recorded() >= {("own_touch", "ok"), ("own_billing", "ok")}
    screen.go("/assets/own_billing")
    screen.wait_for("nightly_billing of another code location")
    screen.picture("own-job-watched")
    screen.go("/locations/filejobs/jobs")
    screen.wait_for("own_touch")
    assert "own_billing" not in screen.words()
    said = deployment.run([str(SCRIPTS / "filejobs"), "status"], check=False).stdout
    assert "own_billing" in said
    assert "own_touch" in said
