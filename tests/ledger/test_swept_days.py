"""Which days `job_run` calls swept."""

from __future__ import annotations

import uuid
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from psycopg.types.json import Jsonb

from filejobs_dagster.ledger.swept_days import (
    SweptDays,
    days_between,
    done_by_backfills,
    end_of,
    swept_days,
)

if TYPE_CHECKING:
    import psycopg

JOB = "upload_reservations"
FIRST = date(2026, 3, 1)
DAYS = days_between(FIRST, date(2026, 3, 4))
LATER = datetime(2026, 3, 9, 12, tzinfo=timezone.utc)


class Book:
    """Writes records as runs leave them."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self.connection = connection

    def record(
        self, *, day: date | None, cutoff: datetime | None = LATER, swept: bool = True,
        mode: str = "live", outcome: str = "ok", installation: str = "here", job: str = JOB,
        backfill: str | None = None, restore_window: timedelta | None = None,
        ended: datetime = LATER + timedelta(minutes=1),
    ) -> None:  # fmt: skip
        window: dict[str, Any] = {"covers": "everything"}
        if day is not None:
            window = {"covers": day.isoformat(), "to": end_of(day).isoformat()}
        detail: dict[str, Any] = {
            "window": window,
            "swept": swept,
            "trigger": {"kind": "backfill", "name": backfill},
            **({} if cutoff is None else {"cutoff": cutoff.isoformat()}),
        }
        if restore_window is not None:
            detail["restore_window_seconds"] = round(restore_window.total_seconds())
        self.connection.execute(
            "INSERT INTO job_run (run_id, installation, job, started_at, finished_at, outcome,"
            " mode, detail, error) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
            (
                str(uuid.uuid4()), installation, job, LATER, ended, outcome,
                mode, Jsonb(detail), None if outcome == "ok" else "it did not work",
            ),
        )  # fmt: skip

    def read(self) -> SweptDays:
        with self.connection.cursor() as cursor:
            return swept_days(cursor, "here", JOB, DAYS)

    def missing(self) -> list[date]:
        return list(self.read().missing(DAYS))


@pytest.fixture
def book(connection: psycopg.Connection) -> Book:
    return Book(connection)


def test_without_a_record_every_day_is_missing(book: Book) -> None:
    assert book.missing() == list(DAYS)


def test_a_day_is_swept_by_its_own_live_run_and_by_no_other(book: Book) -> None:
    book.record(day=DAYS[1])
    assert book.missing() == [DAYS[0], DAYS[2], DAYS[3]]


@pytest.mark.parametrize(
    "unlike",
    [
        {"mode": "dry"},
        {"outcome": "failed"},
        {"swept": False},
        {"installation": "elsewhere"},
        {"job": "deleted_files"},
        {"cutoff": None},
    ],
    ids=str,
)
@pytest.mark.parametrize("day", [DAYS[1], None], ids=["a day", "everything"])
def test_whatever_did_not_sweep_live_leaves_the_day_missing(
    book: Book, unlike: dict[str, Any], day: date | None
) -> None:
    book.record(day=day, **unlike)
    assert book.missing() == list(DAYS)


def test_one_late_run_over_everything_sweeps_all_days_that_had_ended(book: Book) -> None:
    book.record(day=None, cutoff=end_of(DAYS[2]) - timedelta(seconds=1))
    assert book.missing() == [DAYS[2], DAYS[3]]
    book.record(day=None, cutoff=end_of(DAYS[3]))
    assert book.missing() == []
    assert book.read().everything_until == end_of(DAYS[3])


def test_a_day_that_had_not_ended_at_the_cutoff_is_missing(book: Book) -> None:
    book.record(day=DAYS[3], cutoff=end_of(DAYS[3]) - timedelta(hours=1))
    assert DAYS[3] in book.missing()


def test_a_cutoff_in_the_time_of_deletions_is_counted_in_the_time_of_the_days(book: Book) -> None:
    month = timedelta(days=30)
    book.record(day=None, cutoff=end_of(DAYS[1]) - month, restore_window=month)
    assert book.missing() == [DAYS[2], DAYS[3]]
    book.record(day=DAYS[3], cutoff=end_of(DAYS[3]) - month, restore_window=month)
    assert book.missing() == [DAYS[2]]


def test_a_dry_day_is_done_for_its_own_backfill_only(book: Book) -> None:
    book.record(day=DAYS[0], mode="dry", backfill="abc", swept=False)
    book.record(day=DAYS[1], mode="dry", backfill="abc", outcome="failed")
    book.record(day=DAYS[2], mode="dry", backfill="other")
    with book.connection.cursor() as cursor:
        done = done_by_backfills(cursor, "here", JOB, DAYS, mode="dry", backfills=["abc"])
    assert done == {DAYS[0]}


def test_the_newest_run_over_everything_is_found_by_its_index(book: Book) -> None:
    book.connection.execute("SET enable_seqscan = off")
    plan = book.connection.execute(
        "EXPLAIN SELECT run_id FROM job_run WHERE installation = 'here' AND job = 'x'"
        " AND mode = 'live' AND outcome = 'ok' AND detail #>> '{window,covers}' = 'everything'"
        " AND detail ->> 'swept' = 'true' ORDER BY finished_at DESC, id DESC LIMIT 1"
    ).fetchall()
    assert "job_run_swept" in str(plan)


@pytest.mark.parametrize("cutoff", ["soon", "infinity", "2026-13-45T00:00:00Z", "99999-01-01"])
def test_a_record_whose_cutoff_cannot_be_read_hides_no_other(book: Book, cutoff: str) -> None:
    book.record(day=None)
    book.record(day=FIRST)
    book.connection.execute(
        "INSERT INTO job_run (run_id, installation, job, started_at, finished_at, outcome, mode,"
        " detail) SELECT 'odd' || id, installation, job, started_at,"
        " finished_at + interval '1 hour', outcome, mode, detail || jsonb_build_object('cutoff',"
        " %s::text) FROM job_run",
        (cutoff,),
    )

    assert book.missing() == []
    assert book.read().by_day == {FIRST}


def test_a_record_of_the_future_sweeps_no_day_that_is_still_to_come(book: Book) -> None:
    ahead = datetime.now(timezone.utc) + timedelta(days=365)
    for day in (None, DAYS[2]):
        book.record(day=day, cutoff=ahead, ended=ahead)
    assert book.missing() == list(DAYS)
    book.record(day=None, cutoff=end_of(DAYS[0]))
    assert book.missing() == list(DAYS[1:]), "the newest of those that are believed counts"
