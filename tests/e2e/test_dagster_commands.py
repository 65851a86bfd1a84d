"""Each of Dagster's own commands, as docs/running-dagster.md says it, with the examples."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.deployment import CHECKOUT, SCRIPTS

if TYPE_CHECKING:
    from tests.e2e.deployment import Deployment

pytestmark = [pytest.mark.e2e, pytest.mark.thorough, pytest.mark.timeout(280)]

PAGE = (CHECKOUT / "docs" / "running-dagster.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\| [^|]+ \| `(dagster job [^`]+)` \|$", PAGE, re.MULTILINE)


def test_every_command_of_the_page_works_with_the_examples(deployment: Deployment) -> None:
    installation = deployment.installation
    installation.document["jobs"]["upload_reservations"] = {"by_hand": True, "mode": "dry"}
    installation.write()
    (installation.folder / "examples").symlink_to(CHECKOUT / "examples")
    deployment.start_code_server()
    said = {
        command.split()[2]: deployment.run(
            ["bash", "-c", command], PATH=f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}"
        ).stdout
        for command in COMMANDS
    }
    assert set(said) == {"list", "execute", "launch", "backfill"}
    assert "upload_reservations" in said["list"]

    runs = deployment.runs()
    queued = [run for run in runs if not run.is_finished]
    of_backfill = {run.tags["dagster/partition"] for run in queued if run.tags.get(
        "dagster/backfill")}  # fmt: skip
    assert of_backfill == {f"2026-03-0{day}" for day in range(1, 6)}
    assert {run.tags.get("filejobs/mode") for run in queued} == {None, "live"}
    [executed] = [run for run in runs if run.is_finished]
    assert executed.is_success
    [configured] = [run for run in queued if run.run_config]
    asked: dict[str, Any] = {**configured.run_config}
    assert asked["ops"]["upload_reservations"]["config"] == {"dry_run": False}
    assert len(queued) == 5 + 2
