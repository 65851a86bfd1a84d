"""A verdict does not depend on the session, nor on what the judged database would like."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import psycopg
import pytest

from filejobs_dagster.audit.rows import Position, genesis, scan
from filejobs_dagster.audit.session import snapshot, table
from filejobs_dagster.audit.verify import Full, Incremental, Rolling, part_of_day
from tests.audit.world import World, event_hash

if TYPE_CHECKING:
    from collections.abc import Iterator

ODD_SESSIONS = [
    ("TimeZone", "Asia/Kathmandu"),
    ("DateStyle", "German"),
    ("IntervalStyle", "sql_standard"),
    ("client_encoding", "LATIN1"),
    ("bytea_output", "escape"),
    ("extra_float_digits", "-15"),
    ("standard_conforming_strings", "off"),
    ("search_path", "nowhere"),
    ("enable_indexscan", "off"),
    ("default_transaction_isolation", "serializable"),
]


@pytest.fixture
def odd_world(shared_world: World) -> Iterator[World]:
    """The shared world seen through a connection of the test's own."""
    with shared_world.database.connect("odd") as connection:
        yield replace(shared_world, connection=connection)


@pytest.mark.parametrize(("name", "value"), ODD_SESSIONS)
def test_the_session_changes_no_verdict(odd_world: World, name: str, value: str) -> None:
    odd_world.connection.execute("SELECT pg_catalog.set_config(%s, %s, false)", (name, value))
    assert odd_world.verify().clean
    assert odd_world.verify(mode=Rolling(2, 1)).clean


def test_sealing_in_an_odd_session_gives_a_note_like_any_other(own_world: World) -> None:
    for name, value in ODD_SESSIONS[:7]:
        own_world.connection.execute("SELECT set_config(%s, %s, false)", (name, value))
    own_world.append(3)
    own_world.seal()
    own_world.trim(batch=30)
    own_world.connection.execute("RESET ALL")
    assert own_world.verify().clean


def test_functions_of_the_judged_schema_are_not_called(own_world: World) -> None:
    """CONTROL: a check that calls what the schema offers believes the forger."""
    connection = own_world.connection
    connection.execute(
        "CREATE FUNCTION public.sha256(bytea) RETURNS bytea LANGUAGE sql IMMUTABLE AS"
        " $$ SELECT body_hash FROM audit_event WHERE seq = 80 $$"
    )
    with connection.transaction():
        connection.execute("SET LOCAL session_replication_role = replica")
        connection.execute("UPDATE audit_event SET body = '{}' WHERE seq = 80")
    careless = (
        "SELECT count(*) FROM audit_event"
        " WHERE seq = 80 AND body_hash <> sha256(convert_to(body, 'UTF8'))"
    )
    connection.execute("SET search_path = public, pg_catalog")
    assert own_world.value(careless) == 0, "CONTROL: the forged function was called"
    assert own_world.verify().codes == {"EV_BODY"}


def test_a_policy_that_hides_rows_raises_and_looks_like_nothing_else(own_world: World) -> None:
    connection = own_world.connection
    connection.execute("CREATE ROLE blinded_verifier")
    connection.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO blinded_verifier")
    connection.execute("ALTER TABLE audit_event ENABLE ROW LEVEL SECURITY")
    connection.execute("CREATE POLICY partly ON audit_event USING (seq < 90)")
    connection.execute("SET ROLE blinded_verifier")
    try:
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
            own_world.verify()
    finally:
        connection.execute("RESET ROLE")
        connection.execute("DROP OWNED BY blinded_verifier")
        connection.execute("DROP ROLE blinded_verifier")


def test_every_digit_of_a_microsecond_and_an_hour_that_comes_twice(empty_world: World) -> None:
    """In Berlin this hour came twice; the hash is over microseconds since 2000, in UTC."""
    moments = [
        datetime(2026, 10, 25, 0, 30, 0, 123456, tzinfo=timezone.utc),
        datetime(2026, 10, 25, 1, 30, 0, 654321, tzinfo=timezone.utc),
    ]
    previous = genesis("a")
    with empty_world.connection.transaction():
        empty_world.connection.execute(
            "INSERT INTO audit_chain VALUES ('a', %s, 0, %s, %s)", (previous, previous, moments[0])
        )
        for seq, moment in enumerate(moments, 1):
            own = event_hash("a", seq, moment, previous, "{}")
            empty_world.connection.execute(
                "INSERT INTO audit_event VALUES ('a', %s, %s, '{}', sha256('{}'), %s, %s, 1)",
                (seq, moment, previous, own),
            )
            previous = own
        empty_world.connection.execute(
            "UPDATE audit_chain SET head_seq = 2, head_hash = %s", (previous,)
        )
    empty_world.connection.execute("SET TimeZone = 'Europe/Berlin'")
    assert empty_world.verify().clean
    with empty_world.connection.transaction():
        empty_world.connection.execute("SET LOCAL session_replication_role = replica")
        empty_world.connection.execute(
            "UPDATE audit_event SET recorded_at = date_trunc('milliseconds', recorded_at)"
        )
    assert empty_world.verify().codes == {"EV_HASH"}


def test_a_verdict_is_one_moment_while_others_append(own_world: World) -> None:
    """CONTROL: in READ COMMITTED the head row is newer than the rows that were read."""
    with own_world.database.connect("appender") as connection:
        other = World(own_world.database, connection)
        with snapshot(own_world.database, own_world.connection) as cursor:
            start = Position(0, genesis("a"), None)
            events = table(own_world.database, "audit_event")
            before = scan(cursor, events, "a", start).last.seq
            other.append(5)
            cursor.execute("SELECT head_seq FROM public.audit_chain WHERE chain_id = 'a'")
            assert cursor.fetchone() == (before,)
        with own_world.database.transaction(own_world.connection) as cursor:
            before = scan(cursor, events, "a", start).last.seq
            other.append(5)
            cursor.execute("SELECT head_seq FROM audit_chain WHERE chain_id = 'a'")
            assert cursor.fetchone() == (before + 5,), "CONTROL: a false alarm"


def test_the_result_is_plain_json(shared_world: World) -> None:
    plain = json.loads(json.dumps(shared_world.verify().as_json()))
    assert plain["verdict"] == "matches"
    assert plain["ranges"] == [[51, 109]]
    assert plain["codes"] == []
    assert plain["unprotected"] == 3
    assert datetime.fromisoformat(plain["checked_at"]).tzinfo is not None


def test_an_incremental_look_starts_at_the_pin_of_the_seal_that_is_named(
    shared_world: World,
) -> None:
    assert shared_world.verify(mode=Incremental()).ranges == ((107, 109),)
    assert shared_world.verify(mode=Incremental(4)).ranges == ((101, 109),)
    assert shared_world.verify(mode=Incremental(1)).ranges == ((51, 109),)
    assert str(shared_world.verify(mode=Full()).mode) == "full"


def test_parts_follow_each_other_day_by_day() -> None:
    monday = datetime(2026, 11, 30, tzinfo=timezone.utc)
    parts = [part_of_day(monday + timedelta(days=day), 7) for day in range(7)]
    assert sorted(parts) == list(range(7))
    with pytest.raises(ValueError, match="no part 7 of 7"):
        Rolling(7, 7)
