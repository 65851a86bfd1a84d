"""What a query reads that may hide rows from it: foreign tables, and functions.

`row_security = off` turns hidden rows into an error, and ends at this server and at what a function
sets for itself. PostgreSQL's own plan says what a query really reads, also through views.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import psycopg
    from psycopg.rows import TupleRow

_TEXT = re.compile(r"'(?:[^']|'')*'")
_NAME = r'(?:"(?:[^"]|"")+"|[^\W\d][\w$]*)'
_CALL = re.compile(rf"(?:({_NAME})\.)?({_NAME})\(")

_FUNCTIONS = """
SELECT called.namespace || '.' || called.name,
       CASE WHEN called.prosecdef
            THEN 'which is SECURITY DEFINER'
            WHEN called.settings ~ '(^|,)(row_security|role|session_authorization)='
            THEN 'which sets row_security or a role'
            WHEN called.extension = 'dblink' OR called.prosrc ~* '\\mdblink'
            THEN 'which asks another server'
            WHEN called.prosrc ~* '\\mrow_security\\M'
            THEN 'which names row_security in its text'
            WHEN called.reads_foreign
            THEN 'which reads a foreign table'
       END
  FROM (SELECT namespace.nspname AS namespace, proname AS name, prosecdef, prosrc,
               array_to_string(proconfig, ',') AS settings,
               extension.extname AS extension,
               EXISTS (SELECT
                         FROM pg_foreign_table
                         JOIN pg_class AS foreign_one ON foreign_one.oid = ftrelid
                        WHERE position(lower(foreign_one.relname) IN lower(prosrc)) > 0
                           -- A body that is parsed already stands in no text.
                           OR EXISTS (SELECT
                                        FROM pg_depend
                                       WHERE classid = 'pg_proc'::regclass
                                         AND objid = pg_proc.oid
                                         AND refobjid = ftrelid)) AS reads_foreign
          FROM pg_proc
          JOIN pg_namespace AS namespace ON namespace.oid = pronamespace
          LEFT JOIN pg_depend AS member
                 ON member.classid = 'pg_proc'::regclass AND member.objid = pg_proc.oid
                AND member.deptype = 'e'
          LEFT JOIN pg_extension AS extension ON extension.oid = member.refobjid
         WHERE nspname <> 'pg_catalog'
           AND CASE WHEN proname = any($1::text[]) AND pg_function_is_visible(pg_proc.oid) THEN true
                    ELSE nspname || '.' || proname = any($2::text[])
               END) AS called
 WHERE called.extension IS NULL OR called.extension = 'dblink'
 ORDER BY 1
"""

_WHOLE_TABLES = b"""
SELECT schema || '.' || name
  FROM unnest($1::text[], $2::text[]) AS read (schema, name)
 UNION
SELECT nspname || '.' || relname
  FROM unnest($1::text[], $2::text[]) AS read (schema, name)
 CROSS JOIN pg_partition_ancestors(to_regclass(format('%I.%I', schema, name))) AS whole (table_oid)
  JOIN pg_class ON pg_class.oid = table_oid
  JOIN pg_namespace ON pg_namespace.oid = relnamespace
"""


@dataclass(frozen=True)
class Reads:
    """What a query reads beside tables that hide nothing.

    Attributes:
        doubted: In words: foreign tables, and functions that have rights or settings of their own
            or lead to another server.
        opaque: The other functions that neither PostgreSQL nor an extension brings and that the
            plan does not look into.
        volatile: Functions of PostgreSQL's own that answer anew each time, or change something.
    """

    doubted: tuple[str, ...] = ()
    opaque: tuple[str, ...] = ()
    volatile: tuple[str, ...] = ()


_VOLATILE = """
SELECT proname
  FROM pg_proc
 WHERE proname = ANY($1) AND pronamespace = 'pg_catalog'::regnamespace
 GROUP BY proname
HAVING bool_and(provolatile = 'v')
 ORDER BY proname
"""


def reads_of(
    cursor: psycopg.RawCursor[TupleRow], statement: str, parameters: Sequence[Any] = ()
) -> Reads:
    """Look at the plan of a statement, which is not carried out.

    Args:
        cursor: In a transaction, with the search path of the query.
        statement: What is looked at.
        parameters: Its values.

    Raises:
        psycopg.Error: The statement cannot be planned.
    """
    cursor.execute(f"EXPLAIN (VERBOSE, FORMAT JSON) {statement}".encode(), parameters)
    row = cursor.fetchone()
    plan = row[0] if row else []
    doubted = [f"the foreign table {name}" for name in sorted(set(_foreign_tables(plan)))]
    opaque = []
    called = set(_calls(plan))
    bare = [name for namespace, name in called if namespace is None]
    qualified = [f"{namespace}.{name}" for namespace, name in called if namespace is not None]
    cursor.execute(_FUNCTIONS.encode(), (bare, qualified))
    for name, why in dict.fromkeys(cursor.fetchall()):
        if why is None:
            opaque.append(f"the function {name}")
        else:
            doubted.append(f"the function {name}, {why}")
    cursor.execute(_VOLATILE.encode(), (bare,))
    volatile = tuple(str(name) for (name,) in cursor.fetchall())
    return Reads(tuple(doubted), tuple(opaque), volatile)


def tables_of(cursor: psycopg.RawCursor[TupleRow], statement: str) -> frozenset[str]:
    """The tables that a statement reads, by schema and name, and what they are partitions of.

    Args:
        cursor: In a transaction, with the search path of the query.
        statement: What is looked at; it is not carried out.

    Raises:
        psycopg.Error: The statement cannot be planned.
    """
    cursor.execute(f"EXPLAIN (VERBOSE, FORMAT JSON) {statement}".encode())
    row = cursor.fetchone()
    read = {
        (node["Schema"], node["Relation Name"])
        for node in _nodes(row[0] if row else [])
        if "Relation Name" in node and "Schema" in node
    }
    cursor.execute(_WHOLE_TABLES, ([schema for schema, _ in read], [name for _, name in read]))
    return frozenset(name for (name,) in cursor.fetchall())


def _nodes(plan: Any) -> Iterator[dict[str, Any]]:
    """Every mapping of a plan, at any depth."""
    if isinstance(plan, dict):
        yield plan
    for inner in plan.values() if isinstance(plan, dict) else plan:
        if isinstance(inner, dict | list):
            yield from _nodes(inner)


def _foreign_tables(plan: Any) -> Iterator[str]:
    for node in _nodes(plan):
        if node.get("Node Type") == "Foreign Scan":
            # What is joined or counted over there has no table of its own here.
            yield (
                f"{node['Schema']}.{node['Relation Name']}"
                if "Relation Name" in node
                else str(node.get("Relations", "of another server"))
            )


def _calls(plan: Any) -> Iterator[tuple[str | None, str]]:
    """Schema, where it is said, and name of whatever a plan calls, and of types and the like."""
    for node in _nodes(plan):
        if "Function Name" in node:
            yield node.get("Schema"), node["Function Name"]
        for value in node.values():
            for text in value if isinstance(value, list) else [value]:
                if isinstance(text, str):
                    for namespace, name in _CALL.findall(_TEXT.sub("''", text)):
                        yield _plain(namespace) if namespace else None, _plain(name)


def _plain(name: str) -> str:
    return name[1:-1].replace('""', '"') if name.startswith('"') else name
