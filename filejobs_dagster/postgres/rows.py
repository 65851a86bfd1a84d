"""Reading rows that must be there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg
    from psycopg.rows import TupleRow


def one(cursor: psycopg.Cursor[TupleRow]) -> tuple[Any, ...]:
    """Return the row that the statement must have given.

    Raises:
        LookupError: There was none; the statement's meaning was misjudged.
    """
    row = cursor.fetchone()
    if row is None:
        raise LookupError("PostgreSQL returned no row where one was certain")
    return row
