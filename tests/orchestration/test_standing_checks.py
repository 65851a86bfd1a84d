"""The overview of the web UI: a check for each job, which says what `filejobs status` says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg
from dagster import AssetCheckKey

from filejobs_dagster.orchestration import sensors as standing_sensor
from filejobs_dagster.orchestration.reconcile import reconcile
from filejobs_dagster.orchestration.standing_checks import CHECK, checked_jobs
from filejobs_dagster.registry import JOBS

if TYPE_CHECKING:
    import pytest

    from tests.orchestration.conftest import Code

JOB = "upload_reservations"


def reported(code: Code, cursor: str | None = None) -> tuple[dict[str, Any], str | None]:
    """The verdicts of one tick, by job, and its cursor; they are written as the daemon would."""
    definitions = code.definitions
    context = dg.build_sensor_context(
        instance=code.instance, definitions=definitions, cursor=cursor
    )
    tick = definitions.resolve_sensor_def("job_standing").evaluate_tick(context)
    for event in tick.asset_events:
        code.instance.report_runless_asset_event(event)
    return {event.asset_key.to_user_string(): event for event in tick.asset_events}, tick.cursor


def shown(code: Code) -> str:
    """What the catalog shows for the job: the newest stored evaluation."""
    key = AssetCheckKey(dg.AssetKey(JOB), CHECK)
    [record] = code.instance.event_log_storage.get_asset_check_execution_history(key, limit=1)
    return str(record.status.value)


def record(code: Code) -> None:
    reconcile(code.instance, code.installation.settings())


def test_a_job_that_never_ran_is_red_in_the_overview(code: Code) -> None:
    verdicts, _ = reported(code)

    assert not verdicts[JOB].passed
    assert verdicts[JOB].description.startswith("never run: ")
    assert shown(code) == "FAILED"


def test_dry_runs_of_a_job_that_is_asked_for_live_never_turn_it_green(code: Code) -> None:
    code.installation.job(stale_after="2h")
    assert code.run().success
    record(code)

    verdicts, _ = reported(code)

    assert not verdicts[JOB].passed
    assert verdicts[JOB].metadata["last live success"].value == "never"


def test_a_live_run_over_everything_turns_it_green_and_says_when(code: Code) -> None:
    assert code.run(dry_run=False).success
    record(code)

    verdicts, _ = reported(code)

    assert verdicts[JOB].passed
    assert shown(code) == "SUCCEEDED"
    assert isinstance(verdicts[JOB].metadata["last live success"], dg.TimestampMetadataValue)


def test_what_has_not_changed_is_reported_again_only_after_a_while(
    code: Code, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, cursor = reported(code)
    again, cursor = reported(code, cursor)
    monkeypatch.setattr(standing_sensor, "REPEATED_AFTER", standing_sensor.REPEATED_AFTER * 0)
    later, _ = reported(code, cursor)

    assert set(first) == {JOB}
    assert again == {}
    assert set(later) == {JOB}


def test_a_change_is_reported_at_once(code: Code) -> None:
    _, cursor = reported(code)
    assert code.run(dry_run=False).success
    record(code)

    verdicts, _ = reported(code, cursor)

    assert verdicts[JOB].passed


def test_a_newer_run_is_reported_though_the_word_is_the_same(code: Code) -> None:
    """The web UI greys a verdict that is older than the newest materialization."""
    code.installation.reserve("files/a")
    assert code.run(dry_run=False).success
    record(code)
    first, cursor = reported(code)
    assert code.run(dry_run=False).success
    record(code)

    again, cursor = reported(code, cursor)

    assert first[JOB].metadata["standing"].value == again[JOB].metadata["standing"].value == "ok"
    assert reported(code, cursor)[0] == {}


def test_a_database_that_is_away_turns_everything_red_and_no_secret_is_shown(code: Code) -> None:
    code.installation.database_url = "postgresql://nobody:hunter2secret@127.0.0.1:9/nothing"

    verdicts, _ = reported(code)

    assert not verdicts[JOB].passed
    assert verdicts[JOB].description.startswith("unknown: the database does not answer")
    assert "hunter2secret" not in str(verdicts)


def test_broken_settings_turn_every_job_red(code: Code) -> None:
    code.installation.document["typo"] = 1

    verdicts, _ = reported(code)

    assert set(verdicts) == {job.name for job in JOBS}
    assert not any(verdict.passed for verdict in verdicts.values())
    assert "typo" in verdicts[JOB].description


def test_a_job_that_nobody_asked_for_has_no_check(code: Code) -> None:
    assert checked_jobs(code.installation.loaded()) == [JOB]


def test_a_person_can_ask_at_once_from_the_catalog(code: Code) -> None:
    [checks] = code.definitions.asset_checks or []
    assert isinstance(checks, dg.AssetChecksDefinition)

    result = dg.materialize(
        [checks], instance=code.instance, selection=dg.AssetSelection.all_asset_checks()
    )

    [evaluation] = result.get_asset_check_evaluations()
    assert not evaluation.passed
    assert str(evaluation.description).startswith("never run: ")


def test_a_reason_that_quotes_a_key_cannot_write_markdown_into_the_catalog(code: Code) -> None:
    image = "![x](/graphql?query=mutation%7B)"
    code.installation.execute(
        "INSERT INTO job_run (run_id, installation, job, started_at, outcome, mode, error)"
        " VALUES ('a-run', 'test', 'upload_reservations', now(), 'failed', 'live', %s)",
        (f"refused: files/{image}",),
    )

    verdicts, _ = reported(code)

    description = verdicts[JOB].description
    assert image.replace("[", "\\[") in description
    assert image not in description
