"""The watchdog of a real deployment: it tells, it beats, and its death is noticed from outside."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from tests.e2e.deployment import LONG, kill_group, told, wait_until

if TYPE_CHECKING:
    from tests.alerts.receiver import Receiver
    from tests.e2e.deployment import Deployment

pytestmark = [pytest.mark.e2e, pytest.mark.thorough]


def beats(receiver: Receiver) -> int:
    return sum("/ping/" in path for path in receiver.requests)


def failed_ticks(deployment: Deployment) -> list[str]:
    """The first lines of the failed ticks of job_freshness, as the web UI has them."""
    with deployment.instance() as instance:
        return [
            str(tick.error)
            for state in instance.all_instigator_state()
            if state.instigator_name == "job_freshness"
            for tick in instance.get_ticks(
                state.instigator_origin_id,
                state.selector_id,
                statuses=[dg._core.scheduler.instigation.TickStatus.FAILURE],
            )
        ]


def test_it_tells_it_beats_and_somebody_hears_when_it_is_gone(
    deployment: Deployment, receiver: Receiver
) -> None:
    installation = deployment.installation
    code_server, daemon = deployment.start_code_server(), deployment.start_daemon()
    told(receiver, "upload_reservations has never run")
    wait_until(lambda: failed_ticks(deployment), "a tick has failed", LONG)
    assert "1 job needs attention: upload_reservations (never run)" in failed_ticks(deployment)[0]
    assert beats(receiver) == 0

    installation.execute(
        "INSERT INTO job_run (run_id, installation, job, started_at, outcome, mode, detail)"
        " VALUES ('r', 'test', 'upload_reservations', now(), 'ok', 'live',"
        ' \'{"window": {"covers": "everything"}}\')'
    )
    wait_until(lambda: beats(receiver), "it beats", LONG)
    told(receiver, "1 over")
    assert len(receiver.messages) == 2

    for process in (daemon, code_server):
        kill_group(process)
    beaten = beats(receiver)
    installation.execute("UPDATE mirror_watermark SET read_until = now() - interval '2 hours'")
    alert = [sys.executable, "-m", "filejobs_dagster.cli", "alert"]
    deployment.run([*alert, "--state", str(installation.folder / "state.json")])
    assert "Nobody records what ran" in receiver.texts[2]

    installation.settings_path.write_text("installation: test\n\tno YAML: [")
    deployment.start_code_server()
    deployment.start_daemon()
    told(receiver, "filejobs.yaml has mistakes, so no job can run")
    assert beats(receiver) == beaten
