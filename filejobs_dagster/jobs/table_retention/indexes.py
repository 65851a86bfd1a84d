"""Whether an index serves a rule's statements, and which one would.

The rule is asked of PostgreSQL's planner itself: with reading whole tables made expensive, a plan
that does so all the same has no index to use.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg import sql

from filejobs_dagster.jobs.table_retention.refused import RuleRefused
from filejobs_dagster.jobs.table_retention.session import IN_INDEX_ORDER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from filejobs_dagster.jobs.table_retention.session import Raw
    from filejobs_dagster.jobs.table_retention.statements import Statements
    from filejobs_dagster.jobs.table_retention.target import Relation, Target

SMALL_ROWS = 10_000
SMALL_BYTES = 8 * 1024 * 1024
"""Below both, reading the whole table for a batch costs less than an index would."""

MANY_OF_ONE_TIME = 100_000
"""So many rows of the same time, as PostgreSQL has counted them, are not sorted for each batch."""

_MOST_OF_ONE_TIME = """
SELECT max(most_common_freqs[1] * reltuples)::bigint
  FROM pg_class
  JOIN pg_namespace ON pg_namespace.oid = relnamespace
  JOIN pg_stats ON schemaname = nspname AND tablename = relname AND attname = $2
 WHERE pg_class.oid IN (SELECT relid FROM pg_partition_tree($1) UNION SELECT $1::oid)
"""

_SIZES = """
SELECT greatest(reltuples, 0)::bigint, pg_relation_size(pg_class.oid), nspname, relname
  FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
 WHERE pg_class.oid IN (SELECT relid FROM pg_partition_tree($1) UNION SELECT $1::oid)
"""

_FIRST_COLUMN = """
SELECT pg_get_indexdef(indexrelid, 1, false)
  FROM pg_index WHERE indexrelid = to_regclass(format('%I.%I', $1::text, $2::text))
"""


@dataclass(frozen=True)
class Missing:
    """An index that a rule needs.

    Attributes:
        why: What would be read as a whole, and how much that is.
        statement: What makes the index.
    """

    why: str
    statement: str

    def refusal(self) -> RuleRefused:
        """Why the rule is not carried out."""
        return RuleRefused(self.why, f"run: {self.statement}")


def missing_indexes(cursor: Raw, target: Target, statements: Statements) -> list[Missing]:
    """Every index that the rule needs and the database lacks; small tables need none.

    Args:
        cursor: In a transaction; planner settings of the transaction are changed.
        target: The table of the rule.
        statements: For the deletion or for the scrubbing.
    """
    cursor.execute(IN_INDEX_ORDER)
    found = list(_for_time(cursor, target, statements))
    for child in target.children:
        if not _has_index(cursor, child.relation, child.column.name):
            found += _of_other(cursor, child.relation, child.column.name, "deletes its children")
    for key in target.foreign_keys:
        if not key.indexed:
            found += _of_other(cursor, key.relation, key.column, f"looks after {key.name}")
    return list(dict.fromkeys(found))


def _for_time(cursor: Raw, target: Target, statements: Statements) -> Iterator[Missing]:
    page = statements.page(None, target.rule.batch_size, lock=False)
    for schema, name, rows, size in _read_as_a_whole(cursor, target, page):
        yield Missing(
            f"each batch would read the whole table {schema}.{name} (about {rows:,} rows, "
            f"{size / 1024 / 1024:,.0f} MiB): no index begins with {target.time.name}",
            index_for(target),
        )
    cursor.execute(_MOST_OF_ONE_TIME, (target.table.oid, target.time.name))
    (most,) = cursor.fetchone() or (None,)
    if (most or 0) >= MANY_OF_ONE_TIME and _sorts(_plan(cursor, page)):
        yield Missing(
            f"each batch would read all rows of one {target.time.name} (about {most:,} of "
            f"{target.table}): no index goes on with the key behind it",
            index_for(target),
        )


def is_served(cursor: Raw, target: Target, statement: sql.Composed) -> bool:
    """Tell whether a statement reads no large table as a whole.

    Args:
        cursor: In a transaction; planner settings of the transaction are changed.
        target: The table that it reads.
        statement: It looks for rows by their time; it is not carried out.
    """
    cursor.execute(IN_INDEX_ORDER)
    return not list(_read_as_a_whole(cursor, target, statement))


def _read_as_a_whole(
    cursor: Raw, target: Target, statement: sql.Composed
) -> Iterator[tuple[str, str, int, int]]:
    """Large tables of the plan that no index leads into, with their rows and bytes."""
    plan = _plan(cursor, statement)
    large = {(schema, name): (rows, size) for rows, size, schema, name in _large(cursor, target)}
    for schema, name in dict.fromkeys(_unserved(cursor, plan, target.time.name)):
        if (schema, name) in large:
            yield (schema, name, *large[schema, name])


def _plan(cursor: Raw, statement: sql.Composed) -> dict[str, Any]:
    cursor.execute(sql.SQL("EXPLAIN (VERBOSE, FORMAT JSON) {}").format(statement))
    (plans,) = cursor.fetchone() or ([{}],)
    plan: dict[str, Any] = plans[0]["Plan"]
    return plan


def _sorts(node: dict[str, Any]) -> bool:
    return node["Node Type"].endswith("Sort") or any(map(_sorts, node.get("Plans", ())))


def index_for(target: Target, only: str = "") -> str:
    """The statement that makes the index in the order of the batches.

    Args:
        target: The table.
        only: The condition of a partial index.
    """
    listed = f"({', '.join(each.quoted.as_string() for each in target.order)})"
    if only:
        listed += f" WHERE {only}"
    table = target.table.quoted.as_string()
    if target.partitioned:
        return (
            f"CREATE INDEX CONCURRENTLY ON each partition of {table} {listed}; then CREATE INDEX "
            f"ON {table} {listed}, which takes those over in an instant"
        )
    return f"CREATE INDEX CONCURRENTLY ON {table} {listed}"


def too_slow(stages: Sequence[Statements]) -> RuleRefused:
    """Why a rule is not carried out whose rows are not found in time, although an index serves."""
    wanted = dict.fromkeys(index_for(each.target, each.only()) for each in stages)
    return RuleRefused(
        "finding the next rows took longer than database.statement_timeout: rows that the "
        "conditions keep, that are scrubbed already or that have the same time are read again and "
        "again",
        f"run: {'; '.join(wanted)}. A condition that is not the same at all times, as with now(), "
        "is left out of an index",
    )


def _large(cursor: Raw, target: Target) -> Iterator[tuple[int, int, str, str]]:
    cursor.execute(_SIZES, (target.table.oid,))
    for rows, size, schema, name in cursor.fetchall():
        if rows >= SMALL_ROWS or size >= SMALL_BYTES:
            yield int(rows), int(size), str(schema), str(name)


def _unserved(cursor: Raw, node: dict[str, Any], column: str) -> Iterator[tuple[str, str]]:
    """The tables of a plan that no index leads into by the time."""
    if "Relation Name" in node and not _is_served(cursor, node, column):
        yield str(node["Schema"]), str(node["Relation Name"])
    for child in node.get("Plans", ()):
        yield from _unserved(cursor, child, column)


def _is_served(cursor: Raw, node: dict[str, Any], column: str) -> bool:
    condition = str(node.get("Index Cond", ""))
    if "Index Name" not in node or not _names(condition, column):
        return False
    # An index that begins with something else is read from end to end.
    cursor.execute(_FIRST_COLUMN, (node["Schema"], node["Index Name"]))
    (first,) = cursor.fetchone() or ("",)
    return str(first).strip("()") in condition


def _names(condition: str, column: str) -> bool:
    quoted = sql.Identifier(column).as_string()
    return any(
        re.search(rf'(?<![\w"]){re.escape(name)}(?![\w"])', condition) for name in (column, quoted)
    )


_INDEX_ON = """
SELECT EXISTS (SELECT FROM pg_index
                 JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
                WHERE indrelid = $1 AND indisvalid AND indpred IS NULL AND attname = $2)
"""


def _has_index(cursor: Raw, relation: Relation, column: str) -> bool:
    cursor.execute(_INDEX_ON, (relation.oid, column))
    return cursor.fetchone() == (True,)


def _of_other(cursor: Raw, relation: Relation, column: str, what: str) -> list[Missing]:
    cursor.execute(_SIZES, (relation.oid,))
    sizes = [(int(rows), int(size)) for rows, size, *_ in cursor.fetchall()]
    rows, size = sum(each[0] for each in sizes), sum(each[1] for each in sizes)
    if rows < SMALL_ROWS and size < SMALL_BYTES:
        return []
    name = sql.Identifier(column).as_string()
    return [
        Missing(
            f"whatever {what} would read the whole table {relation} (about {rows:,} rows) for "
            f"each row: no index begins with {column}",
            f"CREATE INDEX CONCURRENTLY ON {relation.quoted.as_string()} ({name})",
        )
    ]
