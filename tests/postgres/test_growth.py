"""What grows for ever has an end: the statements of the page, and what refuses careless ones."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
import pytest
import yaml

from filejobs_dagster.postgres.inventory import changes
from tests.uploads.rows import STATES, in_state

CHECKOUT = Path(__file__).parents[2]
PAGE = (CHECKOUT / "docs" / "run_history.md").read_text(encoding="utf-8")

RUNS = """
INSERT INTO job_run (run_id, installation, job, started_at, finished_at, outcome, mode, error)
SELECT job || outcome || n, 'test', job, now() - n * interval '1 year',
       now() - n * interval '1 year', outcome, 'live', CASE outcome WHEN 'failed' THEN 'it did' END
  FROM unnest(ARRAY['storage_orphans', 'audit_seal']) AS job,
       unnest(ARRAY['ok', 'failed']) AS outcome, generate_series(1, 6) AS n
 WHERE job <> 'audit_seal' OR n > 4
 ORDER BY n DESC
"""


def count(connection: psycopg.Connection, what: str) -> int:
    row = connection.execute(f"SELECT count(*) FROM {what}").fetchone()
    assert row is not None
    return int(row[0])


def test_the_owner_cuts_the_record_of_runs_and_it_is_append_only_again(
    connection: psycopg.Connection,
) -> None:
    connection.execute(RUNS)
    assert count(connection, "job_run") == 16
    # The control: without the page's statements nothing goes.
    connection.execute("DELETE FROM job_run")
    assert count(connection, "job_run") == 16
    (cut,) = re.findall(r"```sql\n(BEGIN;.*?)```", PAGE, re.DOTALL)
    connection.execute(cut)
    left = connection.execute(
        "SELECT job, outcome, count(*), max(finished_at) < now() - interval '4 years'"
        "  FROM job_run GROUP BY job, outcome ORDER BY job, outcome"
    ).fetchall()
    assert left == [
        ("audit_seal", "failed", 1, True),
        ("audit_seal", "ok", 1, True),
        ("storage_orphans", "failed", 2, False),
        ("storage_orphans", "ok", 2, False),
    ], "three years, and the last of each job however old"
    connection.execute("DELETE FROM job_run")
    assert count(connection, "job_run") == 6
    with connection.transaction(), connection.cursor() as cursor:
        assert changes(cursor, "public") == []


def test_uploads_that_are_cleaned_can_go_and_no_others(connection: psycopg.Connection) -> None:
    for state in STATES:
        in_state(connection, state)
    with pytest.raises(psycopg.errors.IntegrityConstraintViolation, match="only a cleaned one"):
        connection.execute("DELETE FROM upload")
    assert count(connection, "upload") == len(STATES)
    assert "DELETE FROM upload WHERE state = 'cleaned'" in PAGE
    connection.execute("DELETE FROM upload WHERE state = 'cleaned'")
    assert count(connection, "upload") == len(STATES) - 1
    assert count(connection, "upload WHERE state = 'cleaned'") == 0


def test_dagster_forgets_every_kind_of_tick() -> None:
    said = yaml.safe_load((CHECKOUT / "dagster.yaml").read_text())["retention"]
    for kind in ("schedule", "sensor"):
        assert set(said[kind]["purge_after_days"]) == {"skipped", "success", "failure"}
        assert all(0 < days <= 90 for days in said[kind]["purge_after_days"].values())
