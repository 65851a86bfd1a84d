"""Legal holds: nothing from an event on is trimmed until the hold is released.

The trim takes away a prefix only, so a hold on a file keeps everything from the file's first event
on. Setting and releasing are events of the chain, in the same transaction as the row; the setting
event stands behind the first event that it holds, so it cannot be trimmed before its release.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg import sql

from filejobs_dagster.audit.append import append, own_events, text_field
from filejobs_dagster.audit.session import table
from filejobs_dagster.postgres.connect import one

if TYPE_CHECKING:
    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.postgres.connect import Database

SET = "audit.hold.set"
RELEASED = "audit.hold.released"


class HoldRefused(Exception):
    """The hold cannot be set or released as asked; the message says why."""


@dataclass(frozen=True)
class HoldRow:
    """One row of `audit_hold`."""

    hold_id: str
    from_seq: int
    released: bool
    set_event_seq: int
    release_event_seq: int | None


@dataclass(frozen=True)
class HoldEvent:
    """A live event that sets or releases a hold.

    Attributes:
        seq: Its number.
        kind: `SET` or `RELEASED`.
        hold_id: Which hold.
        from_seq: As text in the event; None in a release.
    """

    seq: int
    kind: str
    hold_id: str | None
    from_seq: str | None


@dataclass(frozen=True)
class Hold:
    """A hold that stands.

    Attributes:
        hold_id: Its name.
        from_seq: Nothing from this event on is trimmed.
    """

    hold_id: str
    from_seq: int


def set_hold(
    cursor: psycopg.Cursor[TupleRow],
    *,
    chain: str,
    actor: str,
    reason: str,
    file_id: str | None = None,
    from_seq: int | None = None,
) -> Hold:
    """Hold the events of a file, or everything from an event on, in the caller's transaction.

    The chain's head stays locked until that transaction ends, so this is its last statement.

    Args:
        cursor: In a transaction of `Database.transaction`.
        chain: Which chain.
        actor: Who sets it.
        reason: Why, in words.
        file_id: The file whose events are held. One without events is held from now on.
        from_seq: The first event that is held; neither this nor `file_id` holds the whole chain.

    Raises:
        HoldRefused: There is no such chain, or both were given.
    """
    if file_id is not None and from_seq is not None:
        raise HoldRefused("A hold is on a file or from an event on, not both: leave one out.")
    # The lock of an append, taken first: a trim that is about to commit ends before the first
    # event is looked for, or sees this hold.
    cursor.execute("SELECT head_seq FROM audit_chain WHERE chain_id = %s FOR UPDATE", (chain,))
    head = cursor.fetchone()
    if head is None:
        raise HoldRefused(f"There is no chain {chain!r} to hold: see the names in audit_chain.")
    first = from_seq if from_seq is not None else _first_event(cursor, chain, file_id, head[0])
    hold = Hold(str(uuid.uuid4()), max(1, first))
    event = {
        "kind": SET,
        "hold_id": hold.hold_id,
        "from_seq": str(hold.from_seq),
        "reason": reason,
        "by": actor,
    }
    seq = _append(cursor, chain, event if file_id is None else {**event, "file_id": file_id})
    cursor.execute(
        "INSERT INTO audit_hold (hold_id, chain_id, from_seq, file_id, reason, set_at, set_by,"
        " set_event_seq) VALUES (%s, %s, %s, %s, %s, clock_timestamp(), %s, %s)",
        (hold.hold_id, chain, hold.from_seq, file_id, reason, actor, seq),
    )
    return hold


def release_hold(cursor: psycopg.Cursor[TupleRow], *, hold_id: str, actor: str) -> None:
    """Release a hold, in the caller's transaction, as its last statement.

    Raises:
        HoldRefused: There is no such hold, or it was released before.
    """
    cursor.execute(
        "SELECT chain_id, released_at IS NOT NULL FROM audit_hold WHERE hold_id = %s FOR UPDATE",
        (hold_id,),
    )
    row = cursor.fetchone()
    if row is None:
        raise HoldRefused(f"There is no hold {hold_id!r}: see hold_id in audit_hold.")
    if row[1]:
        raise HoldRefused(f"The hold {hold_id!r} was released before.")
    seq = _append(cursor, row[0], {"kind": RELEASED, "hold_id": hold_id, "by": actor})
    cursor.execute(
        "UPDATE audit_hold SET released_at = clock_timestamp(), released_by = %s,"
        " release_event_seq = %s WHERE hold_id = %s",
        (actor, seq, hold_id),
    )


def active_holds(cursor: psycopg.Cursor[TupleRow], database: Database, chain: str) -> list[Hold]:
    """The holds that stand, by the rows and by the events: either is enough to hold.

    Returns:
        In the order of the first event that each holds.
    """
    rows, events = read_holds(cursor, database, chain)
    released = {event.hold_id for event in events if event.kind == RELEASED}
    found = {row.hold_id: Hold(row.hold_id, row.from_seq) for row in rows if not row.released}
    for event in events:
        if event.kind == SET and event.hold_id is not None and event.hold_id not in released:
            first = int(event.from_seq or 1) if (event.from_seq or "").isdecimal() else 1
            known = found.get(event.hold_id)
            if known is None or first < known.from_seq:
                found[event.hold_id] = Hold(event.hold_id, first)
    return sorted(found.values(), key=lambda hold: (hold.from_seq, hold.hold_id))


def read_holds(
    cursor: psycopg.Cursor[TupleRow], database: Database, chain: str
) -> tuple[list[HoldRow], list[HoldEvent]]:
    """Read the rows of a chain's holds, and the live events that made them."""
    cursor.execute(
        sql.SQL(
            "SELECT hold_id, from_seq, released_at IS NOT NULL, set_event_seq, release_event_seq"
            " FROM {} WHERE chain_id = %s ORDER BY hold_id"
        ).format(table(database, "audit_hold")),
        (chain,),
    )
    rows = [HoldRow(*row) for row in cursor.fetchall()]
    events = own_events(cursor, table(database, "audit_event"), chain, SET, RELEASED)
    return rows, [
        HoldEvent(seq, str(body["kind"]), text_field(body, "hold_id"), text_field(body, "from_seq"))
        for seq, body in events
    ]


def _first_event(
    cursor: psycopg.Cursor[TupleRow], chain: str, file_id: str | None, head_seq: int
) -> int:
    if file_id is None:
        cursor.execute("SELECT min(seq) FROM audit_event WHERE chain_id = %s", (chain,))
    else:
        cursor.execute(
            "SELECT min(seq) FROM audit_event WHERE chain_id = %s AND body LIKE '%%\"file_id\"%%'"
            " AND left(body::jsonb ->> 'file_id', 200) = left(%s::text, 200)"
            " AND body::jsonb ->> 'file_id' = %s",
            (chain, file_id, file_id),
        )
    first = one(cursor)[0]
    return int(head_seq) + 1 if first is None else int(first)


def _append(cursor: psycopg.Cursor[TupleRow], chain: str, event: dict[str, Any]) -> int:
    numbers = append(cursor, [event], chain=chain)
    if numbers is None:  # pragma: no cover - there is one event
        raise LookupError("an event was appended and has no number")
    return numbers[0]
