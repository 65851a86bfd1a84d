"""Dagster's automatic retry neither turns a cancelled run back on nor a dry one live."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import TYPE_CHECKING

from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill

from filejobs_dagster.orchestration import tags
from filejobs_dagster.orchestration.reconcile import reconcile
from tests.orchestration.conftest import failure_of, metadata_of

if TYPE_CHECKING:
    import dagster as dg

    from tests.orchestration.conftest import Code

JOB = "upload_reservations"
LIVE = {tags.MODE: "live"}


def cancelled_run(code: Code) -> dg.DagsterRun:
    """A run that was told to stop, and that Dagster calls failed."""
    run = code.instance.create_run_for_job(code.definitions.resolve_job_def(JOB), tags=LIVE)
    code.instance.report_run_canceling(run)
    code.instance.report_run_failed(run, "killed")
    return run


def retry_of(run_id: str, **more: str) -> dict[str, str]:
    """What the daemon copies and adds."""
    return {
        **LIVE,
        "dagster/parent_run_id": run_id,
        "dagster/root_run_id": run_id,
        "dagster/retry_number": "1",
        **{name.replace("__", "/"): value for name, value in more.items()},
    }


def test_a_retry_of_a_run_that_was_told_to_stop_refuses_and_touches_nothing(code: Code) -> None:
    code.installation.reserve("files/a")
    cancelled = cancelled_run(code)
    result = code.run(tags=retry_of(cancelled.run_id))
    assert not result.success
    said = failure_of(result)
    assert cancelled.run_id in said
    assert "Nothing was touched" in said
    assert code.installation.has_row("files/a")
    assert code.installation.has_object("files/a")


def test_nor_does_the_retry_of_that_retry_work_whatever_its_own_parent_ended_by(
    code: Code,
) -> None:
    code.installation.reserve("files/a")
    cancelled = cancelled_run(code)
    first = code.run(tags=retry_of(cancelled.run_id))
    second = code.run(tags=retry_of(first.run_id, dagster__retry_number="2"))
    assert not second.success
    assert f"run {cancelled.run_id}, which it repeats, was cancelled" in failure_of(second)
    assert code.installation.has_object("files/a")


def test_control_a_person_may_start_the_cancelled_run_again(code: Code) -> None:
    code.installation.reserve("files/a")
    again = retry_of(cancelled_run(code).run_id)
    del again["dagster/retry_number"]
    assert code.run(tags=again).success
    assert not code.installation.has_row("files/a")


def test_control_a_retry_of_a_run_that_only_crashed_works(code: Code) -> None:
    code.installation.reserve("files/a")
    run = code.instance.create_run_for_job(code.definitions.resolve_job_def(JOB), tags=LIVE)
    code.instance.report_run_failed(run, "killed")
    assert code.run(tags=retry_of(run.run_id)).success
    assert not code.installation.has_row("files/a")


def test_a_retry_within_a_cancelled_backfill_refuses(code: Code) -> None:
    code.installation.reserve("files/a")
    crashed = str(uuid.uuid4())
    for status in (BulkActionStatus.CANCELING, BulkActionStatus.CANCELED):
        backfill_id = status.value.lower()
        code.instance.add_backfill(
            PartitionBackfill(
                backfill_id=backfill_id,
                status=status,
                from_failure=False,
                tags=LIVE,
                backfill_timestamp=0.0,
                partition_names=["2026-01-01"],
            )
        )
        result = code.run(tags=retry_of(crashed, dagster__backfill=backfill_id))
        assert backfill_id in failure_of(result)
    assert code.installation.has_row("files/a")


def test_a_retry_of_a_run_that_was_dry_stays_dry_when_the_veto_was_lifted(code: Code) -> None:
    code.installation.reserve("files/a")
    crashed = str(uuid.uuid4())
    copied = retry_of(crashed, filejobs__effective_mode="dry")
    result = code.run(tags=copied)
    assert result.success
    shown = metadata_of(result)
    assert shown["mode"] == "dry"
    assert "the run that this one repeats was dry" in shown["mode_reason"]
    assert code.installation.has_row("files/a")


def test_control_without_that_rule_the_same_tags_are_live(code: Code) -> None:
    code.installation.reserve("files/a")
    copied = {**LIVE, tags.EFFECTIVE_MODE: "dry"}
    assert code.run(tags=copied).success
    assert not code.installation.has_row("files/a")


def test_a_lost_run_that_was_told_to_stop_is_ended_as_cancelled_and_so_not_retried(
    code: Code,
) -> None:
    code.installation.reserve("files/a")
    settings = code.installation.settings()
    run_id = code.run(tags=LIVE).run_id
    run = code.instance.get_run_by_id(run_id)
    assert run is not None
    code.instance.report_run_canceling(run)
    done = reconcile(code.instance, settings, silence=timedelta(0))
    assert (done.recorded, done.ended) == ([run_id], [run_id])
    ended = code.instance.get_run_by_id(run_id)
    assert ended is not None
    assert ended.status.value == "CANCELED"


def test_the_record_of_a_run_that_died_says_whether_dagster_starts_it_again(code: Code) -> None:
    job = code.definitions.resolve_job_def(JOB)
    for will_retry in ("true", "false"):
        run = code.instance.create_run_for_job(job, tags=job.run_tags)
        code.instance.report_run_failed(run, "killed")
        code.instance.add_run_tags(run.run_id, {tags.WILL_RETRY: will_retry})
        reconcile(code.instance, code.installation.settings(), silence=timedelta(0))
    again, never = (row["detail"] for row in code.installation.records())
    assert again["started_again"] is True
    assert "started_again" not in never
