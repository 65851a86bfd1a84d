"""The limits, on a real PostgreSQL."""

from __future__ import annotations

import threading
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.trigger.starting import Limits, Start, StartBook, one_at_a_time

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

LIMITS = Limits(starts_per_hour=5, live_per_minute=3)
CRON = Start("here", "upload_reservations", "cron", asked_live=False)
LIVE = Start("here", "upload_reservations", "operator", asked_live=True)


@pytest.fixture
def database(database_url: str) -> Database:
    return Database(database_url)


def attempt(database: Database, start: Start, limits: Limits = LIMITS) -> int:
    """One start; the seconds to wait, 0 when it was made."""
    with one_at_a_time(database, start.installation) as book:
        wait = book.seconds_to_wait(start, limits)
        if not wait:
            book.enter(start, str(uuid.uuid4()))
    return wait


def age(connection: psycopg.Connection, by: timedelta) -> None:
    connection.execute("UPDATE http_start SET started_at = started_at - %s", (by,))


def test_the_sixth_start_of_a_job_within_an_hour_is_told_how_long_to_wait(
    database: Database, connection: psycopg.Connection
) -> None:
    assert [attempt(database, CRON) for _ in range(5)] == [0] * 5
    age(connection, timedelta(minutes=50))
    wait = attempt(database, CRON)
    assert 590 <= wait <= 600
    assert attempt(database, Start("here", "storage_orphans", "cron", asked_live=False)) == 0
    assert attempt(database, Start("there", "upload_reservations", "cron", asked_live=False)) == 0
    age(connection, timedelta(minutes=10))
    assert attempt(database, CRON) == 0


def test_live_runs_asked_for_by_one_token_are_limited_over_all_jobs(
    database: Database, connection: psycopg.Connection
) -> None:
    jobs = ("upload_reservations", "storage_orphans", "audit_seal")
    for job in jobs:
        assert attempt(database, Start("here", job, "operator", asked_live=True)) == 0
    assert 1 <= attempt(database, LIVE) <= 60
    assert attempt(database, CRON) == 0, "what nobody asked to be live is not counted there"
    assert attempt(database, Start("here", "audit_trim", "other", asked_live=True)) == 0
    age(connection, timedelta(seconds=61))
    assert attempt(database, LIVE) == 0


def test_a_lower_limit_counts_what_was_started_under_a_higher_one(database: Database) -> None:
    for _ in range(5):
        attempt(database, CRON)
    assert attempt(database, CRON, Limits(2, 3)) > 3500


def test_starts_of_yesterday_are_forgotten(
    database: Database, connection: psycopg.Connection
) -> None:
    attempt(database, CRON)
    age(connection, timedelta(days=2))
    attempt(database, CRON)
    row = connection.execute("SELECT count(*) FROM http_start").fetchone()
    assert row == (1,)


def test_a_start_that_fails_is_not_counted(database: Database) -> None:
    def fail() -> None:
        with one_at_a_time(database, "here") as book:
            book.enter(CRON, "one")
            raise RuntimeError("Dagster refused")

    for _ in range(6):
        with pytest.raises(RuntimeError):
            fail()
    assert attempt(database, CRON) == 0


def race(attempts: Callable[[threading.Barrier], int], number: int) -> int:
    """How many of so many attempts at once were let through."""
    barrier = threading.Barrier(number)
    passed: list[int] = []
    threads = [
        threading.Thread(target=lambda: passed.append(attempts(barrier))) for _ in range(number)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(passed) == number
    return passed.count(0)


def test_of_ten_processes_at_once_as_many_start_as_the_limit_says(database: Database) -> None:
    def careful(barrier: threading.Barrier) -> int:
        barrier.wait(20)
        return attempt(database, CRON)

    assert race(careful, 10) == 5


def test_control_without_the_lock_more_start_than_the_limit_says(database: Database) -> None:
    def careless(barrier: threading.Barrier) -> int:
        with (
            database.connect("careless") as connection,
            database.transaction(connection) as cursor,
        ):
            book = StartBook(cursor)
            wait = book.seconds_to_wait(CRON, LIMITS)
            barrier.wait(20)
            if not wait:
                book.enter(CRON, str(uuid.uuid4()))
            return wait

    assert race(careless, 10) == 10
