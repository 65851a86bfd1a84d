"""Locks: one holder, freed with the holder's death, proven before anything is destroyed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import psycopg
import pytest

from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.postgres.locks import (
    Lease,
    LeaseLost,
    LockTaken,
    exclusive_lock,
    holding_session,
    is_held,
    lock_number,
    run_lock,
    try_lock,
)
from tests.postgres.backends import set_for_database, terminate, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

RUN = run_lock("public", "run 1")
LIVE = exclusive_lock("public", "upload_reservations")


@pytest.fixture
def database(database_url: str) -> Database:
    return Database(database_url)


@pytest.fixture
def lease(database: Database) -> Iterator[Lease]:
    lease = Lease(database, "test")
    yield lease
    lease.release()


def held(connection: psycopg.Connection, name: str) -> bool:
    with connection.cursor() as cursor:
        return is_held(cursor, name)


def holder(connection: psycopg.Connection, name: str) -> int:
    with connection.cursor() as cursor:
        session = holding_session(cursor, name)
    assert session is not None
    return session


def test_numbers_are_signed_64_bits_and_differ_by_schema_kind_and_name() -> None:
    names = [
        run_lock("public", "a"),
        run_lock("files", "a"),
        run_lock("public", "b"),
        exclusive_lock("public", "a"),
        *(run_lock("public", str(number)) for number in range(200)),
    ]
    numbers = {lock_number(name) for name in names}
    assert len(numbers) == len(names)
    assert min(numbers) < 0 < max(numbers)
    assert all(-(2**63) <= number < 2**63 for number in numbers)


def test_every_number_is_found_in_the_servers_list(
    database: Database, connection: psycopg.Connection
) -> None:
    """Negative ones and halves beyond 2^31 too."""
    names = [run_lock("public", str(number)) for number in range(20)]
    with psycopg.connect(database.url) as other, other.cursor() as cursor:
        for name in names:
            assert not held(connection, name)
            assert try_lock(cursor, name)
            assert held(connection, name)
    assert not any(held(connection, name) for name in names)


def test_only_one_holds_it_and_the_other_is_told_its_name(
    database: Database, lease: Lease, connection: psycopg.Connection
) -> None:
    lease.take(LIVE)
    other = Lease(database, "other")
    other.take(RUN)
    with pytest.raises(LockTaken) as taken:
        other.take(LIVE)
    assert taken.value.name == LIVE
    assert held(connection, RUN)
    other.prove()
    other.release()
    assert not held(connection, RUN)
    assert held(connection, LIVE)


def test_a_released_lease_is_free_at_once_and_never_comes_back(
    lease: Lease, connection: psycopg.Connection
) -> None:
    lease.take(RUN)
    lease.release()
    assert not held(connection, RUN)
    with pytest.raises(LeaseLost, match="released"):
        lease.prove()
    with pytest.raises(LeaseLost, match="released"):
        lease.take(LIVE)
    assert not held(connection, RUN)
    assert not held(connection, LIVE)


def test_it_is_freed_when_the_backend_is_terminated(
    lease: Lease, connection: psycopg.Connection
) -> None:
    lease.take(RUN)
    terminate(connection, holder(connection, RUN))
    assert not held(connection, RUN)


def test_it_is_freed_when_the_process_is_killed(
    database: Database, connection: psycopg.Connection
) -> None:
    program = (
        "import sys, time\n"
        "from filejobs_dagster.postgres.connect import Database\n"
        "from filejobs_dagster.postgres.locks import Lease\n"
        "lease = Lease(Database(sys.argv[1]), 'child')\n"
        "lease.take(sys.argv[2])\n"
        "print('held', flush=True)\n"
        "time.sleep(120)\n"
    )
    command = [sys.executable, "-c", program, database.url, RUN]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        assert held(connection, RUN)
        child.send_signal(signal.SIGKILL)
        child.wait()
    wait_until(lambda: not held(connection, RUN), "the server frees it", seconds=5)


def test_proving_takes_every_lock_again_after_the_connection_broke(
    lease: Lease, connection: psycopg.Connection
) -> None:
    lease.take(RUN)
    lease.take(LIVE)
    first = holder(connection, RUN)
    terminate(connection, first)
    lease.prove()
    assert holder(connection, RUN) == holder(connection, LIVE) != first


def test_proving_right_after_the_break_does_not_meet_its_own_ghost(
    lease: Lease, connection: psycopg.Connection
) -> None:
    lease.take(RUN)
    for _ in range(30):
        connection.execute("SELECT pg_terminate_backend(%s)", (holder(connection, RUN),))
        lease.prove()
        assert held(connection, RUN)


def test_proving_fails_when_somebody_else_took_one_meanwhile(
    database: Database, lease: Lease, connection: psycopg.Connection
) -> None:
    lease.take(RUN)
    lease.take(LIVE)
    terminate(connection, holder(connection, LIVE))
    other = Lease(database, "other")
    other.take(LIVE)
    with pytest.raises(LeaseLost, match="could not be taken again") as lost:
        lease.prove()
    # Half of its locks would make a run look alive that must stop. `lost` keeps the traceback.
    assert lost.value.__cause__ is not None
    wait_until(lambda: not held(connection, RUN), "no half is held", seconds=5)
    other.release()
    wait_until(lambda: not held(connection, LIVE), "the other is gone", seconds=5)
    lease.prove()
    assert holder(connection, RUN) == holder(connection, LIVE)


def test_taking_one_more_lock_after_a_break_brings_the_first_back(
    database: Database, lease: Lease, connection: psycopg.Connection
) -> None:
    lease.take(RUN)
    terminate(connection, holder(connection, RUN))
    other = Lease(database, "other")
    other.take(RUN)
    with pytest.raises(LeaseLost):
        lease.prove()
    other.release()
    wait_until(lambda: not held(connection, RUN), "the other is gone", seconds=5)
    lease.take(LIVE)
    assert holder(connection, RUN) == holder(connection, LIVE)


def test_a_transaction_that_failed_is_no_proof(
    lease: Lease, connection: psycopg.Connection
) -> None:
    lease.take(RUN)
    assert lease._connection is not None
    with pytest.raises(psycopg.errors.DivisionByZero):
        lease._connection.execute("SELECT 1 / 0")
    lease.prove()
    assert held(connection, RUN)
    lease._connection.rollback()
    assert not held(connection, RUN)
    lease.prove()
    assert held(connection, RUN)


def test_it_survives_the_timeouts_that_end_idle_transactions(
    database: Database, connection: psycopg.Connection
) -> None:
    set_for_database(connection, "idle_in_transaction_session_timeout", "200ms")
    set_for_database(connection, "transaction_timeout", "300ms")
    set_for_database(connection, "statement_timeout", "250ms")
    lease = Lease(database, "test")
    lease.take(RUN)
    careless = psycopg.connect(database.url)
    with careless.cursor() as cursor:
        assert try_lock(cursor, LIVE)
    session = holder(connection, RUN)
    time.sleep(1)
    assert holder(connection, RUN) == session
    # CONTROL: a transaction without those settings is gone.
    assert not held(connection, LIVE)
    careless.close()
    lease.release()


def test_it_holds_back_no_vacuum(
    database: Database, lease: Lease, connection: psycopg.Connection
) -> None:
    lease.take(RUN)
    lease.prove()
    query = "SELECT state, backend_xmin, backend_xid FROM pg_stat_activity WHERE pid = %s"
    row = connection.execute(query, (holder(connection, RUN),)).fetchone()
    assert row == ("idle in transaction", None, None)
    # CONTROL: a higher isolation keeps its snapshot.
    with psycopg.connect(database.url) as careless:
        careless.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        with careless.cursor() as cursor:
            assert try_lock(cursor, LIVE)
        row = connection.execute(query, (careless.info.backend_pid,)).fetchone()
    assert row is not None
    assert row[1] is not None


def test_looking_does_not_stand_in_the_way(database: Database, lease: Lease) -> None:
    with psycopg.connect(database.url) as watcher, watcher.cursor() as cursor:
        assert not is_held(cursor, RUN)
        lease.take(RUN)


def test_control_trying_the_lock_to_find_out_stands_in_the_way(
    database: Database, lease: Lease
) -> None:
    with psycopg.connect(database.url) as watcher, watcher.cursor() as cursor:
        assert try_lock(cursor, RUN)
        with pytest.raises(LockTaken):
            lease.take(RUN)


def test_the_same_name_in_another_database_is_another_lock(
    lease: Lease, empty_database_url: str
) -> None:
    lease.take(RUN)
    with psycopg.connect(empty_database_url) as elsewhere, elsewhere.cursor() as cursor:
        assert not is_held(cursor, RUN)
        assert try_lock(cursor, RUN)


def test_one_more_lock_for_a_while_needs_no_connection_and_leaves_the_others(
    database: Database, lease: Lease
) -> None:
    other = Lease(database, "other")
    try:
        lease.take("run")
        with lease.for_a_while("chain"):
            lease.prove()
            with pytest.raises(LockTaken), other.for_a_while("chain"):
                pass
        with other.for_a_while("chain"):
            with pytest.raises(LockTaken), lease.for_a_while("chain"):
                pass
            with pytest.raises(LockTaken):
                other.take("run")
        lease.prove()
    finally:
        other.release()


def test_a_lock_for_a_while_is_taken_again_with_the_others_and_given_back_alone(
    database: Database, lease: Lease, connection: psycopg.Connection
) -> None:
    other = Lease(database, "other")
    try:
        lease.take("run")
        with lease.for_a_while("chain"):
            terminate(connection, holder(connection, "chain"))
            lease.prove()
            with pytest.raises(LockTaken), other.for_a_while("chain"):
                pass
        lease.prove()
        with other.for_a_while("chain"), pytest.raises(LockTaken):
            other.take("run")
    finally:
        other.release()
