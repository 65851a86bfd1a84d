"""Three days of an outage, covered from the browser: first dry, then live."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from tests.e2e.deployment import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.browser.screen import Screen
    from tests.e2e.deployment import Deployment

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]

JOB = "upload_reservations"
NOON = datetime.now(timezone.utc).replace(hour=12, minute=0, second=0, microsecond=0)
DAYS = [(NOON - timedelta(days=ago)).date().isoformat() for ago in (4, 3, 2)]


def windows(deployment: Deployment, mode: str) -> list[str]:
    """The days of the recorded runs of a mode."""
    return [
        record["detail"]["window"]["covers"]
        for record in deployment.installation.records()
        if record["mode"] == mode and record["outcome"] == "ok"
    ]


def swept_days(screen: Screen) -> int:
    """How many days the Partitions tab shows as done."""
    screen.wait_for(r"\d+\s+Total partitions")
    shown = re.search(
        r"(\d+)\s+Total partitions.*?(\d+)\s+Failed.*?(\d+)\s+Missing", screen.words(), re.DOTALL
    )
    assert shown is not None
    total, failed, missing = map(int, shown.groups())
    return total - failed - missing


def test_three_days_are_backfilled_dry_and_then_live(
    deployment: Deployment, look: Callable[[], Screen]
) -> None:
    installation = deployment.installation
    for ago, day in zip((4, 3, 2), DAYS, strict=True):
        installation.reserve(f"files/{day}", due_ago=datetime.now(timezone.utc) - NOON
                             + timedelta(days=ago))  # fmt: skip
    installation.reserve("files/today", due_ago=timedelta(minutes=1))
    # Nothing but the backfills of this test may run.
    installation.document["jobs"][JOB] = {"by_hand": True, "mode": "live"}
    screen = look()
    deployment.start_daemon()

    screen.backfill(JOB, DAYS[0], DAYS[-1])
    wait_until(lambda: len(windows(deployment, "dry")) == 3, "three dry days are recorded", 240)
    assert len(installation.keys()) == 4, "a dry backfill deletes nothing"
    screen.job(JOB, "partitions")
    assert swept_days(screen) == 0, "a dry backfill paints no day as done"
    screen.picture("partitions-after-dry")

    screen.backfill(JOB, DAYS[0], DAYS[-1], mode="live")
    wait_until(lambda: len(windows(deployment, "live")) == 3, "three live days are recorded", 240)
    assert sorted(windows(deployment, "live")) == sorted(DAYS)
    assert installation.keys() == {"files/today"}, "each run takes its own day only"
    screen.job(JOB, "partitions")
    assert swept_days(screen) == 3
    screen.picture("partitions-after-live")
    screen.go("/runs?view=backfills")
    screen.wait_for("Success.*Success")
    screen.picture("backfills")

    triggers = {record["detail"]["trigger"]["kind"] for record in installation.records()}
    assert triggers == {"backfill"}
