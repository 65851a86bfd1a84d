"""No test finds what another one left in its database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.databases import Databases

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.embedded.postgres import EmbeddedPostgres

RECORD = (
    "INSERT INTO job_run (run_id, installation, job, started_at, outcome, mode)"
    " VALUES (gen_random_uuid()::text, 'test', 'upload_reservations', now(), 'ok', 'dry')"
    " RETURNING id"
)


@pytest.fixture(scope="module")
def pool(postgres_server: EmbeddedPostgres, template_database: str) -> Iterator[Databases]:
    pool = Databases(postgres_server, template_database)
    yield pool
    pool.close()
    for name in pool.clean:
        postgres_server.drop_database(name)


def oid_and_name(connection: psycopg.Connection) -> tuple[int, str]:
    row = connection.execute(
        "SELECT oid, datname FROM pg_database WHERE datname = current_database()"
    ).fetchone()
    assert row is not None
    return row[0], row[1]


def test_rows_are_gone_also_from_tables_that_refuse_it_and_numbers_begin_again(
    pool: Databases,
) -> None:
    with pool.one() as url, psycopg.connect(url, autocommit=True) as connection:
        before = oid_and_name(connection)
        connection.execute("INSERT INTO file (storage_key) VALUES ('files/1')")
        first = connection.execute(RECORD).fetchone()
        assert first == (1,)
        connection.execute(RECORD)
        assert connection.execute("DELETE FROM job_run").rowcount == 0
    with pool.one() as url, psycopg.connect(url, autocommit=True) as connection:
        after = oid_and_name(connection)
        assert after[0] == before[0]
        assert after[1] != before[1]
        assert connection.execute("SELECT FROM file").fetchall() == []
        assert connection.execute("SELECT FROM job_run").fetchall() == []
        assert connection.execute(RECORD).fetchone() == first
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(url.replace(after[1], before[1]))


@pytest.mark.parametrize(
    "change",
    [
        "CREATE TABLE theirs ()",
        "CREATE SCHEMA theirs",
        "CREATE TEMPORARY TABLE mine (); CREATE FUNCTION f() RETURNS int RETURN 1",
        "ALTER TABLE file DISABLE TRIGGER USER",
        "ALTER TABLE job_run DISABLE RULE job_run_never_updated",
        "DROP TRIGGER file_refuses_key_in_deletion ON file",
        "ALTER TABLE file ADD COLUMN more text",
        "ALTER TABLE file ALTER COLUMN state DROP DEFAULT",
        "ALTER TABLE file SET (autovacuum_enabled = off)",
        "ALTER TABLE file DROP CONSTRAINT file_pkey CASCADE",
        "ALTER SEQUENCE job_run_id_seq INCREMENT BY 5",
        "GRANT SELECT ON file TO PUBLIC",
        "DROP TABLE alert_delivery",
        "DROP INDEX file_reservation_due",
        "ALTER DATABASE {database} SET synchronous_commit = off",
        "ALTER DATABASE {database} CONNECTION LIMIT 7",
        "UPDATE filejobs_migration SET checksum = 'another' WHERE number = 1",
        "DELETE FROM filejobs_migration WHERE number = 1",
        "ANALYZE file",
    ],
)
def test_a_database_in_which_more_than_rows_changed_is_never_used_again(
    pool: Databases, change: str
) -> None:
    with pool.one() as url, psycopg.connect(url, autocommit=True) as connection:
        oid, database = oid_and_name(connection)
        connection.execute("INSERT INTO file (storage_key) VALUES ('files/1')")
        connection.execute(change.replace("{database}", database).encode())
    with pool.one() as url, psycopg.connect(url, autocommit=True) as connection:
        assert oid_and_name(connection)[0] != oid


def test_a_session_that_was_left_open_holds_nothing_back(pool: Databases) -> None:
    with pool.one() as url:
        left = psycopg.connect(url)
        left.execute("SELECT pg_advisory_lock(1)")
        left.execute("LOCK TABLE file")
    with pytest.raises(psycopg.OperationalError):
        left.execute("SELECT 1")
    with pool.one() as url, psycopg.connect(url, autocommit=True) as connection:
        assert connection.execute("SELECT pg_try_advisory_lock(1)").fetchone() == (True,)
        assert connection.execute("SELECT FROM file").fetchall() == []
