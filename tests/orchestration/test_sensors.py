"""Sensors and schedules, tick by tick."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import dagster as dg
import psycopg
import pytest
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill

from filejobs_dagster.expectations import expectations
from filejobs_dagster.ledger import mirror as mirror_module
from filejobs_dagster.ledger.mirror import mirror
from filejobs_dagster.ledger.standing import standings
from filejobs_dagster.orchestration import tags
from filejobs_dagster.orchestration.launching import Backfill, cancel_backfill
from filejobs_dagster.orchestration.reconcile import reconcile
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.postgres.locks import Lease, run_lock
from filejobs_dagster.settings import read_settings
from tests.instances import dagster_instance

if TYPE_CHECKING:
    from tests.orchestration.conftest import Code

TODAY = datetime.now(timezone.utc).date().isoformat()


def tick(code: Code) -> Any:
    definitions = code.definitions
    repository = definitions.get_repository_def()
    context = dg.build_schedule_context(
        instance=code.instance, repository_def=repository,
        scheduled_execution_time=datetime.now(timezone.utc),
    )  # fmt: skip
    schedule = definitions.resolve_schedule_def("upload_reservations_schedule")
    return schedule.evaluate_tick(context)


def started(code: Code, status: dg.DagsterRunStatus) -> dg.DagsterRun:
    """A run that Dagster knows and that no process works on."""
    job = code.definitions.resolve_job_def("upload_reservations")
    return code.instance.create_run_for_job(job, status=status, tags=job.tags)


def test_freshness_raises_for_a_job_that_never_ran_and_says_which_and_why(code: Code) -> None:
    code.installation.job(stale_after="2h")

    with pytest.raises(Exception, match="1 job needs attention") as raised:
        code.sensor("job_freshness")

    assert "upload_reservations (never run)" in str(raised.value).splitlines()[0]
    assert "no run is recorded" in str(raised.value)


def test_freshness_raises_for_a_job_by_hand_without_threshold_that_never_ran(code: Code) -> None:
    code.installation.document["jobs"]["upload_reservations"] = {"by_hand": True}

    with pytest.raises(Exception, match="never run"):
        code.sensor("job_freshness")


def test_freshness_is_quiet_once_the_job_swept(code: Code) -> None:
    code.installation.job(stale_after="2h")
    assert code.run(dry_run=False).success
    reconcile(code.instance, code.installation.settings())

    assert "stands as it should" in code.sensor("job_freshness").skip_message


def test_freshness_tells_which_settings_are_in_force_and_when_the_file_is_another_one(
    code: Code,
) -> None:
    assert code.run(dry_run=False).success
    reconcile(code.instance, code.installation.settings())
    definitions = code.definitions  # the code server, which goes on with what it has read
    file = code.installation.loaded().path
    before, digest = file.read_text(), code.installation.loaded().require().digest

    def said() -> str:
        context = dg.build_sensor_context(instance=code.instance, definitions=definitions)
        message = definitions.resolve_sensor_def("job_freshness").evaluate_tick(context)
        return str(message.skip_message)

    assert f"has read the settings {digest}, as they stand in the file" in said()
    file.write_text(f"{before}\n# another comment\n")
    changed = read_settings(file).require().digest
    assert changed != digest
    assert f"the file has changed since, to {changed}" in said()
    # Broken before anybody reloads: told as that, not by each job that fails.
    file.write_text(f"{before}\nno_such_key: 1\n")
    with pytest.raises(Exception, match="has mistakes; no job can run"):
        said()


def test_freshness_raises_when_the_database_is_away(code: Code) -> None:
    code.installation.database_url = "postgresql://nobody:hunter2secret@127.0.0.1:9/nothing"

    with pytest.raises(Exception, match="cannot be read") as raised:
        code.sensor("job_freshness")

    assert "hunter2secret" not in str(raised.value)


def test_dry_runs_of_a_job_configured_live_never_satisfy_freshness(code: Code) -> None:
    code.installation.job(stale_after="2h")
    for _ in range(3):
        assert code.run().success
    reconcile(code.instance, code.installation.settings())

    with pytest.raises(Exception, match="upload_reservations"):
        code.sensor("job_freshness")


def test_a_schedule_asks_for_one_live_run_over_everything_that_carries_today(code: Code) -> None:
    [request] = tick(code).run_requests

    assert request.tags[tags.MODE] == "live"
    assert request.tags[tags.WINDOW] == tags.COVERS_EVERYTHING
    assert request.tags[tags.PARTITION] == TODAY


def test_a_schedule_of_a_dry_job_carries_no_day(code: Code) -> None:
    code.installation.job(mode="dry")

    [request] = tick(code).run_requests

    assert request.tags[tags.MODE] == "dry"
    assert tags.PARTITION not in request.tags


@pytest.mark.parametrize("status", ["NOT_STARTED", "STARTED", "CANCELING"])
def test_a_tick_skips_while_a_run_is_queued_or_running(code: Code, status: str) -> None:
    run = started(code, dg.DagsterRunStatus(status))

    data = tick(code)

    assert not data.run_requests
    assert run.run_id in data.skip_message


def test_three_days_of_outage_are_one_late_run(code: Code) -> None:
    for days in (1, 2, 3):
        code.installation.reserve(f"files/{days}", due_ago=timedelta(days=days))
    [request] = tick(code).run_requests

    result = code.run(tags=dict(request.tags), partition_key=request.partition_key or TODAY)

    assert result.success
    assert code.installation.keys() == set()


def test_the_backlog_sensor_starts_the_job_early_only_above_the_number(code: Code) -> None:
    code.installation.job(backlog_over=3)
    code.installation.reserve_many(["files/1", "files/2", "files/3"])
    assert "not more than 3" in code.sensor("upload_reservations_backlog").skip_message

    code.installation.reserve_many(["files/4"])
    [request] = code.sensor("upload_reservations_backlog").run_requests

    assert request.tags[tags.MODE] == "live"


@pytest.mark.thorough
def test_the_reconciler_records_what_ended_before_it_was_ever_switched_on(code: Code) -> None:
    for _ in range(12):
        code.run()

    assert "Recorded 12" in code.sensor("job_run_reconciler").skip_message
    assert "Recorded 0" in code.sensor("job_run_reconciler").skip_message
    assert len(code.installation.records()) == 12


def test_a_run_that_cannot_be_recorded_does_not_stand_in_the_way_of_the_others(
    code: Code, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison = code.run().run_id
    good = code.run().run_id

    def fail_for_poison(database: Any, connection: Any, run: Any) -> bool:
        if run.run_id == poison:
            raise psycopg.errors.CheckViolation("refused")
        return mirror(database, connection, run)

    monkeypatch.setattr("filejobs_dagster.orchestration.reconcile.mirror", fail_for_poison)
    with pytest.raises(Exception, match=poison):
        code.sensor("job_run_reconciler")
    assert [r["run_id"] for r in code.installation.records()] == [good]
    assert code.installation.execute("SELECT read_until FROM mirror_watermark") == []

    monkeypatch.setattr("filejobs_dagster.orchestration.reconcile.mirror", mirror)
    code.sensor("job_run_reconciler")
    assert {r["run_id"] for r in code.installation.records()} == {good, poison}


def test_nothing_is_lost_when_the_database_was_away_for_the_mirror(code: Code) -> None:
    run = code.run(dry_run=False).run_id
    here = code.installation.database_url
    code.installation.database_url = "postgresql://nobody@127.0.0.1:9/nothing"
    with pytest.raises(Exception, match="None is lost"):
        code.sensor("job_run_reconciler")

    code.installation.database_url = here
    code.sensor("job_run_reconciler")

    assert [r["run_id"] for r in code.installation.records()] == [run]


def test_runs_of_another_installation_are_left_to_it(code: Code) -> None:
    code.run()
    code.installation.document["installation"] = "other"

    assert "Recorded 0" in code.sensor("job_run_reconciler").skip_message


def test_a_run_that_dagster_never_knew_is_recorded_by_its_own_final_word(code: Code) -> None:
    with dagster_instance() as elsewhere:
        job = code.definitions.resolve_job_def("upload_reservations")
        run = job.execute_in_process(instance=elsewhere).run_id

    code.sensor("job_run_reconciler")

    [row] = code.installation.records()
    assert (row["run_id"], row["outcome"], row["detail"]["ended"]) == (run, "ok", "unseen")


def test_a_run_that_failed_before_it_started_is_recorded_as_never_started(code: Code) -> None:
    run = started(code, dg.DagsterRunStatus.NOT_STARTED)
    code.instance.report_run_failed(run, "the code server was down")

    code.sensor("job_run_reconciler")

    [row] = code.installation.records()
    assert (row["outcome"], row["mode"], row["scanned"]) == ("failed", "dry", None)
    assert "never started" in row["error"]
    assert "code server was down" in row["error"]


def test_a_cancelled_run_is_recorded_as_cancelled(code: Code) -> None:
    run = started(code, dg.DagsterRunStatus.NOT_STARTED)
    code.instance.report_run_canceled(run)

    code.sensor("job_run_reconciler")

    [row] = code.installation.records()
    assert row["detail"]["ended"] == "canceled"
    assert (
        "Cancelled before it started: somebody stopped it, and Dagster does not say" in row["error"]
    )


def test_a_backfill_that_was_cancelled_half_way_is_no_failure_of_its_job(code: Code) -> None:
    """Its days say who, which day and what mode; the standing is what the sweeps say."""
    code.installation.reserve("files/a")
    assert code.run(dry_run=False).success
    reconcile(code.instance, code.installation.settings())
    days = [f"2026-03-0{day}" for day in range(1, 9)]
    asked = {"filejobs/mode": "live", "dagster/backfill": "eightday"}
    code.instance.add_backfill(
        PartitionBackfill(
            backfill_id="eightday",
            status=BulkActionStatus.REQUESTED,
            from_failure=False,
            tags=asked,
            backfill_timestamp=0.0,
            partition_names=days,
        )
    )
    for day in days[:3]:
        assert code.run(tags={**asked, "dagster/partition": day}).success
    job = code.definitions.resolve_job_def("upload_reservations")
    waiting = [
        code.instance.create_run_for_job(
            job,
            status=dg.DagsterRunStatus.NOT_STARTED,
            tags={**job.tags, **asked, "dagster/partition": day},
        )
        for day in days[3:]
    ]
    backfill = Backfill(
        "eightday",
        "upload_reservations",
        "at work",
        "live",
        (),
        datetime.now(timezone.utc),
        None,
        "eightday",
        {},
    )
    assert cancel_backfill(code.instance, backfill, "ada@desk")
    for run in waiting:
        code.instance.report_run_canceled(run)

    code.sensor("job_run_reconciler")

    rows = {row["detail"]["window"]["covers"]: row for row in code.installation.records()}
    assert set(rows) == {"everything", *days}
    for day in days[3:]:
        assert rows[day]["error"] == (
            f"Cancelled before it started (it was to run live on the day {day}): its backfill "
            "eightday was cancelled by ada@desk."
        )
        assert rows[day]["detail"]["asked_mode"] == "live"
        assert rows[day]["mode"] == "dry", "nothing that never started has run live"
    settings = code.installation.settings()
    database = Database.of(settings.database)
    with database.connect("test") as connection, database.transaction(connection) as cursor:
        [standing] = [
            each
            for each in standings(cursor, settings.installation, expectations(settings))
            if each.configured
        ]
    assert (standing.word, standing.severity, standing.consecutive_failures) == ("ok", "ok", 0)


def test_a_backlog_that_a_run_cannot_lessen_does_not_start_one_after_the_other(code: Code) -> None:
    code.installation.job(backlog_over=3)
    code.installation.reserve_many([f"other/{n}" for n in range(5)])
    assert code.sensor("upload_reservations_backlog").run_requests

    code.run(dry_run=False)
    reconcile(code.instance, code.installation.settings())

    assert "made no difference" in code.sensor("upload_reservations_backlog").skip_message


@pytest.mark.parametrize("changes", [{"mode": "dry"}, {}])
def test_a_backlog_is_no_reason_for_a_dry_run(code: Code, changes: dict[str, str]) -> None:
    code.installation.job(backlog_over=3, **changes)
    code.installation.document["allow_live"] = "mode" in changes
    code.installation.reserve_many([f"files/{n}" for n in range(5)])

    assert "dry run" in code.sensor("upload_reservations_backlog").skip_message


def test_a_run_whose_process_ended_after_its_final_word_is_recorded_and_ended_in_dagster(
    code: Code,
) -> None:
    run = started(code, dg.DagsterRunStatus.STARTED)
    code.installation.execute(
        "INSERT INTO job_progress"
        " (run_id, installation, job, mode, trigger, holder, scanned, acted, detail, outcome,"
        " finished_at, heartbeat_at) VALUES (%s, 'test', 'upload_reservations',"
        " 'live', 'schedule', 'somebody', 3, 3, '{}', 'ok',"
        " now() - interval '5 min', now() - interval '5 min')",
        (run.run_id,),
    )

    code.sensor("job_run_reconciler")

    [row] = code.installation.records()
    assert (row["run_id"], row["outcome"], row["acted"]) == (run.run_id, "ok", 3)
    ended = code.instance.get_run_by_id(run.run_id)
    assert ended is not None
    assert ended.status == dg.DagsterRunStatus.FAILURE
    assert tick(code).run_requests, "nothing stands in the way of the next run"


def test_a_run_whose_events_cannot_be_read_is_recorded_without_its_reason(
    code: Code, monkeypatch: pytest.MonkeyPatch
) -> None:
    code.run(limit=0)
    code.run()

    def unreadable(*_: Any, **__: Any) -> Any:
        raise ValueError("a row of the event log is damaged")

    monkeypatch.setattr(type(code.instance), "all_logs", unreadable)

    assert "Recorded 2" in code.sensor("job_run_reconciler").skip_message
    [failed] = [r for r in code.installation.records() if r["outcome"] == "failed"]
    assert "could not be read" in failed["error"]


def test_a_run_whose_record_stands_is_ended_in_dagster_too(code: Code) -> None:
    run = started(code, dg.DagsterRunStatus.STARTED)
    young = started(code, dg.DagsterRunStatus.STARTED)
    code.installation.execute(
        "INSERT INTO job_progress (run_id, installation, job, mode, trigger, holder, closed_at)"
        " SELECT id, 'test', 'upload_reservations', 'live', 'cli', 'somebody', closed"
        " FROM (VALUES (%s, now() - interval '5 min'), (%s, now())) AS given (id, closed)",
        (run.run_id, young.run_id),
    )

    code.sensor("job_run_reconciler")

    states = {r.run_id: r.status.value for r in code.instance.get_runs()}
    assert states == {run.run_id: "FAILURE", young.run_id: "STARTED"}


@pytest.mark.parametrize("ended", ["success", "failure", "canceled"])
def test_a_run_status_sensor_wakes_the_mirror_for_ours_and_for_runs_without_a_location(
    code: Code, ended: str
) -> None:
    definitions = code.definitions
    sensor: Any = definitions.resolve_sensor_def(f"job_run_mirror_{ended}")
    assert sensor.sensor_type.value == "RUN_STATUS"
    ours = code.run()
    event = ours.all_events[-1]

    def wake(run: dg.DagsterRun) -> None:
        context = dg.build_run_status_sensor_context(
            sensor_name=sensor.name, dagster_instance=code.instance,
            dagster_run=run, dagster_event=event,
        )  # fmt: skip
        sensor(context)

    stranger = ours.dagster_run.with_tags({tags.INSTALLATION: "other"})
    wake(stranger)
    assert code.installation.records() == []

    wake(ours.dagster_run)
    assert [row["run_id"] for row in code.installation.records()] == [ours.run_id]


def test_a_run_that_showed_itself_after_it_looked_lost_is_neither_recorded_nor_ended(
    code: Code, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = started(code, dg.DagsterRunStatus.STARTED)
    code.installation.execute(
        "INSERT INTO job_progress (run_id, installation, job, mode, trigger, holder)"
        " VALUES (%s, 'test', 'upload_reservations', 'live', 'cli', 'somebody')",
        (run.run_id,),
    )
    look = mirror_module.open_runs

    def look_then_the_run_takes_its_lock(*arguments: Any, **options: Any) -> Any:
        found = look(*arguments, **options)
        lease.take(run_lock("public", run.run_id))
        return found

    lease = Lease(code.installation.database, "the run that came back")
    monkeypatch.setattr(
        "filejobs_dagster.orchestration.reconcile.open_runs", look_then_the_run_takes_its_lock
    )

    done = reconcile(code.instance, code.installation.settings(), silence=timedelta(0))
    lease.release()

    assert (done.recorded, done.ended) == ([], [])
    current = code.instance.get_run_by_id(run.run_id)
    assert current is not None
    assert current.status == dg.DagsterRunStatus.STARTED
    assert code.installation.records() == []
