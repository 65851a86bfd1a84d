"""Asks every source whether it names a key.

An error, a timeout or a source that looks empty is never "no reference": each of them raises.
"""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow, tuple_row

from filejobs_dagster.ledger.sanitize import sanitize_exception
from filejobs_dagster.references.operator import Column, OperatorQuery, Source
from filejobs_dagster.references.own_tables import OWN_TABLES, OwnTable
from filejobs_dagster.references.unknown import ReferencesUnknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["ReferenceCheck", "ReferencesUnknown"]

STATEMENT_TIMEOUT = timedelta(minutes=5)
LOCK_TIMEOUT = timedelta(seconds=10)

PROBE = "filejobs/preflight"
"""A key to ask for; whether a source names it does not matter."""

_BYTEA = 17
"""The object identifier of PostgreSQL's type bytea; domains are described by their base type."""

_STRING_CATEGORY = "S"
_PADDED = "bpchar"


class ReferenceCheck:
    """Every source of one bucket: the project's own tables, then those of the operator.

    Each call is a READ ONLY transaction of its own on the primary, READ COMMITTED, so that it
    sees whatever was committed before it.
    """

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        sources: Sequence[Source] = (),
        *,
        schema: str = "public",
        statement_timeout: timedelta = STATEMENT_TIMEOUT,
    ) -> None:
        """Prepare the sources; nothing is sent yet.

        Args:
            connection: Outside a transaction at each call. A connection with uncommitted changes
                would see rows as gone that others still see.
            sources: The operator's queries, in addition to the project's own tables.
            schema: Where the project's own tables are. The operator's SQL is run with the
                connection's own search path.
            statement_timeout: Limit of one query.

        Raises:
            ReferencesUnknown: A source's SQL is not one query.
        """
        self._connection = connection
        self._own = OWN_TABLES
        self._queries = tuple(OperatorQuery(source) for source in sources)
        self._schema = schema
        self._statement_timeout = statement_timeout
        self._columns: dict[str, Column] = {}

    def preflight(self) -> None:
        """Ask every source once, before anything is decided.

        Raises:
            ReferencesUnknown: A source failed, returns other than one column of text or bytea, or
                has fewer keys than its `min_rows`.
        """
        with self._transaction() as cursor:
            for table in self._own:
                self._named_by_table(cursor, table, [])
            for query in self._queries:
                # The very statement that decides later: too slow for one key is too slow.
                self._named_by_query(cursor, query, [PROBE])

    def named(self, keys: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Return those of the keys that a source names, with the names of all such sources.

        Keys are compared byte by byte. NULL and the empty string name nothing.

        Raises:
            ReferencesUnknown: As `preflight`; no key of the call may then be deleted.
        """
        wanted = [key for key in dict.fromkeys(keys) if key]
        if not wanted:
            return {}
        names: dict[str, list[str]] = {}
        with self._transaction() as cursor:
            for table in self._own:
                for key in self._named_by_table(cursor, table, wanted):
                    names.setdefault(key, []).append(table.name)
            for query in self._queries:
                for key in self._named_by_query(cursor, query, wanted):
                    names.setdefault(key, []).append(query.name)
        return {key: tuple(names[key]) for key in wanted if key in names}

    # Sources ----------------------------------------------------------------------------------

    def _named_by_table(
        self, cursor: psycopg.RawCursor[TupleRow], table: OwnTable, keys: Sequence[str]
    ) -> list[str]:
        # A text column holds neither NUL nor what is no UTF-8, so it cannot name such a key.
        storable = [key for key in keys if "\x00" not in key and _encodes(key)]
        with _answering(table.name):
            cursor.execute(table.query(self._schema), (storable,))
            return [key for (key,) in cursor]

    def _named_by_query(
        self, cursor: psycopg.RawCursor[TupleRow], query: OperatorQuery, keys: Sequence[str]
    ) -> list[str]:
        by_bytes = {key.encode("utf-8"): key for key in keys if _encodes(key)}
        column = self._column(cursor, query)
        # A text column holds no NUL, so it cannot name such a key.
        texts = [key for key in by_bytes.values() if "\x00" not in key]
        wanted = (list(by_bytes),) if column.is_bytes else (list(by_bytes), texts)
        with _answering(query.name):
            cursor.execute(query.matches(column), wanted)
            named = [by_bytes[bytes(key)] for (key,) in cursor]
        # Afterwards: a source that is emptied while it is asked looks as if it named nothing.
        self._require_rows(cursor, query)
        return named

    def _require_rows(self, cursor: psycopg.RawCursor[TupleRow], query: OperatorQuery) -> None:
        column = self._column(cursor, query)
        with _answering(query.name):
            cursor.execute(query.count(column), (max(query.min_rows, 1),))
            row = cursor.fetchone()
        found = row[0] if row else 0
        if found < query.min_rows:
            raise ReferencesUnknown(
                f"Source {query.name!r} returned {found} keys, and at least {query.min_rows} are "
                "expected. An empty source would make every object look unreferenced, so nothing "
                "is deleted. Check its SQL, the rights of this role and the search path; if so "
                "few are normal, lower its min_rows (`min_rows: 0` for a source that may be empty)."
            )

    def _column(self, cursor: psycopg.RawCursor[TupleRow], query: OperatorQuery) -> Column:
        """Look at what the source returns, once per check."""
        known = self._columns.get(query.name)
        if known is not None:
            return known
        with _answering(query.name):
            cursor.execute(query.shape())
            described = cursor.description or []
            names = [column.name for column in described]
            types = [column.type_code for column in described]
        if len(names) != 1:
            raise ReferencesUnknown(
                f"Source {query.name!r} returns {len(names)} columns ({', '.join(names)}), and "
                "which of them holds the keys would be a guess. Select that one column."
            )
        column = self._accepted(cursor, query, names[0], types[0])
        self._columns[query.name] = column
        return column

    def _accepted(
        self, cursor: psycopg.RawCursor[TupleRow], query: OperatorQuery, name: str, type_code: int
    ) -> Column:
        if type_code == _BYTEA:
            return Column(is_bytes=True)
        with _answering(query.name):
            cursor.execute("SELECT typname, typcategory FROM pg_type WHERE oid = $1", (type_code,))
            typname, category = cursor.fetchone() or ("an unknown type", "")
        if category != _STRING_CATEGORY or typname == _PADDED:
            raise ReferencesUnknown(
                f"Source {query.name!r} returns {name!r} as {typname}, whose text need not be the "
                "key. Return text or bytea: cast the column, take the text out of JSON with ->>, "
                "unnest an array."
            )
        return Column(is_bytes=False)

    # Transactions -----------------------------------------------------------------------------

    @contextmanager
    def _transaction(self) -> Iterator[psycopg.RawCursor[TupleRow]]:
        with _answering("the database"):
            status = self._connection.info.transaction_status
        if status is not TransactionStatus.IDLE:
            raise ReferencesUnknown(
                f"References were to be read on a connection that is {status.name}, not IDLE: it "
                "would see its own uncommitted changes. Commit first, or use another connection."
            )
        # The outer guard sees a COMMIT that fails; inner ones have named the source by then.
        with (
            _answering("the database"),
            self._connection.transaction(),
            psycopg.RawCursor(self._connection, row_factory=tuple_row) as cursor,
        ):
            self._prepare(cursor)
            yield cursor

    def _prepare(self, cursor: psycopg.RawCursor[TupleRow]) -> None:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY")
        cursor.execute(
            """
            SELECT set_config('statement_timeout', $1, true),
                   set_config('lock_timeout', $2, true),
                   -- A policy that hides rows raises, instead of making keys look unreferenced.
                   set_config('row_security', 'off', true),
                   pg_is_in_recovery()
            """,
            (_milliseconds(self._statement_timeout), _milliseconds(LOCK_TIMEOUT)),
        )
        row = cursor.fetchone()
        if row is None or row[-1]:
            raise ReferencesUnknown(
                "This connection leads to a replica, which may lack references that the primary "
                "already has. Connect to the primary (`target_session_attrs=read-write`)."
            )


@contextmanager
def _answering(source: str) -> Iterator[None]:
    """Turn whatever goes wrong into the one answer that lets nothing be deleted."""
    try:
        yield
    except ReferencesUnknown:
        raise
    except Exception as error:
        raise ReferencesUnknown(
            f"Source {source!r} could not be asked which keys it names: "
            f"{sanitize_exception(error, limit=1000)}. Nothing is deleted on that ground; see "
            "that its SQL runs with this role's rights and in the time that it is given."
        ) from error


def _encodes(key: str) -> bool:
    try:
        key.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _milliseconds(duration: timedelta) -> str:
    return f"{round(duration.total_seconds() * 1000)}ms"
