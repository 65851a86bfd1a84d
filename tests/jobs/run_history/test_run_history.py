"""Old runs go from Dagster when their record stands, and nothing else goes."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import dagster as dg
import dagster_postgres.event_log.event_log
import dagster_postgres.run_storage.run_storage
import pytest
from dagster._core.execution.backfill import BulkActionStatus
from dagster_postgres.utils import create_pg_connection

from filejobs_dagster.jobs.run_history import RunHistoryRun
from filejobs_dagster.ledger.standing import Expectation, standings
from filejobs_dagster.orchestration import tags
from filejobs_dagster.orchestration.history import DagsterHistory, remove_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.jobs.run_history.conftest import World

DAY = timedelta(days=1)
YEAR = timedelta(days=365)


def test_old_recorded_runs_go_with_all_that_dagster_keeps_of_them(world: World) -> None:
    old = [world.add(90 * DAY), world.add(60 * DAY, status=dg.DagsterRunStatus.FAILURE)]
    young = world.add(29 * DAY)
    world.reconcile()
    at_work = world.add(90 * DAY, status=dg.DagsterRunStatus.STARTED)

    dry = world.prune(mode="dry")
    assert (dry.scanned, dry.acted, dry.detail["would_collect"]) == (2, 0, 2)
    assert world.known() == {*old, young, at_work}
    assert not world.events("run_history.prune.intent")

    live = world.prune()

    assert live.ok
    assert (live.scanned, live.acted) == (2, 2)
    assert live.detail["swept"]
    assert world.known() == {young, at_work}
    assert [world.left_of(run_id) for run_id in old] == [[], []]
    assert world.left_of(young)
    [intent] = world.events("run_history.prune.intent")
    [result] = world.events("run_history.prune.result")
    assert intent["runs"] == old
    assert (result["removed"], result["failed"]) == (2, {})


def test_a_run_without_a_record_is_kept_and_reported_and_can_still_be_recorded(
    world: World,
) -> None:
    recorded = world.recorded(YEAR)
    unrecorded = world.add(YEAR, status=dg.DagsterRunStatus.FAILURE)

    outcome = world.prune()

    assert world.known() == {unrecorded}
    assert outcome.detail["classes"] == {"pruned": 1, "not recorded": 1}
    assert unrecorded in outcome.detail["samples"]["not recorded"][0]
    assert "job_run_reconciler" in outcome.detail["explained"]
    assert world.reconcile() == [unrecorded]
    assert {recorded, unrecorded} <= world.records()


def test_control_pruning_by_age_alone_loses_the_run_that_was_never_recorded(world: World) -> None:
    unrecorded = world.add(YEAR, status=dg.DagsterRunStatus.FAILURE)

    month_ago = datetime.now(timezone.utc) - timedelta(days=30)
    for record in world.instance.get_run_records(dg.RunsFilter(updated_before=month_ago)):
        world.instance.delete_run(record.dagster_run.run_id)

    assert world.reconcile() == []
    assert unrecorded not in world.records()
    assert world.left_of(unrecorded), "and what it printed stays on the disk for ever"


def test_runs_of_others_in_the_same_instance_are_never_touched(world: World) -> None:
    others = {
        world.add(YEAR, installation="another"),
        world.add(YEAR, job="somebodys_etl", installation=""),
        # It carries our tag, and is no job of the registry all the same.
        world.add(YEAR, job="somebodys_etl"),
    }
    ours = world.recorded(YEAR)

    outcome = world.prune()

    assert outcome.scanned == outcome.acted == 1
    assert ours not in world.known()
    assert world.known() == others


def test_what_somebody_leans_on_is_kept(world: World) -> None:
    world.backfill("open", BulkActionStatus.REQUESTED)
    world.backfill("over", BulkActionStatus.COMPLETED_SUCCESS)
    of_open = world.add(YEAR, more={tags.BACKFILL: "open"})
    of_over = world.add(YEAR, more={tags.BACKFILL: "over"})
    parent = world.add(YEAR)
    young_child = world.add(DAY, more={tags.PARENT_RUN: parent})
    parent_of_working = world.add(YEAR)
    parent_of_old = world.add(YEAR)
    old_child = world.add(300 * DAY, more={tags.PARENT_RUN: parent_of_old})
    retried = world.add(YEAR, status=dg.DagsterRunStatus.FAILURE, more={tags.WILL_RETRY: "true"})
    world.reconcile()
    working = world.add(
        YEAR, status=dg.DagsterRunStatus.STARTED, more={tags.PARENT_RUN: parent_of_working}
    )

    outcome = world.prune()

    kept = {of_open, parent, young_child, parent_of_working, working, retried}
    assert world.known() == kept
    assert not {of_over, parent_of_old, old_child} & world.known()
    assert outcome.detail["classes"] == {
        "pruned": 3,
        "backfill in progress": 1,
        "parent of a run that is kept": 2,
        "about to be retried": 1,
    }


def test_a_limit_leaves_the_youngest_and_the_next_run_goes_on(world: World) -> None:
    runs = [world.add(YEAR - number * DAY) for number in range(5)]
    world.reconcile()

    first = world.prune(limit=3, batch_size=2)

    assert (first.acted, first.detail["truncated"], first.detail["stopped_reason"]) == (
        3, True, "limit",
    )  # fmt: skip
    assert not first.detail["swept"]
    assert world.known() == set(runs[3:])
    assert [len(event["runs"]) for event in world.events("run_history.prune.intent")] == [2, 1]
    assert first.detail["oldest_left"] is not None

    late = world.prune(max_runtime=timedelta(0))
    assert (late.acted, late.detail["stopped_reason"]) == (0, "max_runtime")
    assert world.prune().acted == 2


def test_more_runs_than_a_page_go_although_the_page_is_the_cursor_of_the_next(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("filejobs_dagster.orchestration.history.PAGE", 2)
    runs = {world.add(YEAR) for _ in range(5)}
    world.reconcile()

    assert world.prune(batch_size=1).acted == 5
    assert not runs & world.known()


class Poisoned(DagsterHistory):
    """A storage that cannot remove some runs."""

    poison: frozenset[str] = frozenset()

    def remove_all(self, run_ids: Sequence[str]) -> Mapping[str, str]:
        failed = super().remove_all([each for each in run_ids if each not in self.poison])
        return {
            **failed,
            **dict.fromkeys(self.poison.intersection(run_ids), "the disk is read-only"),
        }


def test_a_run_that_cannot_be_removed_is_skipped_and_a_whole_batch_fails(world: World) -> None:
    runs = [world.add(YEAR), world.add(YEAR)]
    world.reconcile()
    history = Poisoned(world.instance, "test")
    history.poison = frozenset(runs[:1])

    outcome = world.prune(history=history)

    assert outcome.ok
    assert outcome.detail["classes"] == {"pruned": 1, "not removed": 1}
    assert not outcome.detail["swept"]
    assert outcome.detail["oldest_left"] is not None
    assert world.known() == set(runs[:1])

    failed = world.prune(history=history)
    assert failed.error is not None
    assert "Not one of 1 runs could be removed: the disk is read-only" in failed.error
    assert (failed.scanned, failed.acted) == (1, 0)


def test_one_run_that_the_database_refuses_keeps_none_of_its_batch(world: World) -> None:
    runs = [world.add(YEAR) for _ in range(3)]
    world.reconcile()
    world.dagster(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE 'this row is frozen'; END $$;"
        f"CREATE TRIGGER refuse BEFORE DELETE ON runs FOR EACH ROW WHEN (OLD.run_id = '{runs[1]}')"
        " EXECUTE FUNCTION refuse()"
    )

    outcome = world.prune()

    assert outcome.detail["classes"] == {"pruned": 2, "not removed": 1}
    assert "this row is frozen" in str(outcome.detail["samples"])
    assert world.known() == {runs[1]}
    assert world.left_of(runs[0]) == world.left_of(runs[2]) == []


def test_a_batch_takes_few_connections_to_dagsters_storage_however_many_runs_it_has(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [world.add(YEAR) for _ in range(10)]
    opened: list[str] = []
    real = create_pg_connection

    def counting(engine: Any) -> Any:
        opened.append(str(engine.url))
        return real(engine)

    for module in (dagster_postgres.event_log.event_log, dagster_postgres.run_storage.run_storage):
        monkeypatch.setattr(module, "create_pg_connection", counting)

    assert world.history.remove_all(runs) == {}

    assert len(opened) <= 4
    assert [world.left_of(run_id) for run_id in runs] == [[]] * 10


@pytest.mark.parametrize("chosen", ["", ".", "..", "{elsewhere}", "x/../../y", "x/.."])
def test_an_id_that_leads_elsewhere_removes_nothing(
    world: World, tmp_path: Path, chosen: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    other = world.add()
    before = world.left_of(other)
    run_id = chosen.format(elsewhere=elsewhere)

    failed = world.history.remove_all([run_id])

    assert "is no name of a directory" in failed[run_id]
    assert world.left_of(other) == before
    assert elsewhere.is_dir()


def test_what_was_killed_half_way_is_finished_by_the_next_run(world: World) -> None:
    ours, dagsters = world.recorded(YEAR), world.recorded(YEAR)
    # Killed before the run's own row went.
    remove_files(world.instance, ours)
    world.instance.event_log_storage.delete_events(ours)
    # CONTROL: killed in the middle of delete_run, which takes the row first.
    world.instance.run_storage.delete_run(dagsters)

    world.prune()

    assert world.left_of(ours) == []
    assert any("event_logs" in trace for trace in world.left_of(dagsters))


def test_after_pruning_nothing_is_recorded_again_or_missed_and_the_standing_is_the_same(
    world: World,
) -> None:
    world.recorded(YEAR)
    world.recorded(40 * DAY)
    before = _standing(world)
    records = world.records()

    world.prune()

    assert world.known() == set()
    assert world.reconcile() == []
    assert _standing(world) == before
    missed = world.add(YEAR)
    world.prune()
    assert world.reconcile() == [missed]
    assert world.records() == {*records, missed}


def test_rows_of_progress_go_when_their_record_is_old_and_dagster_calls_the_run_over(
    world: World,
) -> None:
    gone, lost = world.recorded(YEAR), world.recorded(YEAR)
    world.age_progress(YEAR)
    young = world.recorded(YEAR)
    # Dagster still believes in it: the closed row is what lets the reconciler end it.
    world.dagster("UPDATE runs SET status = 'STARTED' WHERE run_id = %s", (lost,))

    dry = world.prune(mode="dry")
    assert dry.detail["would_remove_progress_rows"] == 1
    outcome = world.prune()

    assert outcome.detail["progress_rows"] == 1
    left = {row["run_id"] for row in world.installation.progress()}
    assert gone not in left
    assert {lost, young} <= left
    assert {gone, lost, young} <= world.records()
    assert [event["rows"] for event in world.events("run_history.progress.removed")] == [1]
    assert world.reconcile() == []
    ended = world.instance.get_run_by_id(lost)
    assert ended is not None
    assert ended.status == dg.DagsterRunStatus.FAILURE


def test_an_instance_that_goes_with_the_process_is_left_alone_and_said(world: World) -> None:
    world.recorded(YEAR)
    world.age_progress(YEAR)
    with dg.DagsterInstance.ephemeral() as passing:
        outcome = world.prune(history=DagsterHistory(passing, "test"))

    assert (outcome.scanned, outcome.acted) == (None, None)
    assert "no history to prune" in outcome.detail["explained"]
    assert not outcome.detail["swept"]
    assert len(world.installation.progress()) == 2, "of the old run, and of this one"


def test_less_than_a_week_is_refused() -> None:
    with pytest.raises(ValueError, match="under the floor of 7d"):
        RunHistoryRun(keep=timedelta(days=6))


def _standing(world: World) -> list[tuple[str, str, object]]:
    database = world.installation.database
    with database.connect("test") as connection, database.transaction(connection) as cursor:
        found = standings(cursor, "test", [Expectation("upload_reservations", configured=True)])
    return [
        (standing.job, standing.word, standing.last_run)
        for standing in found
        if standing.job != "run_history"
    ]
