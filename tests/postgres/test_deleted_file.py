"""delete_file and restore_file, and a migration that keeps nobody waiting on a large table."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from filejobs_dagster.postgres.migrate import migrate, shipped

if TYPE_CHECKING:
    from collections.abc import Sequence

    from filejobs_dagster.postgres.migrate import Migration

NUMBER = 7
INDEXES = {"file_deleted_due", "file_deleted_retained_due", "file_deleted_without_date"}


def make(connection: psycopg.Connection, state: str) -> uuid.UUID:
    row = connection.execute(
        "INSERT INTO file (storage_key, state) VALUES ('files/' || gen_random_uuid(), %s)"
        " RETURNING id",
        (state,),
    ).fetchone()
    assert row is not None
    identity: uuid.UUID = row[0]
    return identity


def call(connection: psycopg.Connection, function: str, file: uuid.UUID) -> Any:
    row = connection.execute(f"SELECT {function}(%s)".encode(), (file,)).fetchone()
    assert row is not None
    return row[0]


def state_of(connection: psycopg.Connection, file: uuid.UUID) -> Any:
    return connection.execute(
        "SELECT state, deleted_at IS NOT NULL FROM file WHERE id = %s", (file,)
    ).fetchone()


def test_a_ready_file_is_deleted_and_restored_as_often_as_somebody_asks(
    connection: psycopg.Connection,
) -> None:
    file = make(connection, "ready")
    assert call(connection, "delete_file", file) is True
    first = connection.execute("SELECT deleted_at FROM file").fetchone()
    assert call(connection, "delete_file", file) is True
    assert connection.execute("SELECT deleted_at FROM file").fetchone() == first
    assert state_of(connection, file) == ("deleted", True)
    for _ in range(2):
        assert call(connection, "restore_file", file) is True
        assert state_of(connection, file) == ("ready", False)


def test_a_pending_file_can_neither_be_deleted_nor_restored(
    connection: psycopg.Connection,
) -> None:
    file = make(connection, "pending")
    assert call(connection, "delete_file", file) is False
    assert call(connection, "restore_file", file) is False
    assert state_of(connection, file) == ("pending", False)


def test_what_is_not_there_is_neither_deleted_nor_restored(
    connection: psycopg.Connection,
) -> None:
    gone = uuid.uuid4()
    assert call(connection, "delete_file", gone) is False
    assert call(connection, "restore_file", gone) is False


@pytest.mark.parametrize(
    "value", ["infinity", "-infinity", "0001-01-01Z", "0044-03-15 BC", "9999-01-01Z"]
)
def test_only_dates_that_every_client_can_hold_are_taken(
    connection: psycopg.Connection, value: str
) -> None:
    for column in ("deleted_at", "retain_until"):
        statement = f"INSERT INTO file (storage_key, {column}) VALUES ('files/1', %s)"
        if (column, value) == ("retain_until", "infinity"):
            connection.execute(statement.encode(), (value,))
            continue
        with pytest.raises(psycopg.errors.CheckViolation):
            connection.execute(statement.encode(), (value,))


# --- the migration -----------------------------------------------------------------------------


def migration(*, small_up_to: int | None = None) -> Migration:
    (ours,) = [each for each in shipped() if each.number == NUMBER]
    if small_up_to is None:
        return ours
    text = ours.text.replace("1024 * 1024 * 1024", str(small_up_to))
    assert text != ours.text
    return replace(ours, text=text)


def before(url: str) -> Sequence[Migration]:
    earlier = [each for each in shipped() if each.number < NUMBER]
    migrate(url, available=earlier)
    return earlier


def validated(connection: psycopg.Connection) -> set[bool]:
    found = connection.execute(
        "SELECT convalidated FROM pg_constraint WHERE conname IN"
        " ('file_deleted_at_is_a_date', 'file_retain_until_is_a_date')"
    ).fetchall()
    assert len(found) == 2
    return {row[0] for row in found}


def definitions(connection: psycopg.Connection) -> dict[str, str]:
    """The indexes of deleted files, as PostgreSQL writes them back."""
    found = connection.execute(
        "SELECT indexname, indexdef FROM pg_indexes WHERE indexname LIKE 'file_deleted%'"
    ).fetchall()
    return dict(found)


def test_a_small_table_gets_its_indexes_and_valid_constraints(empty_database_url: str) -> None:
    migrate(empty_database_url, available=[*before(empty_database_url), migration()])
    with psycopg.connect(empty_database_url) as connection:
        assert (set(definitions(connection)), validated(connection)) == (INDEXES, {True})


def test_rows_of_earlier_times_that_break_the_rule_do_not_stop_the_migration(
    empty_database_url: str,
) -> None:
    earlier = before(empty_database_url)
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO file (storage_key, state, deleted_at) VALUES ('a', 'deleted', '-infinity')"
        )
        migrate(empty_database_url, available=[*earlier, migration()])
        assert validated(connection) == {False}


def test_a_large_table_is_not_locked_for_an_index_and_the_operator_is_told_what_to_run(
    empty_database_url: str, connection: psycopg.Connection
) -> None:
    built_small = definitions(connection)
    earlier = before(empty_database_url)
    large = migration(small_up_to=-1)
    with psycopg.connect(empty_database_url, autocommit=True) as other:
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState) as refused:
            migrate(empty_database_url, available=[*earlier, large])
        assert definitions(other) == {}
        hint = refused.value.diag.message_hint or ""
        statements = [line for line in hint.splitlines() if line.startswith("CREATE INDEX")]
        assert len(statements) == 3
        for statement in statements:
            other.execute(statement.encode())

        migrate(empty_database_url, available=[*earlier, large])

        assert (definitions(other), validated(other)) == (built_small, {False})
        other.execute("ALTER TABLE file VALIDATE CONSTRAINT file_deleted_at_is_a_date")


def test_indexes_of_a_large_table_are_built_before_while_others_write(
    empty_database_url: str, connection: psycopg.Connection
) -> None:
    built_small = definitions(connection)
    available = [*before(empty_database_url), migration(small_up_to=-1)]
    said: list[str] = []
    with psycopg.connect(empty_database_url) as writer:
        # CONTROL: one that is not built so waits for this writer, and gives up.
        writer.execute("LOCK TABLE file IN ROW EXCLUSIVE MODE")
        with psycopg.connect(empty_database_url, autocommit=True) as other:
            other.execute("SET lock_timeout = '200ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                other.execute("CREATE INDEX waits ON file (id)")
        writer.rollback()

        def write(statement: str) -> None:
            said.append(statement)
            writer.execute(
                "INSERT INTO file (id, state, storage_key) VALUES (gen_random_uuid(), 'ready', %s)",
                (f"files/{len(said)}",),
            )
            # It waits for who has written before it began, and for nobody who comes later.
            writer.commit()

        migrate(empty_database_url, available=available, beforehand=write)
    assert [it.split()[:4] for it in said] == [
        ["CREATE", "INDEX", "CONCURRENTLY", name] for name in sorted(built_small)
    ]
    with psycopg.connect(empty_database_url) as now:
        assert definitions(now) == built_small
        assert now.execute("SELECT count(*) FROM file").fetchone() == (3,)


def test_an_index_that_was_not_finished_is_not_taken_for_one(empty_database_url: str) -> None:
    earlier = before(empty_database_url)
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute(
            "CREATE INDEX file_deleted_due ON file (deleted_at, id) WHERE state = 'deleted'"
            " AND deleted_at IS NOT NULL AND retain_until IS NULL"
        )
        connection.execute(
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'file_deleted_due'::regclass"
        )
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState) as refused:
            migrate(empty_database_url, available=[*earlier, migration()])
    assert "REINDEX INDEX CONCURRENTLY file_deleted_due" in (refused.value.diag.message_hint or "")
