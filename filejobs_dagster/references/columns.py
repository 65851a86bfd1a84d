"""What a source returns: one column whose bytes are keys, or no source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.references.operator import Column, OperatorQuery
from filejobs_dagster.references.unknown import ReferencesUnknown

if TYPE_CHECKING:
    import psycopg
    from psycopg.rows import TupleRow

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
