"""Reads one column of keys out of PostgreSQL, as exact bytes and without holding them all.

COPY in its binary form: the server streams, nothing is escaped, and a failure in the middle is an
exception, never an end.

A source returns one column whose bytes are keys, or it is none. Sources are grouped by the
connection over which they are read.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.references.operator import Column, OperatorQuery, ReferencesUnknown

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.references.operator import Source
    from filejobs_dagster.references.own_tables import OwnTable

ROWS_PER_BLOCK = 10_000

_SIGNATURE = b"PGCOPY\n\xff\r\n\x00"
_HEADER = len(_SIGNATURE) + 8  # flags and the length of an extension
_TRAILER = b"\xff\xff"
_ONE_FIELD = struct.pack("!h", 1)
_BEFORE_VALUE = len(_ONE_FIELD) + 4  # and the value's length, -1 for NULL


def copied_blocks(
    cursor: psycopg.RawCursor[TupleRow], query: str, *, rows_per_block: int = ROWS_PER_BLOCK
) -> Generator[list[bytes], None, None]:
    """Run a query of one bytea column and yield its values; NULL comes as the empty value.

    Yields:
        Lists of at most `rows_per_block` values, in the query's order.

    Raises:
        psycopg.Error: The query failed, at whatever row.
        ReferencesUnknown: The stream is not what COPY promises, or ended before its end.
    """
    with cursor.copy(f"COPY (\n{query}\n) TO STDOUT (FORMAT binary)".encode()) as copy:
        values: list[bytes] = []
        head = bytes(copy.read())
        if not head.startswith(_SIGNATURE):
            raise ReferencesUnknown(_UNREADABLE.format("does not begin as COPY does"))
        row: bytes = head[_HEADER:] or bytes(copy.read())
        read = copy.read
        while row != _TRAILER:
            if not row.startswith(_ONE_FIELD):
                problem = "has a row of other than one column" if row else "ended in the middle"
                raise ReferencesUnknown(_UNREADABLE.format(problem))
            values.append(row[_BEFORE_VALUE:])
            if len(values) == rows_per_block:
                yield values
                values = []
            row = bytes(read())
        if read():
            raise ReferencesUnknown(_UNREADABLE.format("goes on after its end"))
    # The server's own end of the command was read by now: whatever it had to complain has come.
    if values:
        yield values


_UNREADABLE = (
    "What PostgreSQL sent for COPY {}, so how many keys there are is not known. Connect to "
    "PostgreSQL itself instead of something that only speaks like it."
)


# What a source returns: one column whose bytes are keys, or no source.

_BYTEA = 17
"""The object identifier of PostgreSQL's type bytea; domains are described by their base type."""

_STRING_CATEGORY = "S"
_PADDED = "bpchar"


def only_column(cursor: psycopg.RawCursor[TupleRow], query: OperatorQuery) -> Column:
    """Look at the columns of a source, without reading a row of it.

    Raises:
        ReferencesUnknown: It has other than one column, or one whose text need not be the key.
        psycopg.Error: The query cannot be run.
    """
    cursor.execute(query.shape().encode())
    described = cursor.description or []
    if len(described) != 1:
        names = ", ".join(column.name for column in described)
        raise ReferencesUnknown(
            f"Source {query.name!r} returns {len(described)} columns ({names}), and which of them "
            "holds the keys would be a guess. Select that one column."
        )
    (column,) = described
    if column.type_code == _BYTEA:
        return Column(is_bytes=True)
    cursor.execute(b"SELECT typname, typcategory FROM pg_type WHERE oid = $1", (column.type_code,))
    typname, category = cursor.fetchone() or ("an unknown type", "")
    if category != _STRING_CATEGORY or typname == _PADDED:
        raise ReferencesUnknown(
            f"Source {query.name!r} returns {column.name!r} as {typname}, whose text need not be "
            "the key. Return text or bytea: cast the column, take the text out of JSON with ->>, "
            "unnest an array."
        )
    return Column(is_bytes=False)


# Which sources are read over which connection: one for each database, or replica of it.


@dataclass
class SourceGroup:
    """Sources that are read over one connection, in one snapshot.

    Attributes:
        database: Where they are read.
        own: The project's own tables among them.
        queries: The operator's queries among them.
        replica_of: The primary, where they are read from a replica of it.
    """

    database: Database
    own: Sequence[OwnTable]
    queries: list[OperatorQuery]
    replica_of: Database | None = None

    @property
    def whom(self) -> str:
        """Their names, for messages and connections."""
        return ", ".join([table.name for table in self.own] + [it.name for it in self.queries])


def grouped(
    primary: Database, own: Sequence[OwnTable], queries: Sequence[OperatorQuery]
) -> list[SourceGroup]:
    """Sort the sources by the database that they are read from; the project's own comes first."""
    first = SourceGroup(primary, own, [])
    groups: dict[tuple[str | None, str | None], SourceGroup] = {(None, None): first}
    for query in queries:
        replica = _address(query.source, "read_from")
        place = (query.url, replica)
        if place not in groups:
            home = primary if query.url is None else Database(query.url)
            groups[place] = (
                SourceGroup(home, (), [])
                if replica is None
                else SourceGroup(Database(replica), (), [], home)
            )
        groups[place].queries.append(query)
    return list(groups.values())


def _address(source: Source, which: str) -> str | None:
    database = getattr(source, which, None)
    return None if database is None else str(database.url.reveal())
