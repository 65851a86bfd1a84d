"""A fence holds until everybody who saw the database as it was before has ended."""

from __future__ import annotations

import os
import threading
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import IsolationLevel, sql
from psycopg.conninfo import make_conninfo

from filejobs_dagster.postgres.fence import Fence
from tests.postgres.backends import is_waiting, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.embedded.postgres import EmbeddedPostgres

AT_ONCE = timedelta(0)
SOON = timedelta(seconds=20)
INSERT = "INSERT INTO file (storage_key) VALUES (%s)"


@pytest.fixture
def client(database_url: str) -> Iterator[psycopg.Connection]:
    """Somebody's application."""
    with psycopg.connect(database_url) as client:
        yield client


@pytest.fixture
def role(connection: psycopg.Connection, database_url: str) -> Iterator[str]:
    """The address of the test's database for a role that may see nothing of others."""
    name = f"collector_{os.getpid()}_{threading.get_native_id()}"
    identifier = sql.Identifier(name)
    connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(identifier))
    yield make_conninfo(database_url, user=name)
    connection.execute(sql.SQL("DROP OWNED BY {}").format(identifier))
    connection.execute(sql.SQL("DROP ROLE {}").format(identifier))


def snapshot_xmin_says_that_all_is_over(connection: psycopg.Connection, fence: Fence) -> bool:
    """What is asked of a server by code that knows of transaction ids only."""
    row = connection.execute(
        "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint > %s", (fence.xid,)
    ).fetchone()
    assert row is not None
    return bool(row[0])


def test_with_nobody_at_work_a_fence_is_passed_at_once(connection: psycopg.Connection) -> None:
    fence = Fence.now(connection)
    assert fence.waiting_for(connection) == ()
    assert fence.wait(connection, AT_ONCE)


def test_a_transaction_that_has_written_holds_until_it_ends(
    connection: psycopg.Connection, client: psycopg.Connection
) -> None:
    client.execute(INSERT, ("files/a",))
    fence = Fence.now(connection)
    (blocker,) = fence.waiting_for(connection)
    assert blocker.pid == client.info.backend_pid
    assert "has written" in str(blocker)
    assert not fence.wait(connection, timedelta(milliseconds=50))
    client.commit()
    assert fence.wait(connection, AT_ONCE)


@pytest.mark.parametrize("level", [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE])
def test_an_old_snapshot_without_an_id_holds_too_because_it_may_write_later(
    connection: psycopg.Connection, client: psycopg.Connection, level: IsolationLevel
) -> None:
    client.isolation_level = level
    client.execute("SELECT FROM file")
    fence = Fence.now(connection)
    (blocker,) = fence.waiting_for(connection)
    assert "snapshot" in blocker.why
    assert not fence.wait(connection, AT_ONCE)
    client.execute(INSERT, ("files/a",))
    assert not fence.wait(connection, AT_ONCE)
    client.commit()
    assert fence.wait(connection, AT_ONCE)


def test_the_oldest_transaction_id_alone_misses_a_snapshot_that_writes_later_control(
    connection: psycopg.Connection, client: psycopg.Connection
) -> None:
    client.isolation_level = IsolationLevel.REPEATABLE_READ
    client.execute("SELECT FROM file")
    fence = Fence.now(connection)
    assert snapshot_xmin_says_that_all_is_over(connection, fence)
    client.execute(INSERT, ("files/a",))
    client.commit()


def test_whoever_begins_afterwards_does_not_hold(
    connection: psycopg.Connection, client: psycopg.Connection
) -> None:
    fence = Fence.now(connection)
    client.isolation_level = IsolationLevel.REPEATABLE_READ
    client.execute(INSERT, ("files/a",))
    client.execute("SELECT FROM file")
    assert fence.wait(connection, AT_ONCE)


def test_a_session_that_has_read_and_has_no_snapshot_any_more_does_not_hold(
    connection: psycopg.Connection, client: psycopg.Connection
) -> None:
    """READ COMMITTED: its next statement sees the intent."""
    client.execute("SELECT FROM file")
    assert Fence.now(connection).wait(connection, AT_ONCE)


def test_a_statement_at_work_holds_until_it_is_done(
    connection: psycopg.Connection, client: psycopg.Connection, database_url: str
) -> None:
    with psycopg.connect(database_url) as lock:
        lock.execute("LOCK TABLE orphan_pass")
        client.autocommit = True
        thread = threading.Thread(
            target=client.execute,
            args=("INSERT INTO orphan_pass SELECT orphan_pass.* FROM orphan_pass",),
        )
        thread.start()
        wait_until(lambda: is_waiting(connection, client.info.backend_pid), "it waits")
        fence = Fence.now(connection)
        held = not fence.wait(connection, AT_ONCE)
        lock.rollback()
        thread.join()
    assert held
    assert fence.wait(connection, SOON)


def test_it_waits_for_as_long_as_it_was_told_and_asks_in_between(
    connection: psycopg.Connection, client: psycopg.Connection
) -> None:
    client.execute(INSERT, ("files/a",))
    fence = Fence.now(connection)
    asked: list[None] = []

    def commit_at_the_third() -> None:
        asked.append(None)
        if len(asked) == 3:
            client.commit()

    assert fence.wait(connection, SOON, while_waiting=commit_at_the_third)
    assert len(asked) == 3


def test_what_is_raised_while_waiting_ends_the_waiting(
    connection: psycopg.Connection, client: psycopg.Connection
) -> None:
    def lost() -> None:
        raise RuntimeError("given up for dead")

    client.execute(INSERT, ("files/a",))
    with pytest.raises(RuntimeError, match="given up for dead"):
        Fence.now(connection).wait(connection, SOON, while_waiting=lost)


def test_another_database_holds_nothing_here(
    connection: psycopg.Connection, empty_database_url: str
) -> None:
    with psycopg.connect(empty_database_url) as elsewhere:
        elsewhere.execute("CREATE TABLE other (id integer)")
        fence = Fence.now(connection)
        assert not snapshot_xmin_says_that_all_is_over(connection, fence)
        assert fence.wait(connection, AT_ONCE)


def test_a_fence_inside_a_transaction_is_refused(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("SELECT 1")
        with pytest.raises(ValueError, match="INTRANS, not IDLE"):
            Fence.now(connection)


def test_whoever_waits_inside_a_transaction_is_refused(
    connection: psycopg.Connection, database_url: str
) -> None:
    fence = Fence.now(connection)
    with psycopg.connect(database_url) as inside:
        inside.execute("SELECT 1")
        with pytest.raises(ValueError, match="keeps its first answer"):
            fence.waiting_for(inside)
        with pytest.raises(ValueError, match="INTRANS, not IDLE"):
            fence.wait(inside, AT_ONCE)


def test_inside_a_transaction_the_server_keeps_what_it_said_of_its_sessions_control(
    connection: psycopg.Connection, client: psycopg.Connection, database_url: str
) -> None:
    who_has_written = "SELECT count(*) FROM pg_stat_activity WHERE backend_xid IS NOT NULL"
    with psycopg.connect(database_url) as inside:
        assert inside.execute(who_has_written).fetchone() == (0,)
        client.execute(INSERT, ("files/a",))
        assert inside.execute(who_has_written).fetchone() == (0,)
    assert connection.execute(who_has_written).fetchone() == (1,)


# What a role may see


def test_a_role_without_rights_sees_whoever_has_written_and_old_snapshots(
    role: str, client: psycopg.Connection, database_url: str
) -> None:
    with (
        psycopg.connect(role, autocommit=True) as unprivileged,
        psycopg.connect(database_url) as reader,
    ):
        client.execute(INSERT, ("files/a",))
        reader.isolation_level = IsolationLevel.REPEATABLE_READ
        reader.execute("SELECT FROM file")
        hidden = unprivileged.execute(
            "SELECT query FROM pg_stat_activity WHERE pid = %s", (client.info.backend_pid,)
        ).fetchone()
        assert hidden == ("<insufficient privilege>",)
        fence = Fence.now(unprivileged)
        pids = {blocker.pid for blocker in fence.waiting_for(unprivileged)}
        assert pids == {client.info.backend_pid, reader.info.backend_pid}
        client.rollback()
        reader.rollback()
        assert fence.wait(unprivileged, AT_ONCE)


def test_a_server_that_hides_who_has_written_makes_the_fence_hold(
    connection: psycopg.Connection, client: psycopg.Connection
) -> None:
    """No known server does; a view of that name stands in for one."""
    client.execute(INSERT, ("files/a",))
    connection.execute(
        """
        CREATE SCHEMA hiding;
        CREATE VIEW hiding.pg_stat_activity AS
        SELECT datid, pid, usesysid, application_name, NULL::text AS backend_type,
               NULL::xid AS backend_xid, NULL::xid AS backend_xmin
          FROM pg_catalog.pg_stat_activity;
        SET search_path = hiding, pg_catalog, public
        """
    )
    fence = Fence.now(connection)
    (blocker,) = fence.waiting_for(connection)
    assert (blocker.pid, "does not show" in blocker.why) == (client.info.backend_pid, True)
    client.commit()
    assert fence.wait(connection, AT_ONCE)


def test_the_servers_own_processes_have_no_user_and_hold_nothing(
    connection: psycopg.Connection,
) -> None:
    rows = connection.execute(
        "SELECT backend_type FROM pg_stat_activity WHERE usesysid IS NULL"
    ).fetchall()
    assert {("checkpointer",), ("autovacuum launcher",)} <= set(rows)
    assert Fence.now(connection).wait(connection, AT_ONCE)


# Prepared transactions


def test_a_prepared_transaction_holds_until_somebody_ends_it(
    separate_postgres_server: EmbeddedPostgres,
) -> None:
    server = separate_postgres_server
    url = server.create_database("prepared")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET max_prepared_transactions = 2")
    server.restart()
    with psycopg.connect(url, autocommit=True) as connection, psycopg.connect(url) as client:
        connection.execute("CREATE TABLE file (storage_key text)")
        client.execute(INSERT, ("files/a",))
        client.execute("PREPARE TRANSACTION 'half done'")
        client.commit()
        fence = Fence.now(connection)
        (blocker,) = fence.waiting_for(connection)
        assert (blocker.pid, blocker.name) == (None, "half done")
        assert "a prepared transaction" in str(blocker)
        assert not fence.wait(connection, AT_ONCE)
        connection.execute("COMMIT PREPARED 'half done'")
        assert fence.wait(connection, AT_ONCE)
