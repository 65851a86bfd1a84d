"""Reading the chain's own events costs what they are, not what the table is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.audit.append import own_events
from filejobs_dagster.audit.holds import RELEASED, SET
from filejobs_dagster.audit.session import table

if TYPE_CHECKING:
    from tests.audit.world import World


def test_the_events_of_holds_are_found_by_their_index_in_a_table_of_many(
    empty_world: World,
) -> None:
    world = empty_world
    world.append(3000, text="x" * 200)
    hold = world.hold(from_seq=70)
    world.release(hold)
    world.connection.execute("ANALYZE audit_event")
    with world.database.transaction(world.connection) as cursor:
        before = _rows_read(world)
        found = own_events(cursor, table(world.database, "audit_event"), "a", SET, RELEASED)
        read = _rows_read(world) - before
        # CONTROL: without the words of the index's condition every row is read.
        cursor.execute(
            "SELECT seq FROM audit_event WHERE chain_id = 'a' AND body LIKE ANY(%s)",
            ([f'%"{SET}"%'],),
        )
        careless = _rows_read(world) - before - read
    assert [(seq, body["hold_id"]) for seq, body in found] == [(3001, hold), (3002, hold)]
    assert read == 0
    assert careless == 3002


def _rows_read(world: World) -> int:
    """Rows that sequential scans of this transaction have read."""
    return int(world.value("SELECT pg_stat_get_xact_tuples_returned('audit_event'::regclass)"))
