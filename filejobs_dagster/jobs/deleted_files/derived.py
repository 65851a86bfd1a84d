"""Objects that were made from files: their keys, by the operator's own queries."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID

import psycopg
from psycopg.rows import tuple_row

from filejobs_dagster.jobs.collecting.detail import (
    NOTHING_CLAIMED,
    ROLLED_BACK,
    SourceRefused,
    refusing,
)
from filejobs_dagster.postgres.connect import reached
from filejobs_dagster.references.own_tables import OWN_TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from psycopg.rows import TupleRow

    from filejobs_dagster.jobs.deleted_files.settings import DerivedSettings
    from filejobs_dagster.postgres.connect import Reachable

    Raw = psycopg.RawCursor[TupleRow]

# Whether the gate knows the tables that derived keys come from.
#
# A derived row can outlive its file: with ON DELETE SET NULL, behind a table of links, or because
# it is another file's. The derived query, asked again, then does not return it. Only a source
# tells.

Table = tuple[str, str]
"""Schema and name."""

# What stands in a plan for the table: itself, or the partitions that hold its rows. Not for a view.
_SCANNED = """
SELECT nspname, relname
  FROM pg_class
  JOIN pg_namespace ON pg_namespace.oid = relnamespace
 WHERE relkind IN ('r', 'f', 'm')
   AND (pg_class.oid = $1::oid
        OR pg_class.oid IN (SELECT relid FROM pg_partition_tree($1::oid::regclass)))
"""


_INPUTS = ("Outer", "Inner", "Subquery", "Member")


def tables_in(plan: Any) -> Iterator[Table]:
    """The tables that a plan reads, from EXPLAIN (FORMAT JSON, VERBOSE); those of views, too."""
    if isinstance(plan, list):
        for each in plan:
            yield from tables_in(each)
    elif isinstance(plan, dict):
        if "Relation Name" in plan:
            yield plan.get("Schema", ""), plan["Relation Name"]
        for each in plan.values():
            yield from tables_in(each)


def key_tables(
    cursor: psycopg.RawCursor[TupleRow], origin: int, plan: Any, schema: str
) -> list[set[Table]]:
    """The tables that a source must read, so that the gate knows a derived query's keys.

    Args:
        cursor: In a transaction.
        origin: The oid of the table whose column the query returns; 0 when it computes its keys.
        plan: Of the query, from EXPLAIN (FORMAT JSON, VERBOSE).
        schema: Where the project's own tables are, which are sources anyway.

    Returns:
        Of each set, one table must be read: where the keys come from, or, where that is not known,
        what each branch of a UNION reads. Nothing when they come from the project's own tables.
    """
    own = {(schema, table.table) for table in OWN_TABLES}
    cursor.execute(_SCANNED, (origin,))
    found = {(namespace, name) for namespace, name in cursor.fetchall()}
    if found:
        return [] if found & own else [found]
    branches = [set(tables_in(branch)) - own for each in plan for branch in _branches(each["Plan"])]
    return [tables for tables in branches if tables]


def _branches(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What a plan puts one behind the other: the branches of a UNION, or partitions."""
    plans = node.get("Plans", [])
    inputs = [each for each in plans if each.get("Parent Relationship") in _INPUTS]
    # Of a scan of a common table expression, the tables stand elsewhere in the plan.
    common = [each for each in plans if each.get("Subplan Name", "").startswith("CTE ")]
    appends = node.get("Node Type") in ("Append", "Merge Append")
    if appends or len(inputs) == 1:
        found = [branch for each in inputs for branch in _branches(each)]
        if appends or len(found) > 1:
            yield from found
            yield from (branch for each in common for branch in _branches(each))
            return
    yield node


# The operator's SQL is put into ours as it is: that is what this module is for.
# ruff: noqa: S608


NO_FILE = UUID(int=0)
"""An id to plan with: an empty array would have no type, and be taken for any."""

_STRING_CATEGORY, _PADDED = "S", "bpchar"


class DerivedObjects:
    """The queries of one run. They run with the search path of the role, as sources do.

    The parameter is sent as an array of uuid; `RawCursor` leaves `%` alone. The closing
    parenthesis stands on a line of its own, so that a comment at the end cannot swallow it.
    """

    def __init__(self, queries: Sequence[DerivedSettings], connection: Reachable) -> None:
        self._queries = tuple(queries)
        self._reachable = connection

    def __bool__(self) -> bool:
        """True when there is any query."""
        return bool(self._queries)

    def preflight(self) -> None:
        """Let PostgreSQL plan every query and look at its column; must be in a transaction.

        Raises:
            SourceRefused: It refuses one, or the query returns something else than keys.
        """
        for query in self._queries:
            self.plan(query)

    def plan(self, query: DerivedSettings) -> Any:
        """The plan of a query for one file, as EXPLAIN (FORMAT JSON) says it.

        Raises:
            SourceRefused: As `preflight`.
        """
        with self._raw() as cursor, refusing(query.name, "the derived query", NOTHING_CLAIMED):
            _origin(cursor, query)
            return _plan(cursor, query)

    def require_sources(self, sources: Sequence[str], schema: str) -> None:
        """Refuse queries whose keys the gate could not find in rows that stay.

        Args:
            sources: SQL of the bucket's sources in this database, which PostgreSQL plans.
            schema: Where the project's own tables are.

        Raises:
            SourceRefused: No source reads the table that the keys of a query come from.
        """
        for query in self._queries:
            with self._raw() as cursor, refusing(query.name, "the derived query", NOTHING_CLAIMED):
                wanted = key_tables(cursor, _origin(cursor, query), _plan(cursor, query), schema)
                read = {table for source in sources for table in _read_by(cursor, source)}
            unread = [tables for tables in wanted if not tables & read]
            if not unread:
                continue
            raise SourceRefused(
                f"The derived query {query.name!r} takes its keys from {_named(unread[0])}, and no "
                "source of the bucket in this database reads that: an object that another of its "
                "rows names, or one that outlives its file, would go with the file. "
                f"{NOTHING_CLAIMED}. Add a source to the bucket whose query returns every key of "
                "it; min_rows: 0 if it may be empty. What a function reads does not count."
            )

    def keys(self, files: Sequence[UUID], *, most: int | None = None) -> dict[str, None] | None:
        """The keys of objects that were made from these files, each once, in no order.

        Args:
            files: Their ids. In the claim's transaction they are locked.
            most: Give up when one query returns so many.

        Returns:
            None when it gave up.

        Raises:
            SourceRefused: PostgreSQL refuses a query.
            psycopg.Error: It refuses some row of a query.
        """
        found: dict[str, None] = {}
        with self._raw() as cursor:
            for query in self._queries:
                with refusing(query.name, "the derived query", ROLLED_BACK, rows_alone=True):
                    cursor.execute(_keys_of(query), (list(files), most))
                    found.update((key, None) for (key,) in cursor if key)
                if most is not None and cursor.rowcount >= most:
                    return None
        return found

    @contextmanager
    def _raw(self) -> Iterator[Raw]:
        """Resolve names as the role does; what follows finds the project's tables again."""
        with psycopg.RawCursor(reached(self._reachable), row_factory=tuple_row) as cursor:
            cursor.execute("SELECT current_setting('search_path')")
            (projects,) = cursor.fetchone() or ("",)
            cursor.execute("SET LOCAL search_path TO DEFAULT")
            yield cursor
            # After an error the transaction is over, and this setting with it.
            cursor.execute("SELECT set_config('search_path', $1, true)", (projects,))


def _origin(cursor: Raw, query: DerivedSettings) -> int:
    """The oid of the table whose column the query returns; 0 when that is no plain column."""
    cursor.execute(f"SELECT * FROM (\n{query.sql}\n) AS derived LIMIT 0", ([NO_FILE],))
    found = 0 if cursor.pgresult is None else cursor.pgresult.ftable(0)
    _require_keys(cursor, query)
    return found


def _plan(cursor: Raw, query: DerivedSettings) -> Any:
    cursor.execute(f"EXPLAIN (FORMAT JSON, VERBOSE) {_keys_of(query)}", ([NO_FILE], 1))
    row = cursor.fetchone()
    return None if row is None else row[0]


def _read_by(cursor: Raw, source: str) -> set[tuple[str, str]]:
    cursor.execute(f"EXPLAIN (FORMAT JSON, VERBOSE) SELECT * FROM (\n{source}\n) AS source")
    row = cursor.fetchone()
    return set() if row is None else set(tables_in(row[0]))


def _named(tables: set[tuple[str, str]]) -> str:
    return " or ".join(sorted(f"{schema}.{name}" for schema, name in tables))


def _keys_of(query: DerivedSettings) -> str:
    return f"SELECT key::text FROM (\n{query.sql}\n) AS derived (key) LIMIT $2::bigint"


def _require_keys(cursor: Raw, query: DerivedSettings) -> None:
    columns = cursor.description or []
    found = f"{len(columns)} columns"
    if len(columns) == 1:
        cursor.execute(
            "SELECT typname, typcategory FROM pg_type WHERE oid = $1::oid", (columns[0].type_code,)
        )
        name, category = cursor.fetchone() or ("", "")
        if category == _STRING_CATEGORY and name != _PADDED:
            return
        found = f"a column of type {name}"
    raise SourceRefused(
        f"The derived query {query.name!r} returns {found}. Select one column of keys as text; "
        "write convert_from(…, 'UTF8') for bytea."
    )
