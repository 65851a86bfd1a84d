"""The events that the chain's own work leaves in it: trims, holds.

Bodies are read here and not by PostgreSQL: it refuses a whole statement for one body that is no
JSON, and a body that somebody damaged must be a finding, not an outage.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from psycopg import sql

if TYPE_CHECKING:
    import psycopg
    from psycopg.rows import TupleRow


def own_events(
    cursor: psycopg.Cursor[TupleRow],
    events: sql.Identifier,
    chain: str,
    *kinds: str,
) -> list[tuple[int, dict[str, Any]]]:
    """Read the live events of some kinds, with their numbers, in order.

    A body that is no JSON object is of no kind: what is wrong with it is told by its hash.

    Args:
        cursor: In any transaction.
        events: `audit_event` with its schema.
        chain: Which chain.
        kinds: Such as `audit.trim`; each begins with `audit.`.
    """
    cursor.execute(
        sql.SQL(
            # The first LIKE is the condition of an index, word for word; without it the whole table
            # is read, and a trim does this in every batch.
            "SELECT seq, body FROM {} WHERE chain_id = %s AND body LIKE '%%\"audit.%%'"
            " AND body LIKE ANY(%s) ORDER BY seq"
        ).format(events),
        (chain, [f'%"{kind}"%' for kind in kinds]),
    )
    found = [(int(seq), read_body(body)) for seq, body in cursor.fetchall()]
    return [(seq, body) for seq, body in found if body.get("kind") in kinds]


def text_field(body: dict[str, Any], name: str) -> str | None:
    """A field as text; None when it is missing or null."""
    value = body.get(name)
    return value if value is None or isinstance(value, str) else json.dumps(value)


def read_body(body: str) -> dict[str, Any]:
    """Read the body of an event, whatever an application has written; {} when it is no object.

    An integer with more digits than Python reads stays the text that it was.
    """
    try:
        read = json.loads(body, parse_int=_whole)
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}


def _whole(digits: str) -> int | str:
    try:
        return int(digits)
    except ValueError:
        return digits
