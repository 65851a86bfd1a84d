"""A job launched from the Launchpad: what an operator sees before, while and after it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.deployment import LONG, SCRIPTS, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.browser.screen import Screen
    from tests.e2e.deployment import Deployment

pytestmark = [pytest.mark.browser, pytest.mark.timeout(1200)]

JOB = "upload_reservations"


def recorded(deployment: Deployment, run_id: str) -> dict[str, object]:
    """The row of job_run of a run, once the daemon's mirror has written it."""

    def record() -> list[dict[str, object]]:
        return [it for it in deployment.installation.records() if it["run_id"] == run_id]

    [found] = wait_until(record, "the run is recorded", LONG)
    row: dict[str, object] = found
    return row


def test_a_dry_and_then_a_live_run_from_the_launchpad(
    deployment: Deployment, look: Callable[[], Screen]
) -> None:
    installation = deployment.installation
    # By hand: nothing but what this test launches may run.
    installation.job(stale_after="2h", owners=["team:storage"], schedule=None, by_hand=True)
    installation.reserve("files/left behind.bin")
    screen = look()
    deployment.start_daemon()

    screen.go("/jobs")
    screen.wait_for("upload_reservations")
    screen.picture("jobs")
    screen.job(JOB)
    screen.wait_for("As it stands")
    screen.picture("job")

    config = screen.launchpad(JOB)
    assert "dry_run: true" in config, "the Launchpad opens with a safe config"
    screen.picture("launchpad")
    dry = screen.launch()
    assert screen.wait_for_the_end_of_the_run() == "Success"
    screen.wait_for("would_collect")
    screen.wait_for("DRY: it reports what a live run would do, and changed nothing")
    screen.picture("run-dry")
    assert installation.has_object("files/left behind.bin")
    assert recorded(deployment, dry)["mode"] == "dry"

    screen.launchpad(JOB)
    screen.write_config(f"ops:\n  {JOB}:\n    config:\n      dry_run: false\n")
    screen.picture("launchpad-live")
    live = screen.launch()
    assert screen.wait_for_the_end_of_the_run() == "Success"
    screen.wait_for("bytes_freed")
    screen.wait_for("LIVE: what it took is gone")
    screen.picture("run-live")

    assert not installation.has_object("files/left behind.bin")
    record = recorded(deployment, live)
    assert (record["mode"], record["outcome"], record["acted"]) == ("live", "ok", 1)
    done = deployment.run([str(SCRIPTS / "filejobs"), "status", "--check"])
    assert done.stdout.startswith("OK")

    screen.go(f"/assets/{JOB}?view=checks")
    screen.wait_for("Passed")
    screen.picture("standing-ok")
    # Nobody asked for this one, so it stands nowhere, rather than red.
    screen.go("/assets/audit_trim?view=checks")
    screen.wait_for("No checks defined")
    # A newer run is news: the check does not wait for its next hour.
    deployment.execute()
    screen.go(f"/assets/{JOB}?view=checks")
    screen.wait_for("Passed")
    screen.picture("standing-ok-after-a-newer-run")
    screen.go("/assets")
    screen.wait_for("upload_reservations")
    screen.picture("catalog")


def test_a_mistake_is_named_before_anything_runs(look: Callable[[], Screen]) -> None:
    screen = look()
    screen.launchpad(JOB)
    screen.write_config(f"ops:\n  {JOB}:\n    config:\n      dry_runn: false\n")
    screen.wait_for("dry_runn")
    screen.wait_for(r"unexpected config entry|Received unexpected")
    screen.picture("launchpad-mistake")
