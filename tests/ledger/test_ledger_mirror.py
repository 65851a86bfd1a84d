"""Every run ends in job_run, exactly once, whoever says so and however often."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest

from filejobs_dagster.ledger.mirror import (
    FinishedRun,
    OpenRun,
    closed_for_long,
    mirror,
    open_runs,
)
from filejobs_dagster.ledger.outcome import Outcome, Trigger
from filejobs_dagster.ledger.progress import GivenUp
from filejobs_dagster.ledger.standing import Expectation, standings
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.postgres.locks import Lease, run_lock
from tests.ledger.records import (
    INSTALLATION,
    JOB,
    Run,
    ago,
    insert_record,
    now,
    only_record,
    progress_of,
    records,
)
from tests.postgres.backends import is_waiting, terminate, together, wait_until

if TYPE_CHECKING:
    from filejobs_dagster.ledger.mirror import Ended

AT_ONCE = timedelta(0)
DAYS = timedelta(days=1)


@pytest.fixture
def database(database_url: str) -> Database:
    return Database(database_url)


def tell(database: Database, run: FinishedRun) -> bool:
    with database.connect("mirror") as connection:
        return mirror(database, connection, run)


def look(database: Database, silence: timedelta = AT_ONCE) -> dict[str, OpenRun]:
    with database.connect("mirror") as connection:
        found = open_runs(database, connection, INSTALLATION, silence=silence)
    return {run.run_id: run for run in found}


def test_a_run_that_finished_gets_its_own_numbers_times_and_trigger(
    database: Database, connection: psycopg.Connection
) -> None:
    run = Run(database).open()
    run.advance(3, 2, batches=1)
    run.finish(Outcome(scanned=5, acted=4, detail={"truncated": False}))

    assert tell(database, run.over("success"))

    record, progress = only_record(connection, run.run_id), progress_of(connection, run.run_id)
    assert (record["outcome"], record["mode"], record["error"]) == ("ok", "live", None)
    assert (record["scanned"], record["acted"]) == (5, 4)
    assert (record["started_at"], record["finished_at"]) == (
        progress["started_at"],
        progress["finished_at"],
    )
    assert record["detail"] == {
        "window": {"covers": "everything"},
        "batches": 1,
        "truncated": False,
        "trigger": {"kind": "schedule", "name": "every quarter"},
        "ended": "success",
        "holder": "host 4711",
    }
    assert progress["closed_at"] is not None


def test_telling_it_again_changes_nothing(
    database: Database, connection: psycopg.Connection
) -> None:
    run = Run(database).open()
    run.finish(Outcome(scanned=1, acted=1))
    assert tell(database, run.over("success"))
    first = only_record(connection, run.run_id)
    endings: tuple[Ended, ...] = ("success", "failure", "canceled", "lost", "unseen")
    for ended in endings:
        assert not tell(database, run.over(ended))
    assert only_record(connection, run.run_id) == first


@pytest.mark.parametrize("opened", [True, False])
def test_four_mirrors_at_once_write_one_record_per_run(
    database: Database, connection: psycopg.Connection, opened: bool
) -> None:
    runs = [Run(database) for _ in range(8)]
    if opened:
        for run in runs:
            run.open()

    def work(_: int, barrier: threading.Barrier) -> int:
        with database.connect("mirror") as own:
            barrier.wait()
            return sum(mirror(database, own, run.over("failure")) for run in runs)

    assert sum(together(4, work)) == len(runs)
    assert sorted(row["run_id"] for row in records(connection)) == sorted(r.run_id for r in runs)


def test_control_without_the_row_lock_the_second_mirror_meets_a_violation(
    database_url: str, connection: psycopg.Connection
) -> None:
    careless = """
    INSERT INTO job_run (run_id, installation, job, started_at, outcome, mode)
    SELECT 'r', 'i', 'audit_seal', now(), 'ok', 'dry'
     WHERE NOT EXISTS (SELECT FROM job_run WHERE run_id = 'r')
    """
    violations: list[psycopg.Error] = []
    with psycopg.connect(database_url) as first, psycopg.connect(database_url) as second:
        first.execute(careless)

        def insert() -> None:
            try:
                second.execute(careless)
            except psycopg.errors.UniqueViolation as error:
                violations.append(error)

        thread = threading.Thread(target=insert)
        thread.start()
        pid = second.info.backend_pid
        wait_until(lambda: is_waiting(connection, pid), "the second waits")
        first.commit()
        thread.join()
        second.rollback()
    assert len(violations) == 1


def test_a_killed_run_keeps_the_numbers_it_had_committed(
    database: Database, connection: psycopg.Connection
) -> None:
    run = Run(database).open()
    run.advance(10, 7)
    tell(database, run.over("failure", error="worker died with exit code -9"))
    record = only_record(connection, run.run_id)
    assert (record["outcome"], record["scanned"], record["acted"]) == ("failed", 10, 7)
    assert record["error"] == ("The run ended without a final word: worker died with exit code -9")


def test_a_killed_run_that_had_decided_nothing_has_no_numbers(
    database: Database, connection: psycopg.Connection
) -> None:
    run = Run(database).open()
    tell(database, run.over("failure"))
    record = only_record(connection, run.run_id)
    assert (record["scanned"], record["acted"]) == (None, None)


@pytest.mark.parametrize("ended", ["failure", "canceled"])
def test_the_final_word_wins_over_what_the_scheduler_says(
    database: Database, connection: psycopg.Connection, ended: Ended
) -> None:
    run = Run(database).open()
    run.finish(Outcome(scanned=2, acted=2))
    tell(database, run.over(ended, error="the monitor lost sight of it"))
    record = only_record(connection, run.run_id)
    assert (record["outcome"], record["error"]) == ("ok", None)
    assert record["detail"]["ended"] == ended


def test_a_failed_final_word_wins_over_success(
    database: Database, connection: psycopg.Connection
) -> None:
    run = Run(database).open()
    run.finish(Outcome(scanned=2, acted=0, error="every item failed"))
    tell(database, run.over("success"))
    record = only_record(connection, run.run_id)
    assert (record["outcome"], record["error"]) == ("failed", "every item failed")


@pytest.mark.parametrize(
    ("opened", "ended", "error"),
    [
        (True, "canceled", "Cancelled while it worked."),
        (False, "canceled", "Cancelled before it started."),
        (True, "success", "Dagster reports success, but the run left no final word."),
        (False, "success", "Dagster reports success, but the run left no final word."),
        (False, "failure", "The run never started."),
        (True, "failure", "The run ended without a final word."),
    ],
)
def test_a_run_without_a_final_word_has_failed_and_says_why(
    database: Database,
    connection: psycopg.Connection,
    opened: bool,
    ended: Ended,
    error: str,
) -> None:
    run = Run(database)
    if opened:
        run.open()
    tell(database, run.over(ended))
    record = only_record(connection, run.run_id)
    assert (record["outcome"], record["error"]) == ("failed", error)


def test_a_run_that_is_heard_of_hours_later_ended_with_its_last_sign_of_life(
    database: Database, connection: psycopg.Connection
) -> None:
    run = Run(database).open()
    connection.execute(
        "UPDATE job_progress SET started_at = started_at - interval '5 hours',"
        " heartbeat_at = heartbeat_at - interval '4 hours'"
    )
    insert_record(connection, finished_at=ago(hours=1))
    assert tell(database, run.over("failure"))
    record = only_record(connection, run.run_id)
    assert record["finished_at"] == progress_of(connection, run.run_id)["heartbeat_at"]
    with connection.cursor() as cursor:
        [found] = [
            each
            for each in standings(cursor, INSTALLATION, [Expectation(JOB, True, "live")])
            if each.job == JOB
        ]
    assert (found.word, found.consecutive_failures) == ("ok", 0)


def test_the_record_of_a_run_that_never_started_keeps_the_day_that_it_was_for(
    database: Database, connection: psycopg.Connection
) -> None:
    run = Run(database)
    assert tell(database, run.over("canceled", day="2026-01-02"))
    record = only_record(connection, run.run_id)
    assert record["detail"]["window"] == {"covers": "2026-01-02"}
    assert record["error"].startswith("Cancelled before it started")


def test_a_run_that_never_started_is_dry_without_numbers_and_begins_at_its_creation(
    database: Database, connection: psycopg.Connection
) -> None:
    run = Run(database, mode="live")
    over = run.over("failure", error="the code location did not load", trigger=Trigger("sensor"))
    tell(database, over)
    record = only_record(connection, run.run_id)
    assert (record["mode"], record["scanned"], record["acted"]) == ("dry", None, None)
    assert (record["started_at"], record["finished_at"]) == (over.created_at, over.finished_at)
    assert record["error"] == "The run never started: the code location did not load"
    assert record["detail"]["never_started"] is True
    assert record["detail"]["trigger"] == {"kind": "sensor", "name": None}


def test_a_run_that_starts_after_its_record_was_written_is_sent_away(
    database: Database, connection: psycopg.Connection
) -> None:
    run = Run(database)
    tell(database, run.over("failure"))
    with pytest.raises(GivenUp, match="given up for dead"):
        run.open()
    assert len(records(connection)) == 1


def test_a_closed_row_stops_the_run_wherever_it_is(
    database: Database, connection: psycopg.Connection
) -> None:
    run = Run(database).open()
    run.advance(1, 1)
    tell(database, run.over("failure"))
    before = progress_of(connection, run.run_id)
    with pytest.raises(GivenUp):
        run.advance(2, 2)
    with pytest.raises(GivenUp):
        run.beat()
    with pytest.raises(GivenUp):
        run.finish(Outcome(scanned=2, acted=2))
    with (
        database.connect("run") as own,
        pytest.raises(GivenUp),
        database.transaction(own, read_only=True) as cursor,
    ):
        run.progress.must_be_open(cursor)
    assert progress_of(connection, run.run_id) == before


def test_finishing_twice_is_harmless_and_the_first_word_stands(
    database: Database, connection: psycopg.Connection
) -> None:
    run = Run(database).open()
    run.finish(Outcome(scanned=1, acted=1))
    run.finish(Outcome(error="a retry of the commit whose answer was lost"))
    tell(database, run.over("success"))
    run.finish(Outcome(scanned=9, acted=9))
    record = only_record(connection, run.run_id)
    assert (record["outcome"], record["scanned"]) == ("ok", 1)


def test_a_final_word_without_numbers_keeps_those_that_were_committed(
    database: Database, connection: psycopg.Connection
) -> None:
    run = Run(database).open()
    run.advance(4, 3, bytes_freed=12)
    run.finish(Outcome(error="interrupted"))
    tell(database, run.over("failure"))
    record = only_record(connection, run.run_id)
    assert (record["scanned"], record["acted"], record["detail"]["bytes_freed"]) == (4, 3, 12)


def test_a_batch_that_rolls_back_takes_its_numbers_along(
    database: Database, connection: psycopg.Connection
) -> None:
    run = Run(database).open()
    run.advance(1, 1)

    def batch() -> None:
        with database.connect("run") as own, database.transaction(own) as cursor:
            run.progress.advance(cursor, scanned=2, acted=2, detail={})
            cursor.execute("SELECT 1 / 0")

    with pytest.raises(psycopg.errors.DivisionByZero):
        batch()
    tell(database, run.over("failure"))
    assert only_record(connection, run.run_id)["scanned"] == 1


def test_a_run_of_which_the_scheduler_knows_nothing_counts_by_its_own_word(
    database: Database, connection: psycopg.Connection
) -> None:
    run = Run(database).open()
    assert not tell(database, run.over("unseen"))
    run.advance(1, 1)
    run.finish(Outcome(scanned=1, acted=1))
    assert look(database)[run.run_id].final
    assert tell(database, run.over("unseen", finished_at=None))
    record = only_record(connection, run.run_id)
    assert (record["outcome"], record["detail"]["ended"]) == ("ok", "unseen")


@pytest.mark.parametrize("ended", ["lost", "unseen"])
def test_a_run_without_a_row_can_be_neither_lost_nor_unseen(
    database: Database, connection: psycopg.Connection, ended: Ended
) -> None:
    run = Run(database)
    assert not tell(database, run.over(ended))
    run.open()
    assert records(connection) == []


# --- lost ----------------------------------------------------------------------------------------


def test_being_lost_needs_two_looks_that_far_apart(
    database: Database, connection: psycopg.Connection
) -> None:
    silence = timedelta(seconds=0.5)
    run = Run(database).open()
    run.advance(6, 5)
    assert not look(database, silence)[run.run_id].lost
    assert not look(database, silence)[run.run_id].lost
    threading.Event().wait(0.6)
    assert look(database, silence)[run.run_id].lost
    assert tell(database, run.over("lost", finished_at=None))
    record = only_record(connection, run.run_id)
    assert record["error"].startswith("Lost: the run holds no lock any more")
    assert (record["scanned"], record["acted"]) == (6, 5)
    assert record["finished_at"] == progress_of(connection, run.run_id)["heartbeat_at"]
    assert look(database, silence) == {}


def test_a_live_lock_prevents_it(database: Database, connection: psycopg.Connection) -> None:
    run = Run(database).open()
    lease = Lease(database, "run")
    lease.take(run_lock("public", run.run_id))
    for _ in range(3):
        assert not look(database)[run.run_id].lost
    assert not tell(database, run.over("lost"))
    assert progress_of(connection, run.run_id)["silent_since"] is None
    lease.release()


def test_a_heartbeat_in_between_begins_the_wait_anew(
    database: Database, connection: psycopg.Connection
) -> None:
    run = Run(database).open()
    look(database, DAYS)
    connection.execute("UPDATE job_progress SET silent_since = silent_since - interval '2 days'")
    run.beat()
    assert not look(database, DAYS)[run.run_id].lost
    assert not look(database, DAYS)[run.run_id].lost
    since = progress_of(connection, run.run_id)["silent_since"]
    assert since > progress_of(connection, run.run_id)["heartbeat_at"]


def test_a_sign_of_life_between_reading_the_list_and_looking_begins_the_wait_anew(
    database: Database, connection: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(database).open()
    look(database, DAYS)
    connection.execute(
        "UPDATE job_progress SET heartbeat_at = heartbeat_at - interval '3 days',"
        " silent_since = silent_since - interval '2 days'"
    )
    beats: list[str] = []

    def lock_of(schema: str, run_id: str) -> str:
        if not beats:
            beats.append(run_id)
            run.beat()
        return run_lock(schema, run_id)

    monkeypatch.setattr("filejobs_dagster.ledger.mirror.run_lock", lock_of)
    assert not look(database, DAYS)[run.run_id].lost
    assert beats == [run.run_id]


@pytest.mark.parametrize("sign", ["heartbeat", "lock", "final word", "progress"])
def test_a_run_that_came_back_between_look_and_record_is_not_recorded(
    database: Database, connection: psycopg.Connection, sign: str
) -> None:
    run = Run(database).open()
    lease = Lease(database, "run")
    look(database)
    assert look(database)[run.run_id].lost
    if sign == "heartbeat":
        run.beat()
    elif sign == "lock":
        lease.take(run_lock("public", run.run_id))
    elif sign == "progress":
        run.advance(1, 1)
    else:
        run.finish(Outcome(scanned=1, acted=1))
    assert not tell(database, run.over("lost"))
    assert records(connection) == []
    lease.release()
    if sign != "final word":
        run.finish(Outcome(scanned=1, acted=1))
    assert tell(database, run.over("success"))
    record = only_record(connection, run.run_id)
    assert (record["outcome"], record["detail"]["ended"]) == ("ok", "success")


def test_a_run_that_looks_lost_while_its_batch_commits_is_waited_for(
    database: Database, connection: psycopg.Connection
) -> None:
    run, written = Run(database).open(), list[bool]()
    look(database)
    assert look(database)[run.run_id].lost
    with database.connect("run") as own, database.connect("mirror") as other:
        with database.transaction(own) as cursor:
            run.progress.advance(cursor, scanned=8, acted=8, detail={})
            thread = threading.Thread(
                target=lambda: written.append(mirror(database, other, run.over("lost")))
            )
            thread.start()
            pid = other.info.backend_pid
            wait_until(lambda: is_waiting(connection, pid), "the mirror waits")
        thread.join()
    assert written == [False]
    assert records(connection) == []


def test_a_run_whose_session_was_ended_is_lost_unless_it_takes_its_lock_again(
    database: Database, connection: psycopg.Connection
) -> None:
    run = Run(database).open()
    lease = Lease(database, "run")
    lease.take(run_lock("public", run.run_id))
    assert lease._connection is not None
    terminate(connection, lease._connection.info.backend_pid)
    assert not look(database, DAYS)[run.run_id].lost
    assert progress_of(connection, run.run_id)["silent_since"] is not None
    lease.prove()
    run.beat()
    assert progress_of(connection, run.run_id)["silent_since"] is None
    lease.release()


def test_a_run_that_has_spoken_and_holds_no_lock_for_long_is_abandoned(
    database: Database,
) -> None:
    """Its process was killed between its final word and telling the scheduler."""
    run = Run(database).open()
    lease = Lease(database, "run")
    lease.take(run_lock("public", run.run_id))
    assert not look(database)[run.run_id].abandoned
    run.finish(Outcome(scanned=1, acted=1))
    assert not look(database)[run.run_id].abandoned
    lease.release()
    assert not look(database, DAYS)[run.run_id].abandoned
    wait_until(lambda: look(database)[run.run_id].abandoned, "its lock is free", seconds=5)
    found = look(database)[run.run_id]
    assert (found.final, found.lost) == (True, False)


def test_records_that_have_stood_for_long_are_told_from_new_ones(database: Database) -> None:
    old, working = Run(database).open(), Run(database).open()
    tell(database, old.over("failure"))
    with database.connect("mirror") as own:
        ids = [old.run_id, working.run_id, "unknown"]
        assert closed_for_long(database, own, ids, silence=AT_ONCE) == {old.run_id}
        assert closed_for_long(database, own, ids, silence=DAYS) == set()
        assert closed_for_long(database, own, []) == set()


def test_runs_of_another_installation_are_not_looked_at(
    database: Database, connection: psycopg.Connection
) -> None:
    run = Run(database).open()
    connection.execute("UPDATE job_progress SET installation = 'another'")
    assert run.run_id not in look(database)


def test_a_record_while_the_run_writes_its_batch_waits_for_the_batch(
    database: Database, connection: psycopg.Connection
) -> None:
    run = Run(database).open()
    with database.connect("run") as own, database.connect("mirror") as other:
        with database.transaction(own) as cursor:
            run.progress.advance(cursor, scanned=8, acted=8, detail={})
            thread = threading.Thread(target=lambda: mirror(database, other, run.over("failure")))
            thread.start()
            pid = other.info.backend_pid
            wait_until(lambda: is_waiting(connection, pid), "the mirror waits")
        thread.join()
    assert only_record(connection, run.run_id)["scanned"] == 8


# --- what a record may not hold ------------------------------------------------------------------


def test_secrets_reach_no_record(database: Database, connection: psycopg.Connection) -> None:
    url = "postgresql://app:hunter2hunter2@db/files"
    killed = Run(database).open()
    killed.advance(1, 0, samples={"bytes left": [f"files/a: {url}", "known: tr0ub4dor"]})
    tell(
        database,
        killed.over("failure", error=f"{url} and tr0ub4dor", known_secrets=("tr0ub4dor",)),
    )
    finished = Run(database).open()
    finished.finish(Outcome(error=f"could not open {url} with tr0ub4dor"))
    tell(database, finished.over("failure", known_secrets=("tr0ub4dor",)))
    assert len(records(connection)) == 2
    everything = str(records(connection))
    assert "hunter2" not in everything
    assert "tr0ub4dor" not in everything
    assert "files/a: postgresql://app:" in everything


@pytest.mark.parametrize("said_by", ["run", "scheduler"])
def test_what_text_cannot_hold_is_written_as_an_escape(
    database: Database, connection: psycopg.Connection, said_by: str
) -> None:
    run = Run(database).open()
    run.advance(1, 1, samples=["key\x00"], rate=float("nan"), nested={"a\x00": [{"b": "\ud800"}]})
    if said_by == "run":
        run.finish(Outcome(detail={"x": "\x00"}, error="broken\x00key"))
    tell(database, run.over("failure", error="broken\x00key"))
    record = only_record(connection, run.run_id)
    assert "broken\\x00key" in record["error"]
    assert record["detail"]["samples"] == ["key\\x00"]
    assert record["detail"]["rate"] == "nan"
    assert record["detail"]["nested"] == {"a\\x00": [{"b": "\\ud800"}]}


def test_an_endless_reason_is_bounded(database: Database, connection: psycopg.Connection) -> None:
    run = Run(database)
    tell(database, run.over("failure", error="x" * 1_000_000))
    assert len(only_record(connection, run.run_id)["error"]) <= 2000


def test_a_clock_that_is_ahead_makes_no_record_of_the_future(
    database: Database, connection: psycopg.Connection
) -> None:
    ahead = now() + timedelta(hours=3)
    runs = [Run(database), Run(database).open()]
    for run in runs:
        tell(database, run.over("failure", created_at=ahead, finished_at=ahead))
        record = only_record(connection, run.run_id)
        assert record["started_at"] <= record["finished_at"]
        assert record["finished_at"] < now() + timedelta(minutes=1)


def test_a_clock_that_is_behind_makes_no_run_that_ends_before_it_starts(
    database: Database, connection: psycopg.Connection
) -> None:
    run = Run(database).open()
    tell(database, run.over("failure", finished_at=ago(hours=1)))
    record = only_record(connection, run.run_id)
    assert record["finished_at"] == record["started_at"]


def test_a_job_that_nobody_knows_is_refused_and_leaves_nothing(
    database: Database, connection: psycopg.Connection
) -> None:
    run = Run(database, job="sweep")
    with pytest.raises(psycopg.errors.CheckViolation):
        tell(database, run.over("failure"))
    assert connection.execute("SELECT count(*) FROM job_progress").fetchone() == (0,)
