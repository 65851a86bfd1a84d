"""Reads one column of keys out of PostgreSQL, as exact bytes and without holding them all.

COPY in its binary form: the server streams, nothing is escaped, and a failure in the middle is an
exception, never an end.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from filejobs_dagster.references.unknown import ReferencesUnknown

if TYPE_CHECKING:
    from collections.abc import Generator

    import psycopg
    from psycopg.rows import TupleRow

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
