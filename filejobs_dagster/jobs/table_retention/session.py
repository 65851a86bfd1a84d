"""Transactions in which the operator's names and conditions mean what they mean to the role."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeAlias

import psycopg
from psycopg.rows import TupleRow, tuple_row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.postgres.connect import Connection, Database

Raw: TypeAlias = psycopg.RawCursor[TupleRow]
"""Leaves `%` in a condition alone; parameters are `$1` and so on."""


@contextmanager
def reading(database: Database, connection: Connection) -> Iterator[Raw]:
    """A transaction in which PostgreSQL refuses every change."""
    with (
        database.transaction(connection, read_only=True),
        raw_cursor(connection) as cursor,
        roles_search_path(cursor),
    ):
        yield cursor


@contextmanager
def raw_cursor(connection: Connection) -> Iterator[Raw]:
    """A cursor in the transaction that is open."""
    with psycopg.RawCursor(connection, row_factory=tuple_row) as cursor:
        yield cursor


@contextmanager
def roles_search_path(cursor: Raw) -> Iterator[None]:
    """Resolve names as the role does; what follows finds the project's tables again."""
    cursor.execute("SELECT current_setting('search_path')")
    (projects,) = cursor.fetchone() or ("",)
    cursor.execute("SET LOCAL search_path TO DEFAULT")
    yield
    # After an error the transaction is over, and this setting with it.
    cursor.execute("SELECT set_config('search_path', $1, true)", (projects,))


IN_INDEX_ORDER = """
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)
"""
"""A table that was never analyzed looks small, and a page would read and sort all of it. In the
order of the index a page costs what it returns. PostgreSQL reads a table as a whole all the same
where no index serves."""
