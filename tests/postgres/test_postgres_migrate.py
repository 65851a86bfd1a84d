"""Migrations: once, whole, in order, and never another text than the one that was applied."""

from __future__ import annotations

import threading
from dataclasses import replace

import psycopg
import pytest
from psycopg import sql

from filejobs_dagster.postgres.connect import Database, DatabaseUnavailable
from filejobs_dagster.postgres.migrate import (
    Migration,
    MigrationRefused,
    migrate,
    outstanding,
    shipped,
)
from tests.postgres.backends import is_waiting, set_for_database, together, wait_until

NAMES = [migration.name for migration in shipped()]


def tables(url: str, schema: str = "public") -> set[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = %s", (schema,)
        ).fetchall()
    return {row[0] for row in rows}


def test_every_file_is_applied_once_and_recorded_with_its_checksum(empty_database_url: str) -> None:
    assert [migration.name for migration in migrate(empty_database_url)] == NAMES
    assert migrate(empty_database_url) == []
    with psycopg.connect(empty_database_url) as connection:
        rows = connection.execute(
            "SELECT number, name, checksum FROM filejobs_migration ORDER BY number"
        ).fetchall()
    assert rows == [(file.number, file.name, file.checksum) for file in shipped()]


def test_what_is_outstanding_is_told_without_writing(empty_database_url: str) -> None:
    database = Database(empty_database_url)
    assert [migration.name for migration in outstanding(database)] == NAMES
    assert tables(empty_database_url) == set()
    migrate(empty_database_url)
    assert outstanding(database) == []
    assert len(outstanding(Database(empty_database_url, "elsewhere"))) == len(NAMES)


@pytest.mark.parametrize("schema", ["public", "files"])
@pytest.mark.parametrize("isolation", ["read committed", "serializable"])
def test_two_at_once_apply_each_file_once(
    empty_database_url: str, schema: str, isolation: str
) -> None:
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        set_for_database(connection, "default_transaction_isolation", isolation)

    def work(_: int, barrier: threading.Barrier) -> int:
        barrier.wait()
        return len(migrate(empty_database_url, schema))

    assert sorted(together(2, work)) == [0, len(NAMES)]


def test_control_without_the_lock_the_second_of_two_fails(empty_database_url: str) -> None:
    text = shipped()[0].text.encode()
    with (
        psycopg.connect(empty_database_url) as first,
        psycopg.connect(empty_database_url) as second,
        psycopg.connect(empty_database_url, autocommit=True) as watcher,
    ):
        first.execute(text)
        failures: list[psycopg.Error] = []

        def apply() -> None:
            try:
                second.execute(text)
            except psycopg.Error as error:
                failures.append(error)

        thread = threading.Thread(target=apply)
        thread.start()
        pid = second.info.backend_pid
        wait_until(lambda: is_waiting(watcher, pid), "the second waits")
        first.commit()
        thread.join()
        second.rollback()
    assert isinstance(failures[0], psycopg.errors.UniqueViolation | psycopg.errors.DuplicateTable)


def test_the_second_waits_longer_than_the_lock_timeout(empty_database_url: str) -> None:
    applied: list[list[Migration]] = []
    with psycopg.connect(empty_database_url) as holder:
        holder.execute("SELECT pg_advisory_xact_lock(hashtextextended('filejobs/migrate', 0))")
        thread = threading.Thread(target=lambda: applied.append(migrate(empty_database_url)))
        thread.start()
        thread.join(Database("").lock_timeout.total_seconds() + 1)
        still_waiting = thread.is_alive()
        holder.rollback()
        thread.join()
    assert still_waiting
    assert [migration.name for migration in applied[0]] == NAMES


def test_the_wait_for_tables_stays_limited_during_a_migration(empty_database_url: str) -> None:
    probe = Migration(
        1, "0001_probe.sql", "CREATE TABLE probe AS SELECT current_setting('lock_timeout')"
    )
    migrate(empty_database_url, available=[probe])
    with psycopg.connect(empty_database_url) as connection:
        row = connection.execute("SELECT * FROM probe").fetchone()
    assert row == ("5s",)


def test_a_changed_file_is_refused_by_its_name(empty_database_url: str) -> None:
    migrate(empty_database_url)
    files = list(shipped())
    files[1] = replace(files[1], text=files[1].text + "\n-- a word more")
    with pytest.raises(MigrationRefused, match=r"0002_ledger\.sql was changed after"):
        migrate(empty_database_url, available=files)


def test_a_database_that_is_ahead_is_refused(empty_database_url: str) -> None:
    newer = Migration(len(NAMES) + 1, "0099_from_the_future.sql", "CREATE TABLE future ()")
    migrate(empty_database_url, available=[*shipped(), newer])
    with pytest.raises(MigrationRefused, match="0099_from_the_future"):
        migrate(empty_database_url)
    with pytest.raises(MigrationRefused, match="newer version"):
        outstanding(Database(empty_database_url))


def test_a_failing_migration_leaves_nothing_behind(empty_database_url: str) -> None:
    broken = Migration(len(NAMES) + 1, "0099_broken.sql", "CREATE TABLE half_way (); SELECT 1 / 0;")
    with pytest.raises(psycopg.errors.DivisionByZero):
        migrate(empty_database_url, "files", available=[*shipped(), broken])
    with psycopg.connect(empty_database_url) as connection:
        found = connection.execute("SELECT FROM pg_namespace WHERE nspname = 'files'").fetchone()
    assert found is None
    assert [migration.name for migration in migrate(empty_database_url, "files")] == NAMES


def test_a_percent_sign_in_a_file_is_no_placeholder(empty_database_url: str) -> None:
    text = "CREATE TABLE share AS SELECT 'ten %s of 100%'::text AS word"
    migrate(empty_database_url, available=[Migration(1, "0001_share.sql", text)])
    assert "share" in tables(empty_database_url)


@pytest.mark.parametrize("schema", ["files", "Odd Schema", 'quo"ted'])
def test_another_schema_holds_everything_and_public_nothing(
    empty_database_url: str, schema: str
) -> None:
    migrate(empty_database_url, schema)
    assert tables(empty_database_url) == set()
    assert {"file", "job_run", "job_progress", "audit_event"} <= tables(empty_database_url, schema)
    with psycopg.connect(empty_database_url) as connection:
        paths = connection.execute(
            """
            SELECT proname, proconfig FROM pg_proc
             WHERE pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = %s)
               AND proname IN ('complete_upload', 'audit_append_many')
            """,
            (schema,),
        ).fetchall()
        quoted = sql.Identifier(schema).as_string(connection)
    assert len(paths) == 2
    for _, settings in paths:
        assert [setting.partition("=")[2] for setting in settings] in (
            [f"{quoted}, pg_temp"],
            [f'{quoted}, "pg_temp"'],
            [f"{schema}, pg_temp"],
        )


def test_the_functions_find_their_tables_from_any_search_path(empty_database_url: str) -> None:
    migrate(empty_database_url, "Files")
    with psycopg.connect(empty_database_url) as connection:
        row = connection.execute(
            """
            INSERT INTO "Files".file (storage_key, upload_expires_at)
            VALUES ('files/a', now()) RETURNING id
            """
        ).fetchone()
        assert row is not None
        # A decoy of the same name in front of everything else.
        connection.execute('CREATE TEMPORARY TABLE file (LIKE "Files".file)')
        connection.execute("SET search_path TO pg_temp, pg_catalog")
        completed = connection.execute('SELECT "Files".complete_upload(%s)', row).fetchone()
        state = connection.execute('SELECT state FROM "Files".file').fetchone()
        appended = connection.execute(
            """SELECT * FROM "Files".audit_append_many('c', ARRAY['{}'])"""
        ).fetchone()
    assert (completed, state, appended) == ((True,), ("ready",), (1, 1))


def test_control_a_function_without_its_own_search_path_meets_the_decoy(
    empty_database_url: str,
) -> None:
    migrate(empty_database_url, "Files")
    with psycopg.connect(empty_database_url) as connection:
        row = connection.execute(
            "INSERT INTO \"Files\".file (storage_key) VALUES ('files/a') RETURNING id"
        ).fetchone()
        connection.execute(
            'ALTER FUNCTION "Files".complete_upload(uuid, boolean, bigint) RESET search_path'
        )
        connection.execute('CREATE TEMPORARY TABLE file (LIKE "Files".file)')
        completed = connection.execute('SELECT "Files".complete_upload(%s)', row).fetchone()
    assert completed == (False,)


def test_a_database_that_is_away_is_told_by_its_address() -> None:
    with pytest.raises(DatabaseUnavailable, match=r"127\.0\.0\.1:1/files"):
        migrate("postgresql://app:secret@127.0.0.1:1/files")
