"""The session in which a chain is judged: one snapshot that the database cannot bend."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

from filejobs_dagster.postgres.rows import one

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg.rows import TupleRow

    from filejobs_dagster.postgres.connect import Connection, Database

UNKNOWN = "unknown"

_SETTINGS = {
    # A function or an operator of the judged schema must not stand in for PostgreSQL's own.
    "search_path": "pg_catalog",
    "TimeZone": "UTC",
    "DateStyle": "ISO",
    "IntervalStyle": "postgres",
    "client_encoding": "UTF8",
    "bytea_output": "hex",
    # A policy that hides rows must raise, not look like a gap.
    "row_security": "off",
    "statement_timeout": "0",
    "transaction_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}
_WRITING = {"client_encoding": "UTF8", "DateStyle": "ISO"}
_SINCE = {"transaction_timeout": 170000}


@contextmanager
def snapshot(database: Database, connection: Connection) -> Iterator[psycopg.Cursor[TupleRow]]:
    """Open a read-only transaction that sees one moment of the database, and end it.

    Tables must be named with their schema. In READ COMMITTED every statement would see another
    moment, and an append in between would look like damage.

    Args:
        database: Where the tables are.
        connection: One that has no transaction open.
    """
    usual = connection.isolation_level
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    connection.read_only = True
    try:
        with connection.transaction(), connection.cursor() as cursor:
            set_session(cursor, connection.info.server_version)
            cursor.execute(
                "SELECT set_config('lock_timeout', %s, true)",
                (f"{round(database.lock_timeout.total_seconds() * 1000)}ms",),
            )
            yield cursor
    finally:
        if not connection.closed:
            connection.isolation_level = usual
            connection.read_only = None


def set_writing(cursor: psycopg.Cursor[TupleRow]) -> None:
    """Make the settings of whoever writes seals and receipts, until the transaction ends.

    A note holds a character that LATIN1 does not have.
    """
    for name, value in _WRITING.items():
        cursor.execute("SELECT pg_catalog.set_config(%s, %s, true)", (name, value))


def set_session(cursor: psycopg.Cursor[TupleRow], server_version: int) -> None:
    """Make the settings of a judge, until the transaction ends."""
    for name, value in _SETTINGS.items():
        if server_version >= _SINCE.get(name, 0):
            cursor.execute("SELECT pg_catalog.set_config(%s, %s, true)", (name, value))


def table(database: Database, name: str) -> sql.Identifier:
    """A table of the project with its schema."""
    return sql.Identifier(database.schema, name)


def server_identity(cursor: psycopg.Cursor[TupleRow]) -> tuple[str, str]:
    """Return the server's system identifier and its timeline, which change when it is restored.

    Either is `unknown` where the role may not ask. A restored snapshot of a volume keeps both.
    """
    return _system_identifier(cursor), _timeline(cursor)


def is_standby(cursor: psycopg.Cursor[TupleRow]) -> bool:
    """Whether the server follows another one, and may be behind it."""
    cursor.execute("SELECT pg_catalog.pg_is_in_recovery()")
    return bool(one(cursor)[0])


def _system_identifier(cursor: psycopg.Cursor[TupleRow]) -> str:
    if not _may_call(cursor, "pg_catalog.pg_control_system()"):
        return UNKNOWN
    cursor.execute("SELECT system_identifier::text FROM pg_catalog.pg_control_system()")
    return str(one(cursor)[0])


def _timeline(cursor: psycopg.Cursor[TupleRow]) -> str:
    if is_standby(cursor):
        if not _may_call(cursor, "pg_catalog.pg_control_checkpoint()"):
            return UNKNOWN
        cursor.execute("SELECT timeline_id::text FROM pg_catalog.pg_control_checkpoint()")
        return str(one(cursor)[0])
    # The control file names the new timeline only after the first checkpoint behind a promotion.
    cursor.execute("SELECT pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn())")
    return str(int(str(one(cursor)[0])[:8], 16))


def _may_call(cursor: psycopg.Cursor[TupleRow], function: str) -> bool:
    cursor.execute("SELECT pg_catalog.has_function_privilege(%s, 'EXECUTE')", (function,))
    return bool(one(cursor)[0])
