"""Automatic retries by a real daemon: a dry run stays dry, a cancelled one stays off."""

from __future__ import annotations

import os
import re
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.e2e.deployment import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.deployment import Deployment

pytestmark = [pytest.mark.e2e, pytest.mark.thorough, pytest.mark.timeout(280)]

JOB = "upload_reservations"
PATIENT = {"lock_timeout": "9m", "statement_timeout": "10m"}


@contextmanager
def at_work(deployment: Deployment) -> Iterator[tuple[str, int]]:
    """Launch a run that asks to be live and hangs at its first read; its id and its process."""
    installation = deployment.installation
    known = {row["run_id"] for row in installation.progress()}
    with psycopg.connect(installation.database_url) as connection:
        connection.execute("LOCK TABLE file IN ACCESS EXCLUSIVE MODE")
        deployment.dagster(
            "job", "launch", "-w", str(deployment.workspace()), "-j", JOB,
            "--tags", '{"filejobs/mode": "live"}',
        )  # fmt: skip

        def begun() -> dict[str, Any] | None:
            return next(
                (row for row in installation.progress() if row["run_id"] not in known), None
            )

        row = wait_until(begun, "the run works", 90)
        process = re.search(r"process (\d+)", row["holder"])
        assert process is not None
        yield row["run_id"], int(process[1])


def retry_after(deployment: Deployment, run_id: str) -> dict[str, Any]:
    """The record of the run by which the daemon repeated another."""

    def found() -> dict[str, Any] | None:
        of_retries = (
            row
            for row in deployment.installation.records()
            if row["detail"]["trigger"] == {"kind": "retry", "name": run_id}
        )
        return next(of_retries, None)

    record: dict[str, Any] = wait_until(found, "the daemon has repeated the run", 150)
    return record


def test_a_dry_run_that_crashed_stays_dry_and_a_cancelled_one_that_crashed_stays_off(
    deployment: Deployment,
) -> None:
    installation = deployment.installation
    installation.document["jobs"][JOB] = {"by_hand": True, "mode": "live"}
    installation.document["allow_live"] = False
    installation.document["database"].update(PATIENT)
    installation.reserve("files/a")
    installation.write()
    deployment.start_code_server()
    deployment.start_daemon()

    with at_work(deployment) as (dry, process):
        # The veto is lifted between the crash and the retry, which asks to be live as well.
        installation.document["allow_live"] = True
        installation.write()
        os.kill(process, signal.SIGKILL)
    retry = retry_after(deployment, dry)
    assert (retry["outcome"], retry["mode"], retry["acted"]) == ("ok", "dry", 0)
    assert "repeats was dry" in retry["detail"]["mode_reason"]
    (killed,) = (row for row in installation.records() if row["run_id"] == dry)
    assert (killed["outcome"], killed["detail"]["started_again"]) == ("failed", True)
    assert installation.has_row("files/a")

    with at_work(deployment) as (cancelled, process):
        with deployment.instance() as instance:
            run = instance.get_run_by_id(cancelled)
            assert run is not None
            instance.report_run_canceling(run)
        os.kill(process, signal.SIGKILL)
    retry = retry_after(deployment, cancelled)
    assert (retry["outcome"], retry["scanned"]) == ("failed", None)
    assert "cancelled" in retry["error"]
    assert installation.has_row("files/a")
    assert installation.has_object("files/a")
    retried = [run for run in deployment.runs() if "dagster/retry_number" in run.tags]
    assert len(retried) == 2, "a refused retry is not repeated"
