from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from filejobs_dagster.ledger.runs import _NEWEST, newest_runs
from filejobs_dagster.registry import JOB_NAMES

HOUR = timedelta(hours=1)


def record(connection: psycopg.Connection, run_id: str, ago: timedelta, **changes: Any) -> None:
    row = {
        "run_id": run_id,
        "installation": "acme",
        "job": "upload_reservations",
        "ago": ago,
        "outcome": "ok",
        "mode": "live",
        "scanned": 3,
        "acted": 2,
        "detail": Jsonb({}),
        "error": None,
        **changes,
    }
    connection.execute(
        """
        INSERT INTO job_run (run_id, installation, job, started_at, finished_at, outcome, mode,
                             scanned, acted, detail, error)
        VALUES (%(run_id)s, %(installation)s, %(job)s, now() - %(ago)s - interval '1 minute',
                now() - %(ago)s, %(outcome)s, %(mode)s, %(scanned)s, %(acted)s, %(detail)s,
                %(error)s)
        """,
        row,
    )


def ids(connection: psycopg.Connection, **asked: Any) -> list[str]:
    with connection.cursor() as cursor:
        found = newest_runs(cursor, "acme", **{"limit": 20, **asked})
    return [run.run_id for run in found]


def test_a_run_that_was_recorded_late_stands_where_it_ended(
    connection: psycopg.Connection,
) -> None:
    record(connection, "new", HOUR)
    record(connection, "old but recorded later", 3 * HOUR)
    record(connection, "middle", 2 * HOUR, job="storage_orphans")
    assert ids(connection) == ["new", "middle", "old but recorded later"]


def test_the_limit_takes_the_newest_of_all_jobs(connection: psycopg.Connection) -> None:
    for hour in range(1, 6):
        record(connection, f"a{hour}", hour * HOUR)
        record(connection, f"b{hour}", hour * HOUR + HOUR / 2, job="audit_seal")
    assert ids(connection, limit=3) == ["a1", "b1", "a2"]


def test_runs_that_end_in_the_same_instant_have_one_order(connection: psycopg.Connection) -> None:
    connection.execute("BEGIN")
    for name in ("first", "second", "third"):
        record(connection, name, HOUR)
    connection.execute("COMMIT")
    assert ids(connection) == ["third", "second", "first"]


def test_another_installation_is_never_shown(connection: psycopg.Connection) -> None:
    record(connection, "theirs", HOUR, installation="other")
    assert ids(connection) == []


def test_the_conditions_hold_together(connection: psycopg.Connection) -> None:
    record(connection, "asked", HOUR, outcome="failed", error="no", mode="dry")
    record(connection, "live", HOUR, outcome="failed", error="no")
    record(connection, "fine", HOUR, mode="dry")
    record(connection, "long ago", 30 * HOUR, outcome="failed", error="no", mode="dry")
    record(
        connection, "other job", HOUR, outcome="failed", error="no", mode="dry", job="audit_seal"
    )
    asked = {"job": "upload_reservations", "failed": True, "mode": "dry", "since": 24 * HOUR}
    assert ids(connection, **asked) == ["asked"]


def test_what_is_not_known_stays_none(connection: psycopg.Connection) -> None:
    record(connection, "r", HOUR, scanned=None, acted=None, outcome="failed", error="no")
    with connection.cursor() as cursor:
        (run,) = newest_runs(cursor, "acme", limit=1)
    assert (run.scanned, run.acted) == (None, None)
    assert (run.window, run.trigger, run.truncated, run.stopped_reason) == (None,) * 4
    assert run.took == timedelta(minutes=1)


def test_each_job_is_one_look_into_the_index(connection: psycopg.Connection) -> None:
    connection.execute(
        """
        INSERT INTO job_run (run_id, installation, job, started_at, finished_at, outcome, mode)
        SELECT 'run ' || n, 'acme', 'upload_reservations', now() - n * interval '1 minute',
               now() - n * interval '1 minute', 'ok', 'live'
          FROM generate_series(1, 20000) AS n
        """
    )
    connection.execute("ANALYZE job_run")
    asked = {
        "jobs": list(JOB_NAMES),
        "installation": "acme",
        "mode": None,
        "failed": False,
        "since": None,
        "limit": 5,
    }
    with psycopg.ClientCursor(connection) as cursor:
        cursor.execute(f"EXPLAIN (COSTS OFF) {_NEWEST}", asked)
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "Index Scan using job_run_standing" in plan
    assert "Seq Scan on job_run" not in plan


@pytest.mark.parametrize("count", [0, 1])
def test_a_limit_of_one_gives_at_most_one(connection: psycopg.Connection, count: int) -> None:
    for number in range(count * 3):
        record(connection, str(number), HOUR)
    assert len(ids(connection, limit=1)) == count
