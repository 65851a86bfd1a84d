"""Whether the gate knows the tables that derived keys come from.

A derived row can outlive its file: with ON DELETE SET NULL, behind a table of links, or because it
is another file's. The derived query, asked again, then does not return it. Only a source tells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from filejobs_dagster.references.own_tables import OWN_TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg
    from psycopg.rows import TupleRow

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
