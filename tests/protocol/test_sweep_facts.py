"""What the sweep's model takes for granted about PostgreSQL, asked of PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from tests.postgres.backends import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

OLDEST_OPEN = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
END_OF_SNAPSHOT = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
A_NEW_NUMBER = "SELECT pg_current_xact_id()::text::bigint"
LOCK_CANDIDATE = "SELECT state FROM candidate WHERE key = 'k' FOR SHARE"


@pytest.fixture
def sweeper(connection: psycopg.Connection) -> psycopg.Connection:
    connection.execute("CREATE TABLE candidate (key text PRIMARY KEY, state text)")
    connection.execute("CREATE TABLE reference (key text)")
    return connection


@pytest.fixture
def client(database_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database_url) as connection:
        yield connection


def number(connection: psycopg.Connection[Any], statement: str) -> int:
    row = connection.execute(statement.encode()).fetchone()
    assert row is not None
    return int(row[0])


def others_open(sweeper: psycopg.Connection) -> int:
    return number(
        sweeper,
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND pid <> pg_backend_pid() AND xact_start IS NOT NULL",
    )


def test_a_snapshot_without_a_number_holds_back_no_number_and_is_seen_as_a_transaction(
    sweeper: psycopg.Connection, client: psycopg.Connection
) -> None:
    client.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    client.execute("SELECT 1 FROM candidate")
    fence = number(sweeper, A_NEW_NUMBER)

    wait_until(lambda: number(sweeper, OLDEST_OPEN) > fence, "no older number is open")
    assert others_open(sweeper) == 1

    client.execute("INSERT INTO reference VALUES ('k')")
    fence = number(sweeper, A_NEW_NUMBER)

    assert number(sweeper, OLDEST_OPEN) < fence
    client.commit()
    wait_until(lambda: number(sweeper, OLDEST_OPEN) > fence, "no older number is open")
    assert others_open(sweeper) == 0


def test_the_end_of_a_snapshot_is_no_fence_since_an_open_transaction_may_have_that_number(
    sweeper: psycopg.Connection, client: psycopg.Connection
) -> None:
    """Waiting until `xmin` has come to an `xmax` would not wait at all."""
    seen = set()
    for _ in range(10):
        client.execute("INSERT INTO reference VALUES ('k')")
        open_number = number(client, A_NEW_NUMBER)
        seen.add(number(sweeper, END_OF_SNAPSHOT) - open_number)
        fence = number(sweeper, A_NEW_NUMBER)
        assert open_number < fence
        client.commit()

    assert 0 in seen


def test_a_locking_read_waits_for_an_uncommitted_intent(
    sweeper: psycopg.Connection, client: psycopg.Connection
) -> None:
    sweeper.execute("INSERT INTO candidate VALUES ('k', 'marked')")
    client.execute("SET lock_timeout = '50ms'")
    client.commit()
    with sweeper.transaction():
        sweeper.execute("UPDATE candidate SET state = 'deleting'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            client.execute(LOCK_CANDIDATE)
    client.rollback()

    assert client.execute(LOCK_CANDIDATE).fetchall() == [("deleting",)]


def test_an_intent_waits_for_a_locking_read(
    sweeper: psycopg.Connection, client: psycopg.Connection
) -> None:
    sweeper.execute("INSERT INTO candidate VALUES ('k', 'marked')")
    client.execute(LOCK_CANDIDATE)
    sweeper.execute("SET lock_timeout = '50ms'")

    with pytest.raises(psycopg.errors.LockNotAvailable):
        sweeper.execute("UPDATE candidate SET state = 'deleting'")


def test_a_locking_read_of_an_old_snapshot_fails_on_a_row_that_has_changed(
    sweeper: psycopg.Connection, client: psycopg.Connection
) -> None:
    sweeper.execute("INSERT INTO candidate VALUES ('k', 'marked')")
    client.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    client.execute("SELECT 1 FROM reference")
    sweeper.execute("UPDATE candidate SET state = 'deleting'")

    with pytest.raises(psycopg.errors.SerializationFailure):
        client.execute(LOCK_CANDIDATE)


def test_a_locking_read_of_an_old_snapshot_does_not_see_a_row_that_came_later(
    sweeper: psycopg.Connection, client: psycopg.Connection
) -> None:
    client.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    client.execute("SELECT 1 FROM reference")
    sweeper.execute("INSERT INTO candidate VALUES ('k', 'deleting')")

    assert client.execute(LOCK_CANDIDATE).fetchall() == []


def test_a_plain_read_does_not_see_an_uncommitted_intent(
    sweeper: psycopg.Connection, client: psycopg.Connection
) -> None:
    sweeper.execute("INSERT INTO candidate VALUES ('k', 'marked')")
    with sweeper.transaction():
        sweeper.execute("UPDATE candidate SET state = 'deleting'")
        rows = client.execute("SELECT state FROM candidate").fetchall()

    assert rows == [("marked",)]


@pytest.mark.parametrize(("when", "numbered"), [("BEFORE", False), ("AFTER", True)])
def test_a_trigger_after_the_row_runs_with_a_number_and_one_before_it_without(
    sweeper: psycopg.Connection, client: psycopg.Connection, when: str, numbered: bool
) -> None:
    sweeper.execute(
        "CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " PERFORM set_config('test.numbered',"
        "   (pg_current_xact_id_if_assigned() IS NOT NULL)::text, false);"
        " RETURN NEW; END $$;"
    )
    sweeper.execute(
        f"CREATE TRIGGER looks {when} INSERT ON reference"
        " FOR EACH ROW EXECUTE FUNCTION look()".encode()
    )

    client.execute("INSERT INTO reference VALUES ('k')")

    row = client.execute("SELECT current_setting('test.numbered')").fetchone()
    assert row == (str(numbered).lower(),)
