"""Runs that do not end by themselves: killed with their code server, cancelled, without a home."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from tests.e2e.deployment import kill_group, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.e2e.deployment import Deployment

pytestmark = [pytest.mark.e2e, pytest.mark.thorough]

AT_ONCE = timedelta(0)


@contextmanager
def a_live_run_that_hangs(deployment: Deployment) -> Iterator[dg.DagsterRun]:
    """Launch a live run whose source of references does not answer for five minutes."""
    installation = deployment.installation
    installation.document["buckets"]["uploads"]["sources"] = [
        {"name": "slow", "sql": "select pg_sleep(300)::text", "min_rows": 0}
    ]
    installation.reserve("files/a")
    installation.write()
    deployment.start_code_server()
    with deployment.instance() as instance:
        deployment.dagster(
            "job", "launch", "-w", str(deployment.workspace()), "-j", "upload_reservations",
            "--tags", '{"filejobs/mode": "live"}',
        )  # fmt: skip
        deployment.start_daemon()
        wait_until(
            lambda: installation.execute(
                "SELECT 1 FROM pg_stat_activity"
                " WHERE datname = current_database() AND query LIKE '%pg_sleep(300)%'"
                " AND application_name LIKE 'filejobs/upload_reservations%'"
            ),
            "the run waits for its source",
            180,
        )
        [run] = instance.get_runs()
        yield run


def live_lock_is_free(deployment: Deployment) -> bool:
    return not deployment.installation.execute(
        "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND database ="
        " (SELECT oid FROM pg_database WHERE datname = current_database())"
    )


def test_a_run_killed_with_its_code_server_is_lost_ended_and_frees_lock_and_queue(
    deployment: Deployment,
) -> None:
    installation = deployment.installation
    with a_live_run_that_hangs(deployment) as run:
        for process in deployment.processes:
            kill_group(process)
        wait_until(lambda: live_lock_is_free(deployment), "the lock is free", 30)
        with deployment.instance() as instance:
            zombie = instance.get_run_by_id(run.run_id)
            assert zombie is not None
            assert zombie.status == dg.DagsterRunStatus.STARTED, "what Dagster believes by itself"

    patient = deployment.reconcile(silence=timedelta(minutes=2))
    assert (patient.recorded, patient.ended) == ([], []), "one look is not enough"
    done = deployment.reconcile(silence=AT_ONCE)

    assert (done.recorded, done.ended) == ([run.run_id], [run.run_id])
    [record] = installation.records()
    assert (record["run_id"], record["outcome"], record["mode"]) == (run.run_id, "failed", "live")
    assert record["detail"]["ended"] == "lost"
    assert record["scanned"] is None
    with deployment.instance() as instance:
        ended = instance.get_run_by_id(run.run_id)
        assert ended is not None
        assert ended.status == dg.DagsterRunStatus.FAILURE
    assert installation.has_row("files/a")
    assert installation.has_object("files/a")

    installation.document["buckets"]["uploads"]["sources"] = []
    installation.write()
    deployment.execute("--tags", '{"filejobs/mode": "live"}')
    assert installation.keys() == set()


def test_a_cancelled_run_stops_its_statement_frees_its_lock_and_is_recorded_as_cancelled(
    deployment: Deployment,
) -> None:
    installation = deployment.installation
    with a_live_run_that_hangs(deployment) as run:
        refused = deployment.execute("--tags", '{"filejobs/mode": "live"}', check=False)
        assert refused.returncode != 0
        assert run.run_id in refused.stdout + refused.stderr, "the second says who is running"

        with deployment.instance() as instance:
            assert instance.run_coordinator.cancel_run(run.run_id)
        wait_until(lambda: live_lock_is_free(deployment), "the lock is free", 20)
        wait_until(
            lambda: (
                not installation.execute(
                    "SELECT 1 FROM pg_stat_activity WHERE state = 'active'"
                    " AND datname = current_database() AND query LIKE '%pg_sleep(300)%'"
                    " AND pid <> pg_backend_pid()"
                )
            ),
            "the statement has ended on the server",
            20,
        )
        record = wait_until(
            lambda: [r for r in installation.records() if r["run_id"] == run.run_id],
            "the sensor has recorded the cancelled run",
            60,
        )[0]

    assert record["outcome"] == "failed"
    assert "Cancelled" in record["error"]
    assert record["scanned"] is None
    assert installation.has_object("files/a")


def test_a_run_without_dagster_home_is_recorded_by_its_own_final_word(
    deployment: Deployment,
) -> None:
    installation = deployment.installation
    installation.reserve("files/a")
    deployment.execute("--tags", '{"filejobs/mode": "live"}', DAGSTER_HOME="")

    deployment.reconcile()

    [record] = installation.records()
    assert (record["outcome"], record["mode"], record["acted"]) == ("ok", "live", 1)
    assert record["detail"]["ended"] == "unseen"
    assert record["detail"]["trigger"]["kind"] == "cli"
