"""The watchdog, as those see it who are told, who look at the web UI, and who look from outside."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from tests.alerts.receiver import TOKEN, Receiver, receiving
from tests.e2e.deployment import SCRIPTS, kill_group, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.browser.screen import Screen
    from tests.e2e.deployment import Deployment

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]

JOB = "upload_reservations"
FRESHNESS = "/locations/filejobs/sensors/job_freshness"

STALE_AFTER = timedelta(seconds=90)
"""Long enough for a run to be seen, told of and asked after; many ticks."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as started:
        yield started


@pytest.fixture
def told(deployment: Deployment, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> Receiver:
    """The receiver, as the destination of the installation's alerts and its heartbeat."""
    deployment.installation.document["alerts"] = {
        "to": [{"name": "on-call", "url": {"env": "FILEJOBS_ALERT_URL"}}],
        "recovered_after": "0s",
        "heartbeat": {"url": {"env": "FILEJOBS_HEARTBEAT_URL"}},
    }
    monkeypatch.setenv("FILEJOBS_ALERT_URL", receiver.url)
    monkeypatch.setenv("FILEJOBS_HEARTBEAT_URL", receiver.heartbeat_url)
    return receiver


def heartbeats(receiver: Receiver) -> int:
    return sum(path.startswith("/ping/") for path in receiver.requests)


def check(deployment: Deployment) -> tuple[int, str]:
    """`filejobs status --check`, as monitoring runs it."""
    done = deployment.run([str(SCRIPTS / "filejobs"), "status", "--check"], check=False)
    return done.returncode, done.stdout


def test_stale_told_recovered_and_a_dead_daemon_missed(
    deployment: Deployment, look: Callable[[], Screen], told: Receiver
) -> None:
    # By hand: what runs here, this test has started.
    deployment.installation.job(stale_after=f"{STALE_AFTER.seconds}s", schedule=None, by_hand=True)
    screen = look()
    daemon = deployment.start_daemon()

    # Never run: the tick fails, the catalog is red, and somebody is told once.
    wait_until(lambda: told.texts, "somebody is told", 180)
    assert "never run" in told.texts[0]
    assert TOKEN not in told.texts[0]
    screen.go(FRESHNESS)
    screen.wait_for("Failure")
    screen.picture("freshness-failed-tick")
    screen.page.locator('table >> text="View"').first.click()
    screen.wait_for("attention")
    screen.picture("freshness-failed-tick-text")
    screen.go(f"/assets/{JOB}?view=checks")
    screen.wait_for("never run")
    screen.picture("standing-never-run")
    assert heartbeats(told) == 0, "an unhealthy tick sends no heartbeat"
    assert check(deployment)[0] == 2

    # A live run: the heartbeat beats, and those who were told hear that it is over.
    deployment.execute("--tags", '{"filejobs/mode": "live"}')
    wait_until(lambda: heartbeats(told) > 0, "the heartbeat is sent", 180)
    assert check(deployment)[0] == 0
    wait_until(lambda: any("is over" in text for text in told.texts), "recovery is told", 180)

    # Nobody runs it any more: stale.
    wait_until(lambda: any("stale" in text for text in told.texts), "staleness is told", 240)
    screen.go(FRESHNESS)
    screen.wait_for("Failure")
    code, said = check(deployment)
    assert (code, "stale" in said) == (2, True)

    # The daemon dies: no tick fails any more, but the heartbeat stays out and the check speaks.
    deployment.execute("--tags", '{"filejobs/mode": "live"}')
    beaten = heartbeats(told)
    wait_until(lambda: heartbeats(told) > beaten, "the heartbeat is back", 180)
    kill_group(daemon)
    beaten = heartbeats(told)
    time.sleep(STALE_AFTER.total_seconds())
    assert heartbeats(told) == beaten
    code, said = check(deployment)
    assert (code, "stale" in said) == (2, True)
    screen.go("/deployment/daemons")
    # Dagster itself believes in its daemon for half an hour.
    screen.wait_for("Daemon statuses.*Running")
    screen.picture("daemon-dead-but-called-running")


def test_broken_settings_still_bark(
    deployment: Deployment, look: Callable[[], Screen], told: Receiver
) -> None:
    deployment.installation.document["jobs"][JOB]["stale_aftre"] = "2h"
    screen = look()
    deployment.start_daemon()

    screen.go(FRESHNESS)
    wait_until(lambda: told.texts, "somebody is told of the mistake", 240)
    assert "stale_aftre" in told.texts[0]
    screen.wait_for("Failure")
    screen.page.locator('table >> text="View"').first.click()
    screen.wait_for("stale_aftre")
    screen.picture("freshness-broken-settings")
    assert check(deployment)[0] == 3
    assert heartbeats(told) == 0
    screen.launchpad(JOB)
    screen.launch()
    assert screen.wait_for_the_end_of_the_run() == "Failure"
    screen.wait_for("refuses to start")
    screen.picture("run-refused")
