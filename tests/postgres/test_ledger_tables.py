"""What the tables themselves promise, whoever writes to them."""

from __future__ import annotations

import psycopg
import pytest

RECORD = """
INSERT INTO job_run (run_id, installation, job, started_at, outcome, mode, error)
VALUES (%(run_id)s, 'test', %(job)s, now(), %(outcome)s, %(mode)s, %(error)s)
"""


def record(connection: psycopg.Connection, **columns: str | None) -> None:
    values: dict[str, str | None] = {
        "run_id": "run 1",
        "job": "upload_reservations",
        "outcome": "ok",
        "mode": "live",
        "error": None,
    }
    connection.execute(RECORD, values | columns)


def count(connection: psycopg.Connection, table: str = "job_run") -> int:
    row = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
    assert row is not None
    return int(row[0])


def test_job_run_has_the_columns_of_the_contract(connection: psycopg.Connection) -> None:
    rows = connection.execute(
        """
        SELECT attname, format_type(atttypid, NULL), attnotnull, atthasdef
          FROM pg_attribute
         WHERE attrelid = 'job_run'::regclass AND attnum > 0 AND NOT attisdropped
        """
    ).fetchall()
    assert {name: (kind, required, default) for name, kind, required, default in rows} == {
        "id": ("bigint", True, True),
        "run_id": ("text", True, False),
        "installation": ("text", True, False),
        "job": ("text", True, False),
        "started_at": ("timestamp with time zone", True, False),
        "finished_at": ("timestamp with time zone", True, True),
        "outcome": ("text", True, False),
        "mode": ("text", True, False),
        "scanned": ("bigint", False, False),
        "acted": ("bigint", False, False),
        "detail": ("jsonb", True, True),
        "error": ("text", False, False),
    }


def test_update_and_delete_change_no_record(connection: psycopg.Connection) -> None:
    record(connection)
    assert connection.execute("UPDATE job_run SET outcome = 'ok', acted = 9").rowcount == 0
    assert connection.execute("DELETE FROM job_run").rowcount == 0
    assert connection.execute("SELECT acted FROM job_run").fetchall() == [(None,)]


@pytest.mark.parametrize("statement", ["TRUNCATE job_run", "TRUNCATE file, job_run CASCADE"])
def test_truncate_is_refused_even_for_the_superuser(
    connection: psycopg.Connection, statement: str
) -> None:
    record(connection)
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="append-only"):
        connection.execute(statement)
    assert count(connection) == 1


@pytest.mark.parametrize(
    "statement",
    [
        (
            "INSERT INTO job_run (run_id, installation, job, started_at, outcome, mode)"
            " VALUES ('r', 'i', 'audit_seal', now(), 'ok', 'dry') ON CONFLICT DO NOTHING"
        ),
        "DELETE FROM job_run RETURNING id",
        "UPDATE job_run SET acted = 1 RETURNING id",
        (
            "MERGE INTO job_run USING (SELECT 'r' AS run_id) AS new ON job_run.run_id = new.run_id"
            " WHEN MATCHED THEN DELETE"
        ),
    ],
)
def test_postgresql_refuses_these_on_a_table_with_rules(
    connection: psycopg.Connection, statement: str
) -> None:
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        connection.execute(statement)


def test_insert_returning_works(connection: psycopg.Connection) -> None:
    row = connection.execute(
        """
        INSERT INTO job_run (run_id, installation, job, started_at, outcome, mode)
        VALUES ('r', 'i', 'audit_seal', now(), 'ok', 'dry') RETURNING id, detail, scanned
        """
    ).fetchone()
    assert row is not None
    assert row[1:] == ({}, None)


@pytest.mark.parametrize(
    ("columns", "constraint"),
    [
        ({"outcome": "failed"}, "job_run_error_iff_failed"),
        ({"error": "why"}, "job_run_error_iff_failed"),
        ({"outcome": "cancelled", "error": "why"}, "job_run_outcome_known"),
        ({"mode": "wet"}, "job_run_mode_known"),
        ({"job": "sweep"}, "job_run_job_known"),
    ],
)
def test_a_record_that_means_nothing_is_refused(
    connection: psycopg.Connection, columns: dict[str, str], constraint: str
) -> None:
    with pytest.raises(psycopg.errors.CheckViolation) as refused:
        record(connection, **columns)
    assert refused.value.diag.constraint_name in (constraint, "job_run_error_iff_failed")
    assert count(connection) == 0


def test_a_failed_record_with_its_reason_is_taken(connection: psycopg.Connection) -> None:
    record(connection, outcome="failed", error="why")
    assert count(connection) == 1


def test_a_second_record_of_a_run_is_refused(connection: psycopg.Connection) -> None:
    record(connection)
    with pytest.raises(psycopg.errors.UniqueViolation):
        record(connection)


@pytest.mark.parametrize("moment", ["infinity", "-infinity", "20000-01-01Z"])
def test_an_expiry_that_no_calendar_holds_is_refused(
    connection: psycopg.Connection, moment: str
) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        connection.execute(
            "INSERT INTO file (storage_key, upload_expires_at) VALUES ('a', %s::timestamptz)",
            (moment,),
        )


@pytest.mark.parametrize(
    ("columns", "values"),
    [
        ("storage_key, state", "'a', 'gone'"),
        ("storage_key", "''"),
        ("storage_key, size_bytes", "'a', -1"),
    ],
)
def test_a_file_that_means_nothing_is_refused(
    connection: psycopg.Connection, columns: str, values: str
) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        connection.execute(f"INSERT INTO file ({columns}) VALUES ({values})")


def test_a_storage_key_belongs_to_one_file_and_is_compared_byte_by_byte(
    connection: psycopg.Connection,
) -> None:
    composed, decomposed = "files/\u00e9", "files/e\u0301"
    connection.execute("INSERT INTO file (storage_key) VALUES (%s), (%s)", (composed, decomposed))
    with pytest.raises(psycopg.errors.UniqueViolation):
        connection.execute("INSERT INTO file (storage_key) VALUES (%s)", (composed,))
    rows = connection.execute("SELECT storage_key FROM file ORDER BY storage_key").fetchall()
    assert [row[0] for row in rows] == sorted([composed, decomposed], key=str.encode)
