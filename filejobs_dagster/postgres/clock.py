"""The one clock: the database's."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from filejobs_dagster.postgres.rows import one

if TYPE_CHECKING:
    import psycopg
    from psycopg.rows import TupleRow


def database_now(cursor: psycopg.Cursor[TupleRow]) -> datetime:
    """Return the database's time with its time zone.

    `clock_timestamp()`, not `now()`: the latter is the start of the transaction.
    """
    cursor.execute("SELECT clock_timestamp()")
    moment = one(cursor)[0]
    if not isinstance(moment, datetime):  # pragma: no cover - psycopg's own contract
        raise TypeError(f"clock_timestamp() gave {type(moment).__name__}")
    return moment
