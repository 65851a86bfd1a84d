"""What the audit log's benchmarks compare with finds and does what it is said to find and do."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from benchmarks.audit_chain import CHAIN, AuditLog, event
from benchmarks.audit_one_by_one import BARE_TABLE, append_bare, check_in_a_loop, count_forks
from benchmarks.processor import own_and_server_seconds
from filejobs_dagster.audit.append import append, canonical
from filejobs_dagster.audit.verify import verify_chain

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from filejobs_dagster.postgres.connect import Connection

EVENTS = 12


@pytest.fixture
def log(database_url: str, tmp_path: Path) -> AuditLog:
    return AuditLog.make(database_url, tmp_path)


@pytest.fixture
def connection(log: AuditLog) -> Iterator[Connection]:
    with log.database.connect("tests") as connection:
        yield connection


def test_a_chain_that_was_filled_in_the_past_is_one_that_appending_goes_on_with(
    log: AuditLog, connection: Connection
) -> None:
    log.append_in_the_past(EVENTS, timedelta(days=2))
    log.seal()
    log.append_in_the_past(EVENTS, timedelta(days=1))
    with log.database.transaction(connection) as cursor:
        assert append(cursor, [event(1)], chain=CHAIN) == (2 * EVENTS + 1, 2 * EVENTS + 1)
    found = verify_chain(log.database, connection, CHAIN, log.verify_policy)
    assert (found.clean, found.rows, found.pinned_to) == (True, 2 * EVENTS + 1, EVENTS)
    assert check_in_a_loop(connection) == (2 * EVENTS + 1, [])


@pytest.mark.parametrize(
    ("damage", "wrong"),
    [
        ("UPDATE audit_event SET body = '{}' WHERE seq = 5", [5]),
        ("UPDATE audit_event SET recorded_at = recorded_at + '1us' WHERE seq = 12", [12]),
        ("UPDATE audit_event SET hash = sha256('') WHERE seq = 5", [5, 6]),
        ("DELETE FROM audit_event WHERE seq = 12; UPDATE audit_event SET alg = 1", []),
    ],
)
def test_the_loop_finds_the_damage_that_the_verifier_finds_but_for_an_end_cut_off(
    log: AuditLog, connection: Connection, damage: str, wrong: list[int]
) -> None:
    log.append_in_the_past(EVENTS, timedelta(days=1))
    connection.execute("SET session_replication_role = replica")
    connection.execute(damage.encode())
    assert check_in_a_loop(connection)[1] == wrong
    found = verify_chain(log.database, connection, CHAIN, log.verify_policy)
    assert not found.clean
    if wrong:
        assert min(one.seq or EVENTS for one in found.findings) == wrong[0]


def test_two_bare_appends_at_once_fork_the_chain(log: AuditLog, connection: Connection) -> None:
    connection.execute(BARE_TABLE)
    append_bare(connection, CHAIN, canonical(event(1)))
    assert count_forks(connection) == (1, 0)
    with log.database.connect("second") as second, second.transaction():
        append_bare(second, CHAIN, canonical(event(2)))
        append_bare(connection, CHAIN, canonical(event(3)))
    assert count_forks(connection) == (3, 1)


def test_the_servers_processor_time_counts(connection: Connection) -> None:
    before = own_and_server_seconds()
    with_server = own_and_server_seconds(connection)
    connection.execute("SELECT sum(hashint8(n)) FROM generate_series(1, 1000000) AS n")
    own = own_and_server_seconds() - before
    assert own_and_server_seconds(connection) - with_server > own >= 0
