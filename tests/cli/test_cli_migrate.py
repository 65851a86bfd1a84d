from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.postgres.migrate import outstanding, shipped

if TYPE_CHECKING:
    from filejobs_dagster.embedded.postgres import EmbeddedPostgres
    from tests.cli.conftest import Desk

# Everything that makes a schema what it is: columns, constraints, indexes, functions, triggers,
# rules, and what was recorded of the migrations.
SHAPE = """
SELECT 'column', c.relname, a.attname, format_type(a.atttypid, a.atttypmod)
         || a.attnotnull || coalesce(pg_get_expr(d.adbin, d.adrelid), '')
  FROM pg_class c
  JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = %(schema)s
  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
  LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
 WHERE c.relkind = 'r'
 UNION ALL
SELECT 'constraint', conrelid::regclass::text, conname, pg_get_constraintdef(oid)
  FROM pg_constraint WHERE connamespace = quote_ident(%(schema)s)::regnamespace
 UNION ALL
SELECT 'index', tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = %(schema)s
 UNION ALL
SELECT 'function', proname, pg_get_function_identity_arguments(oid), pg_get_functiondef(oid)
  FROM pg_proc WHERE pronamespace = quote_ident(%(schema)s)::regnamespace
 UNION ALL
SELECT 'trigger', tgrelid::regclass::text, tgname, pg_get_triggerdef(pg_trigger.oid)
  FROM pg_trigger
  JOIN pg_class c ON c.oid = tgrelid AND c.relnamespace = quote_ident(%(schema)s)::regnamespace
 WHERE NOT tgisinternal
 UNION ALL
SELECT 'rule', tablename, rulename, definition FROM pg_rules WHERE schemaname = %(schema)s
 UNION ALL
SELECT 'comment', objoid::regclass::text, objsubid::text, description
  FROM pg_description
  JOIN pg_class c ON c.oid = objoid AND c.relnamespace = quote_ident(%(schema)s)::regnamespace
 ORDER BY 1, 2, 3, 4
"""


def shape(url: str, schema: str = "public") -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        found = connection.execute(SHAPE, {"schema": schema}).fetchall()
    assert found
    return found


def relations(url: str) -> int:
    with psycopg.connect(url) as connection:
        counted = connection.execute(
            "SELECT (SELECT count(*) FROM pg_class) + (SELECT count(*) FROM pg_proc)"
            " + (SELECT count(*) FROM pg_namespace)"
        ).fetchone()
    assert counted is not None
    return int(counted[0])


@pytest.fixture
def fresh(desk: Desk, empty_database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The desk's settings lead to a database with nothing in it."""
    monkeypatch.setenv("FILEJOBS_DATABASE_URL", empty_database_url)
    return empty_database_url


def test_each_applied_file_is_named_and_a_second_call_has_nothing_to_do(
    desk: Desk, fresh: str
) -> None:
    said = desk.call("migrate")
    assert said.exit_code == 0, said.output
    assert said.stdout.splitlines() == [f"applied {each.name}" for each in shipped()]
    assert desk.call("migrate").stdout == "nothing to do: the schema public is up to date\n"
    assert outstanding(Database(fresh)) == []


def test_a_dry_run_changes_nothing(desk: Desk, fresh: str) -> None:
    before = relations(fresh)
    said = desk.call("migrate", "--dry-run")
    assert said.exit_code == 0
    for migration in shipped():
        assert f"-- {migration.name}\n" in said.stdout
    assert relations(fresh) == before


@pytest.mark.parametrize("schema", ["public", "file-jobs of Ö'Neill"])
def test_the_sql_of_a_dry_run_makes_the_very_same_schema(
    desk: Desk, fresh: str, postgres_server: EmbeddedPostgres, schema: str
) -> None:
    options = ("--database-url-env", "FILEJOBS_DATABASE_URL", "--schema", schema)
    script = desk.call("migrate", "--dry-run", *options)
    assert script.exit_code == 0, script.output
    other = postgres_server.create_database(f"other_{abs(hash(fresh))}")
    with psycopg.connect(other, autocommit=True) as connection:
        connection.execute(script.stdout.encode())
    assert desk.call("migrate", *options).exit_code == 0
    assert shape(other, schema) == shape(fresh, schema)
    assert outstanding(Database(other, schema)) == []
    postgres_server.drop_database(f"other_{abs(hash(fresh))}")


def test_a_dry_run_with_nothing_to_do_is_still_sql(desk: Desk) -> None:
    said = desk.call("migrate", "--dry-run")
    assert said.exit_code == 0
    assert said.stdout.startswith("-- nothing to do")


def test_a_schema_that_was_tampered_with_is_not_up_to_date(desk: Desk) -> None:
    desk.connection.execute("ALTER TABLE file DISABLE TRIGGER ALL")
    desk.connection.execute("ALTER TABLE file ENABLE TRIGGER ALL")
    desk.connection.execute("DROP RULE job_run_never_updated ON job_run")
    for arguments in ((), ("--dry-run",)):
        said = desk.call("migrate", *arguments)
        assert said.exit_code == 1
        assert "up to date" not in said.output
        assert (
            "(ALTER TABLE public.file ENABLE ALWAYS TRIGGER file_refuses_key_in_deletion)"
            in said.stderr
        )
        assert "the rule job_run_never_updated of job_run is gone" in said.stderr


def test_a_changed_applied_file_is_refused_with_its_name(desk: Desk) -> None:
    desk.connection.execute("UPDATE filejobs_migration SET checksum = 'changed' WHERE number = 1")
    for arguments in ((), ("--dry-run",)):
        said = desk.call("migrate", *arguments)
        assert said.exit_code == 1
        assert "0001_file.sql was changed after it had been applied" in said.stderr


def test_two_calls_at_once_wait_for_each_other(desk: Desk, fresh: str) -> None:
    command = [sys.executable, "-m", "filejobs_dagster.cli", "--config", str(desk.path), "migrate"]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = sorted(process.communicate(timeout=60)[0] for process in both)
    assert [process.returncode for process in both] == [0, 0]
    assert said[0].splitlines() == [f"applied {each.name}" for each in shipped()]
    assert said[1].startswith("nothing to do")
    assert outstanding(Database(fresh)) == []


def test_a_role_of_its_own_needs_no_settings_file(
    desk: Desk, empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWNER_URL", empty_database_url)
    desk.path.unlink()
    said = desk.call("migrate", "--database-url-env", "OWNER_URL", "--schema", "collectors")
    assert said.exit_code == 0, said.output
    assert outstanding(Database(empty_database_url, "collectors")) == []
    assert outstanding(Database(empty_database_url, "public")) != []


def test_a_variable_that_is_not_set_is_named(desk: Desk) -> None:
    said = desk.call("migrate", "--database-url-env", "OWNER_URL")
    assert said.exit_code == 64
    assert "OWNER_URL is not set" in said.stderr


def test_a_schema_beside_the_settings_is_refused(desk: Desk) -> None:
    said = desk.call("migrate", "--schema", "elsewhere")
    assert said.exit_code == 64
    assert "database.schema" in said.stderr


def test_the_password_of_a_variable_is_never_shown(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for url in ("postgresql://me:pass-of-owner@127.0.0.1:9/db", "pass-of-owner is no address"):
        monkeypatch.setenv("OWNER_URL", url)
        said = desk.call("migrate", "--database-url-env", "OWNER_URL")
        assert said.exit_code == 1
        assert "database" in said.stderr
        assert "pass-of-owner" not in said.output


def test_tls_options_of_the_settings_are_used(desk: Desk, fresh: str) -> None:
    desk.document["database"]["sslmode"] = "verify-full"
    desk.document["database"]["sslrootcert"] = "/nonexistent/authorities.pem"
    desk.write()
    said = desk.call("migrate")
    over_a_socket = "host=%2F" in fresh or "host=/" in fresh
    assert over_a_socket or said.exit_code == 1
    assert over_a_socket or "authorities.pem" in said.stderr
