"""The statements of upload_cleanup cost what is due, however many uploads there are."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from filejobs_dagster.jobs.upload_cleanup import claims, statements
from filejobs_dagster.jobs.upload_cleanup import statements as uncertain_statements

if TYPE_CHECKING:
    import psycopg

NOW = datetime.now(timezone.utc)
VALUES: dict[str, Any] = {
    "cutoff": NOW,
    "begins": statements.BEGINNING,
    "ends": statements.END,
    "size": 100,
    "run": "a run",
    "lease": timedelta(minutes=10),
    "after": statements.BEGINNING,
    "after_id": statements.FIRST_ID,
    "before": NOW - timedelta(days=7),
    "reason": "silent",
    "most": 1000,
    "writing_limit": timedelta(days=7),
    "again": False,
}


@pytest.fixture
def crowded(connection: psycopg.Connection) -> psycopg.Connection:
    """5,000 rows, of which 40 are due."""
    connection.execute(
        "INSERT INTO upload (key_prefix, activity_at)"
        " SELECT 'files/', now() - interval '1 hour' FROM generate_series(1, 5000)"
    )
    connection.execute("UPDATE upload SET state = 'stored', stored_at = now()")
    connection.execute(
        "UPDATE upload SET state = 'cleanup' WHERE id IN (SELECT id FROM upload LIMIT 40)"
    )
    connection.execute("ANALYZE upload")
    return connection


INDEXES = [
    (statements.CLAIM, "upload_due"),
    (statements.CANDIDATES, "upload_due"),
    (statements.ANY_DUE, "upload_due"),
    (statements.OLDEST_LEFT, "upload_collectable"),
    (uncertain_statements.SILENT, "upload_writing"),
    (uncertain_statements.UNCERTAIN, "upload_uncertain"),
    (claims._DUE, "upload_due"),
]


def test_each_statement_goes_by_its_partial_index(crowded: psycopg.Connection) -> None:
    for statement, index in INDEXES:
        explain = f"EXPLAIN (FORMAT JSON) {statement}".encode()
        [(plan,)] = crowded.execute(explain, VALUES).fetchall()
        assert index in str(plan), statement
        assert "Seq Scan" not in str(plan), statement


def test_what_is_left_is_counted_by_the_indexes_also_without_statistics(
    connection: psycopg.Connection,
) -> None:
    connection.execute("ALTER TABLE upload SET (autovacuum_enabled = false)")
    connection.execute(
        "INSERT INTO upload (key_prefix) SELECT 'files/' FROM generate_series(1, 20_000)"
    )
    explain = f"EXPLAIN (FORMAT JSON) {statements.LEFT}".encode()
    [(plan,)] = connection.execute(explain, VALUES).fetchall()
    assert "Seq Scan" not in str(plan)
