"""The life of one run: whatever happens in between, its final word is written or both are told."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta, timezone
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from filejobs_dagster.embedded.postgres import EmbeddedPostgres
from filejobs_dagster.jobs.lifecycle import (
    AtWorkElsewhere,
    Intervals,
    NotRecorded,
    RunSpec,
    run_job,
)
from filejobs_dagster.ledger.mirror import FinishedRun, mirror, open_runs
from filejobs_dagster.ledger.outcome import Mode, Outcome, Trigger, Window
from filejobs_dagster.ledger.progress import GivenUp, RunIdentity
from filejobs_dagster.postgres.connect import Database, DatabaseUnavailable
from filejobs_dagster.postgres.locks import (
    exclusive_lock,
    is_held,
    lock_number,
    run_lock,
)
from filejobs_dagster.postgres.migrate import migrate
from filejobs_dagster.run_context import JobFailed, RunContext
from tests.ledger.records import INSTALLATION, JOB, ago, now, only_record, progress_of
from tests.postgres.backends import is_connected, terminate, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOG = logging.getLogger("lifecycle")
QUICK = Intervals(heartbeat=timedelta(seconds=0.1), final_word=timedelta(seconds=1))
SILENT = Intervals(heartbeat=timedelta(hours=1), final_word=timedelta(seconds=20))
PATIENT = Intervals(heartbeat=timedelta(seconds=0.1), final_word=timedelta(seconds=60))


class Interrupted(BaseException):
    """What a scheduler raises in a run that somebody cancelled."""


@pytest.fixture
def database(database_url: str) -> Database:
    return Database(database_url)


@pytest.fixture
def own_server() -> Iterator[EmbeddedPostgres]:
    """A migrated server of the test's own that keeps what was committed when it is killed."""
    with EmbeddedPostgres.start(durable=True) as server:
        migrate(server.url())
        yield server


def run_spec(
    mode: Mode = "live",
    *,
    run_id: str | None = None,
    pace: Intervals = QUICK,
    holder: str = "host 1",
) -> RunSpec:
    identity = RunIdentity(
        run_id=run_id or str(uuid.uuid4()),
        installation=INSTALLATION,
        job=JOB,
        mode=mode,
        trigger=Trigger("cli"),
        holder=holder,
    )
    return RunSpec(identity, pace=pace)


def run(
    database: Database, body: Callable[[RunContext], Outcome], given: RunSpec | None = None
) -> Outcome:
    return run_job(given or run_spec(), database, body, LOG, door=None)


def commit(context: RunContext, scanned: int, acted: int, **detail: Any) -> None:
    """One batch."""
    with context.database.transaction(context.connection) as cursor:
        context.progress.advance(cursor, scanned=scanned, acted=acted, detail=detail)


def tell(database: Database, given: RunSpec, ended: Any = "failure", **facts: Any) -> bool:
    """What a mirror does when the scheduler says that the run is over."""
    identity = given.identity
    over = FinishedRun(
        run_id=identity.run_id,
        installation=identity.installation,
        job=identity.job,
        ended=ended,
        trigger=identity.trigger,
        created_at=ago(minutes=1),
        finished_at=now(),
        **facts,
    )
    with database.connect("mirror") as connection:
        return mirror(database, connection, over)


def held(connection: psycopg.Connection, name: str) -> bool:
    with connection.cursor() as cursor:
        return is_held(cursor, name)


def lock_of(given: RunSpec) -> str:
    return run_lock("public", given.identity.run_id)


EXCLUSIVE = exclusive_lock("public", JOB)


def nothing(context: RunContext) -> Outcome:
    return Outcome(scanned=0, acted=0)


@contextmanager
def at_work(
    database: Database, given: RunSpec, body: Callable[[RunContext], Outcome] | None = None
) -> Iterator[Callable[[], Outcome]]:
    """A run at work in a thread; what is yielded lets it end, and returns its outcome."""
    begun, go_on = threading.Event(), threading.Event()

    def wait(context: RunContext) -> Outcome:
        begun.set()
        assert go_on.wait(60)
        return Outcome(scanned=1, acted=1) if body is None else body(context)

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(run, database, wait, given)
        assert begun.wait(30)

        def end() -> Outcome:
            go_on.set()
            return future.result(60)

        try:
            yield end
        finally:
            go_on.set()


# --- how it ends ---------------------------------------------------------------------------------


def test_a_run_that_works_leaves_its_word_and_nothing_else(
    database: Database, connection: psycopg.Connection
) -> None:
    given = run_spec()

    def body(context: RunContext) -> Outcome:
        assert context.live
        assert held(connection, lock_of(given))
        assert held(connection, EXCLUSIVE)
        context.prove_alive()
        commit(context, 2, 1, batches=1)
        return Outcome(scanned=3, acted=2, detail={"truncated": False})

    outcome = run(database, body, given)

    assert outcome.ok
    assert (outcome.scanned, outcome.acted) == (3, 2)
    assert outcome.detail["truncated"] is False
    row = progress_of(connection, given.identity.run_id)
    assert (row["outcome"], row["scanned"], row["acted"]) == ("ok", 3, 2)
    assert row["detail"] == outcome.detail
    assert row["closed_at"] is None
    wait_until(lambda: not held(connection, EXCLUSIVE), "the locks are free", seconds=5)
    assert not held(connection, lock_of(given))
    assert tell(database, given, "success")
    assert not [one for one in threading.enumerate() if one.name == "filejobs-heartbeat"]
    others = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'filejobs/%%'"
    mine = others + " AND datname = current_database()"
    wait_until(lambda: connection.execute(mine).fetchone() == (0,), "no session is left")


def test_window_and_reason_of_the_mode_are_recorded(
    database: Database, connection: psycopg.Connection
) -> None:
    day = Window(ago(days=2), ago(days=1), "2026-01-02")
    given = replace(run_spec("dry"), window=day, mode_reason="live was asked, but")
    run(database, nothing, given)
    tell(database, given, "success")
    detail = only_record(connection, given.identity.run_id)["detail"]
    assert detail["window"] == day.as_detail()
    assert detail["mode_reason"] == "live was asked, but"


def test_an_exception_becomes_a_failed_word_with_the_numbers_committed_so_far(
    database: Database, connection: psycopg.Connection
) -> None:
    given = run_spec()

    def body(context: RunContext) -> Outcome:
        commit(context, 7, 5, bytes_freed=99)
        with context.database.transaction(context.connection) as cursor:
            context.progress.advance(cursor, scanned=8, acted=6, detail={})
            cursor.execute("SELECT 1 / 0")
        raise AssertionError

    outcome = run(database, body, given)

    assert outcome.error == "DivisionByZero: division by zero"
    assert (outcome.scanned, outcome.acted, outcome.detail["bytes_freed"]) == (7, 5, 99)
    tell(database, given)
    record = only_record(connection, given.identity.run_id)
    assert (record["outcome"], record["scanned"], record["acted"]) == ("failed", 7, 5)
    assert record["error"] == outcome.error


def test_a_job_says_in_its_own_words_why_it_failed(database: Database) -> None:
    def body(context: RunContext) -> Outcome:
        raise JobFailed("Storage rejected batch 3.") from ValueError("not shown")

    outcome = run(database, body)
    assert outcome.error == "Storage rejected batch 3."
    assert (outcome.scanned, outcome.acted) == (None, None)


def test_a_job_that_returns_a_failure_has_failed(
    database: Database, connection: psycopg.Connection
) -> None:
    given = run_spec()
    outcome = run(database, lambda _: Outcome(scanned=4, acted=0, error="every item failed"), given)
    assert not outcome.ok
    row = progress_of(connection, given.identity.run_id)
    assert (row["outcome"], row["error"], row["acted"]) == ("failed", "every item failed", 0)


def test_secrets_and_nul_reach_neither_the_row_nor_the_outcome_nor_the_log(
    database: Database, connection: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "postgresql://app:hunter2hunter2@db/files"
    bodies: list[Callable[[RunContext], Outcome]] = [
        lambda _: Outcome(
            error=f"a\x00b {secret} tr0ub4dor", detail={"why": [secret, "tr0ub4dor"]}
        ),
        lambda _: _raise(JobFailed(f"a\x00b {secret} tr0ub4dor")),
        lambda _: _raise(ValueError(f"a\x00b {secret} tr0ub4dor")),
    ]
    for body in bodies:
        given = replace(run_spec(), known_secrets=("tr0ub4dor",))
        with caplog.at_level(logging.DEBUG):
            outcome = run(database, body, given)
        row = progress_of(connection, given.identity.run_id)
        assert "a\\x00b" in (outcome.error or "")
        assert row["error"] == outcome.error
        for piece in ("hunter2", "tr0ub4dor"):
            assert piece not in f"{outcome} {row} {caplog.text}"


def _raise(error: Exception) -> Outcome:
    raise error


def test_no_database_at_the_start_is_told_and_nothing_is_done() -> None:
    called: list[RunContext] = []
    away = Database("postgresql://app:hunter2@127.0.0.1:1/files")
    with pytest.raises(DatabaseUnavailable, match=r"127\.0\.0\.1:1/files"):
        run(away, lambda context: called.append(context) or Outcome())  # type: ignore[func-returns-value]
    assert called == []


# --- interrupts ----------------------------------------------------------------------------------


@contextmanager
def interrupting(when: Callable[[], bool]) -> Iterator[None]:
    """Raise `Interrupted` in the main thread as soon as the condition holds."""

    def handler(*_: object) -> None:
        raise Interrupted

    def watch() -> None:
        wait_until(when, "the run can be interrupted")
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handler)
    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        thread.join()
        signal.signal(signal.SIGUSR1, before)


def asleep(connection: psycopg.Connection) -> bool:
    query = (
        "SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"
    )
    return connection.execute(query).fetchone() is not None


def test_an_interrupt_is_recorded_ends_the_statement_and_goes_on_its_way(
    database: Database, connection: psycopg.Connection
) -> None:
    given, pids = run_spec(), list[int]()

    def body(context: RunContext) -> Outcome:
        commit(context, 3, 2)
        pids.append(context.connection.info.backend_pid)
        with context.database.transaction(context.connection, unlimited=True) as cursor:
            # The row that the final word needs is locked by the statement that goes on.
            context.progress.advance(cursor, scanned=9, acted=9, detail={})
            cursor.execute("SELECT pg_sleep(120)")
        raise AssertionError

    with interrupting(lambda: asleep(connection)), pytest.raises(Interrupted):
        run(database, body, given)

    wait_until(lambda: not is_connected(connection, pids[0]), "the statement ended", seconds=10)
    assert not held(connection, EXCLUSIVE)
    tell(database, given, "canceled")
    record = only_record(connection, given.identity.run_id)
    assert record["error"] == "Cancelled while it worked."
    assert (record["scanned"], record["acted"]) == (3, 2)


def test_an_interrupt_of_a_run_that_was_given_up_stays_an_interrupt(
    database: Database, connection: psycopg.Connection
) -> None:
    given = run_spec(pace=SILENT)

    def body(context: RunContext) -> Outcome:
        tell(database, given, "canceled")
        raise Interrupted

    with pytest.raises(Interrupted):
        run(database, body, given)
    assert only_record(connection, given.identity.run_id)["error"] == "Cancelled while it worked."


# --- one live run per job ------------------------------------------------------------------------


def test_a_second_live_run_fails_at_once_and_says_who_works(
    database: Database, connection: psycopg.Connection
) -> None:
    first, second = run_spec(holder="alice on host 1"), run_spec(holder="bob on host 2")
    called: list[RunContext] = []
    with at_work(database, first) as end:
        outcome = run(
            database,
            lambda context: called.append(context) or Outcome(),  # type: ignore[func-returns-value]
            second,
        )
        started = progress_of(connection, first.identity.run_id)["started_at"]
        assert end().ok
    assert called == []
    assert outcome.error is not None
    assert f"run {first.identity.run_id} by alice on host 1 (cli)" in outcome.error
    assert f"since {started.isoformat(timespec='seconds')}" in outcome.error
    tell(database, second)
    record = only_record(connection, second.identity.run_id)
    assert (record["outcome"], record["mode"]) == ("failed", "live")
    assert (record["scanned"], record["acted"]) == (None, None)
    assert record["error"] == outcome.error


def test_the_holder_is_named_although_others_died_or_are_refused_at_the_moment(
    database: Database, connection: psycopg.Connection
) -> None:
    insert = (
        "INSERT INTO job_progress (run_id, installation, job, mode, trigger, holder, started_at)"
        " VALUES (%s, %s, %s, 'live', 'ui', 'not me', clock_timestamp() + %s)"
    )
    first = run_spec(holder="alice")
    with at_work(database, first) as end, psycopg.connect(database.url) as refused:
        for number, offset in enumerate((timedelta(hours=-1), timedelta(hours=1))):
            connection.execute(insert, (f"dead {number}", INSTALLATION, JOB, offset))
        connection.execute(insert, ("refused", INSTALLATION, JOB, timedelta(hours=2)))
        refused.execute(
            "SELECT pg_advisory_xact_lock(%s)", (lock_number(run_lock("public", "refused")),)
        )
        error = run(database, nothing).error
        end()
    assert error is not None
    assert "by alice (cli)" in error
    assert "not me" not in error


def test_a_holder_that_nobody_knows_is_admitted(database: Database) -> None:
    with psycopg.connect(database.url) as stranger:
        stranger.execute("SELECT pg_advisory_xact_lock(%s)", (lock_number(EXCLUSIVE),))
        error = run(database, nothing).error
    assert error is not None
    assert "its progress row is not to be seen" in error


def test_dry_runs_work_beside_a_live_one_and_beside_each_other(database: Database) -> None:
    with at_work(database, run_spec("live")) as live, at_work(database, run_spec("dry")) as dry:
        assert run(database, nothing, run_spec("dry")).ok
        assert live().ok
        assert dry().ok


def test_the_same_run_twice_at_once_is_refused(
    database: Database, connection: psycopg.Connection
) -> None:
    given = run_spec(holder="alice")
    second = replace(given, identity=replace(given.identity, holder="bob"))
    run_id = given.identity.run_id
    with at_work(database, given) as end:
        with pytest.raises(AtWorkElsewhere) as refused:
            run(database, nothing, second)
        began = progress_of(connection, run_id)["started_at"].astimezone(timezone.utc)
        assert end().ok
    said = f"run {run_id} by alice (cli) works since {began.isoformat(timespec='seconds')}"
    assert said in str(refused.value)
    row = progress_of(connection, run_id)
    assert (row["outcome"], row["holder"]) == ("ok", "alice")


def test_a_run_whose_lock_a_stranger_holds_is_refused_without_a_name(
    database: Database, connection: psycopg.Connection
) -> None:
    given = run_spec()
    name = run_lock("public", given.identity.run_id)
    connection.execute("SELECT pg_advisory_lock(%s)", (lock_number(name),))
    with pytest.raises(AtWorkElsewhere, match="its progress row is not to be seen"):
        run(database, nothing, given)
    connection.execute("SELECT pg_advisory_unlock(%s)", (lock_number(name),))


PROGRAM = """
import logging, sys
from filejobs_dagster.jobs.lifecycle import RunSpec, run_job
from filejobs_dagster.ledger.outcome import Outcome
from filejobs_dagster.ledger.progress import RunIdentity
from filejobs_dagster.ledger.outcome import Trigger
from filejobs_dagster.postgres.connect import Database

url, run_id, installation, job = sys.argv[1:]

def body(context):
    with context.database.transaction(context.connection) as cursor:
        context.progress.advance(cursor, scanned=5, acted=4, detail={})
    print("working", flush=True)
    sys.stdin.readline()
    return Outcome(scanned=6, acted=6)

identity = RunIdentity(run_id, installation, job, "live", Trigger("cli"), "a process")
print("ready", flush=True)
sys.stdin.readline()
outcome = run_job(RunSpec(identity), Database(url), body, logging.getLogger(), door=None)
print(outcome.error or "done", flush=True)
"""


@contextmanager
def processes(database: Database, *run_ids: str) -> Iterator[list[subprocess.Popen[str]]]:
    """Runs in processes of their own; each waits for a line to start and for one to end."""
    children = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, database.url, run_id, INSTALLATION, JOB],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for run_id in run_ids
    ]
    try:
        for child in children:
            assert heard(child) == "ready"
        yield children
    finally:
        for child in children:
            child.kill()
            child.communicate()


def heard(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def say(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    child.stdin.write("\n")
    child.stdin.flush()


def test_of_two_live_processes_at_once_exactly_one_works(database: Database) -> None:
    with processes(database, "run a", "run b") as children:
        for child in children:
            say(child)
        first = {heard(child): child for child in children}
        worker = first.pop("working")
        ((refusal, _),) = first.items()
        assert "by a process (cli) works since" in refusal
        say(worker)
        assert heard(worker) == "done"


def test_a_killed_process_frees_its_locks_at_once_and_the_next_run_works(
    database: Database, connection: psycopg.Connection
) -> None:
    given = run_spec()
    with processes(database, given.identity.run_id) as (child,):
        say(child)
        assert heard(child) == "working"
        assert held(connection, EXCLUSIVE)
        child.send_signal(signal.SIGKILL)
        child.wait()
        wait_until(lambda: not held(connection, EXCLUSIVE), "the lock is free", seconds=5)
    assert run(database, nothing).ok
    with database.connect("mirror") as mirroring:
        for _ in range(2):
            found = open_runs(database, mirroring, INSTALLATION, silence=timedelta(0))
    assert {one.run_id for one in found if one.lost} == {given.identity.run_id}
    assert tell(database, given, "lost")
    record = only_record(connection, given.identity.run_id)
    assert (record["outcome"], record["scanned"], record["acted"]) == ("failed", 5, 4)


# --- given up ------------------------------------------------------------------------------------


def test_a_run_whose_record_stands_already_does_nothing(
    database: Database, connection: psycopg.Connection
) -> None:
    given, called = run_spec(), list[RunContext]()
    tell(database, given, "failure")
    with pytest.raises(GivenUp):
        run(
            database,
            lambda context: called.append(context) or Outcome(),  # type: ignore[func-returns-value]
            given,
        )
    assert called == []
    assert not held(connection, EXCLUSIVE)


def test_a_run_that_is_given_up_while_it_works_can_destroy_nothing_more(
    database: Database, connection: psycopg.Connection
) -> None:
    given, destroyed = run_spec(), list[str]()

    def body(context: RunContext) -> Outcome:
        commit(context, 1, 1)
        tell(database, given, "failure", error="the monitor lost sight of it")
        context.prove_alive()
        destroyed.append("bytes")
        return Outcome()

    with pytest.raises(GivenUp):
        run(database, body, given)
    assert destroyed == []
    record = only_record(connection, given.identity.run_id)
    assert (record["scanned"], record["outcome"]) == (1, "failed")


def test_a_run_whose_lock_was_taken_by_another_stops_before_it_destroys(
    database: Database, connection: psycopg.Connection
) -> None:
    given, destroyed = run_spec(pace=SILENT), list[str]()

    def body(context: RunContext) -> Outcome:
        assert context.lease._connection is not None
        terminate(connection, context.lease._connection.info.backend_pid)
        with psycopg.connect(database.url) as thief:
            thief.execute("SELECT pg_advisory_xact_lock(%s)", (lock_number(EXCLUSIVE),))
            context.prove_alive()
            destroyed.append("bytes")
        return Outcome()

    outcome = run(database, body, given)
    assert destroyed == []
    assert outcome.error is not None
    assert outcome.error.startswith("LeaseLost: ")


# --- the database goes away ----------------------------------------------------------------------


def test_a_run_shows_signs_of_life_beside_a_job_that_says_nothing(
    database: Database, connection: psycopg.Connection
) -> None:
    given = run_spec()

    def heartbeat() -> Any:
        return progress_of(connection, given.identity.run_id)["heartbeat_at"]

    with at_work(database, given) as end:
        first = heartbeat()
        wait_until(lambda: heartbeat() > first, "the heart beats")
        assert end().ok


@pytest.mark.parametrize(
    ("error", "beginning"),
    [
        (None, "The job succeeded\nAND "),
        ("every item failed", "The job failed: every item failed\n"),
    ],
)
def test_a_word_that_cannot_be_written_is_told_together_with_the_outcome(
    own_server: EmbeddedPostgres, error: str | None, beginning: str
) -> None:
    def body(context: RunContext) -> Outcome:
        own_server.kill()
        return Outcome(scanned=1, acted=1, error=error)

    with pytest.raises(NotRecorded) as both:
        run(Database(own_server.url()), body, run_spec())
    assert str(both.value).startswith(beginning)
    assert "AND its final word could not be recorded: DatabaseUnavailable" in str(both.value)


def test_an_exception_that_cannot_be_recorded_is_told_too(own_server: EmbeddedPostgres) -> None:
    def body(context: RunContext) -> Outcome:
        own_server.kill()
        raise JobFailed("Storage rejected batch 3.")

    with pytest.raises(NotRecorded, match=r"The job failed: Storage rejected batch 3\.\nAND "):
        run(Database(own_server.url()), body, run_spec())


@pytest.mark.parametrize("fails", [True, False])
def test_the_final_word_waits_for_a_database_that_comes_back_and_keeps_the_numbers(
    own_server: EmbeddedPostgres, fails: bool
) -> None:
    given = run_spec(pace=PATIENT)
    back = threading.Timer(1, own_server.restart)

    def body(context: RunContext) -> Outcome:
        commit(context, 5, 4)
        own_server.kill()
        back.start()
        if fails:
            raise JobFailed("Storage rejected batch 3.")
        return Outcome(scanned=5, acted=5)

    outcome = run(Database(own_server.url()), body, given)
    back.join()
    assert (outcome.scanned, outcome.acted) == (5, 4 if fails else 5)
    with psycopg.connect(own_server.url(), autocommit=True) as connection:
        row = progress_of(connection, given.identity.run_id)
    assert (row["scanned"], row["acted"]) == (5, 4 if fails else 5)
    assert row["outcome"] == ("failed" if fails else "ok")


@pytest.mark.parametrize("pace", [PATIENT, SILENT], ids=["heartbeat", "CONTROL without heartbeat"])
def test_a_run_outlives_a_restart_of_the_database_and_is_not_called_lost(
    own_server: EmbeddedPostgres, pace: Intervals
) -> None:
    database = Database(own_server.url())
    given, silence = run_spec(pace=pace), timedelta(seconds=2)
    ever_lost = False
    with at_work(database, given) as end:
        own_server.kill()
        own_server.restart()
        with database.connect("mirror") as connection:
            for _ in range(15):
                (found,) = open_runs(database, connection, INSTALLATION, silence=silence)
                ever_lost = ever_lost or found.lost
                threading.Event().wait(0.25)
            assert held(connection, lock_of(given)) is (pace is PATIENT)
        outcome = end()
    assert outcome.ok
    assert ever_lost is (pace is SILENT)
    assert tell(database, given, "success")
    with psycopg.connect(own_server.url(), autocommit=True) as own:
        assert only_record(own, given.identity.run_id)["outcome"] == "ok"
