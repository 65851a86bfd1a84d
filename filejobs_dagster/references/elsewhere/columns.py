"""Every column of a database that may hold a name, and what of them cannot be searched."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, NamedTuple

from psycopg import sql

from filejobs_dagster.postgres.inventory import COLUMN, expected

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import psycopg

NO_RIGHT = "this role has no right to read it"
HIDDEN_ROWS = "row security hides rows from this role"
FOREIGN = "it is a foreign table: another server has its rows"
BYTES = "it holds bytes: what is encrypted or packed in them cannot be seen"
NESTED = "its type holds bytes or lists within a row or a list: not all of it can be seen"
_IN_PART = {"bytes": BYTES, "nested": NESTED}

_OF_THE_FEATURE = frozenset({"file", "upload", "attachment"})
"""Sources of their own; of another installation's schema they are searched as any table."""

_OF_DAGSTER = frozenset({
    "alembic_version", "asset_check_executions", "asset_daemon_asset_evaluations",
    "asset_event_tags", "asset_keys", "backfill_tags", "bulk_actions", "concurrency_limits",
    "concurrency_slots", "daemon_heartbeats", "dynamic_partitions", "event_logs", "instance_info",
    "instigators", "job_ticks", "jobs", "kvs", "pending_steps", "run_tags", "runs",
    "secondary_indexes", "snapshots",
})  # fmt: skip
"""Dagster's own tables: the records of our runs stand there, with samples of keys."""

# Types by what is in them: domains as their base, arrays as their elements. The size of a table
# needs no right, so that an empty one is no matter. Each step is MATERIALIZED, and none is thought
# to be larger than it is: the catalog of an application with a hundred tables, just restored, was
# else read once for each pair of its columns and types, for a minute.
_COLUMNS = """
WITH RECURSIVE plain AS (
    SELECT oid AS type, oid AS base FROM pg_catalog.pg_type WHERE typtype <> 'd'
     UNION ALL
    SELECT above.oid, plain.base
      FROM pg_catalog.pg_type AS above JOIN plain ON above.typbasetype = plain.type
     WHERE above.typtype = 'd'
), kind AS MATERIALIZED (
    SELECT type, typrelid,
           CASE WHEN typname = 'bytea' THEN 'bytes'
                WHEN typname = 'hstore' THEN 'quoted'
                WHEN typname = 'tsvector' THEN 'lexemes'
                WHEN typtype = 'c' THEN 'row'
                -- Its ends are written like the fields of a row.
                WHEN EXISTS (SELECT FROM pg_catalog.pg_range
                               JOIN pg_catalog.pg_type AS of ON of.oid = rngsubtype
                              WHERE rngtypid = base AND of.typcategory = 'S') THEN 'row'
                WHEN typcategory = 'S' OR typname IN ('json', 'jsonb', 'uuid', 'xml', 'ltree')
                THEN 'text' END AS kind,
           CASE WHEN typcategory = 'A' THEN typelem END AS element
      FROM plain JOIN pg_catalog.pg_type ON pg_type.oid = base
), shape AS MATERIALIZED (
    SELECT kind.type, kind.typrelid, kind.kind, of.kind AS of_kind, of.typrelid AS of_typrelid
      FROM kind LEFT JOIN kind AS of ON of.type = kind.element
), nested AS MATERIALIZED (
    SELECT DISTINCT attrelid
      FROM pg_catalog.pg_attribute JOIN shape ON shape.type = atttypid
     WHERE attnum > 0 AND NOT attisdropped AND coalesce(kind, of_kind || '[]') <> 'text'
), searched AS MATERIALIZED (
    SELECT type,
           CASE WHEN of_kind = 'bytes'
                  OR coalesce(nullif(typrelid, 0), of_typrelid) IN (SELECT attrelid FROM nested)
                THEN 'nested' ELSE coalesce(kind, 'array of ' || of_kind) END AS kind
      FROM shape
), measured AS MATERIALIZED (
    -- Once for each table: of one with a thousand columns, files were else looked at so often.
    SELECT oid AS relation, pg_catalog.pg_relation_size(oid) AS heap,
           coalesce(pg_catalog.pg_table_size(oid), 0) AS size
      FROM pg_catalog.pg_class
     WHERE relkind IN ('r', 'm', 'f') AND relpersistence <> 't'
)
SELECT pg_class.oid, nspname::text, pg_class.relname::text, attname::text, searched.kind,
       pg_class.relkind::text, measured.heap, measured.size,
       has_schema_privilege(pg_namespace.oid, 'USAGE')
           AND has_column_privilege(pg_class.oid, attnum, 'SELECT'),
       has_schema_privilege(pg_namespace.oid, 'USAGE')
           AND has_table_privilege(pg_class.oid, 'SELECT'),
       row_security_active(pg_class.oid), root.oid,
       (SELECT nspname::text FROM pg_catalog.pg_namespace AS it WHERE it.oid = root.relnamespace),
       root.relname::text,
       coalesce(has_schema_privilege(root.relnamespace, 'USAGE')
                AND has_column_privilege(root.oid, attname, 'SELECT')
                AND NOT row_security_active(root.oid), false)
  FROM pg_catalog.pg_class
  JOIN pg_catalog.pg_namespace ON pg_namespace.oid = pg_class.relnamespace
  JOIN pg_catalog.pg_attribute ON attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped
  JOIN searched ON searched.type = atttypid AND searched.kind IS NOT NULL
  JOIN measured ON measured.relation = pg_class.oid
  LEFT JOIN pg_catalog.pg_class AS root
    ON pg_class.relispartition AND root.oid = pg_catalog.pg_partition_root(pg_class.oid)
 WHERE pg_class.relkind IN ('r', 'm', 'f')
   AND pg_class.relpersistence <> 't'
   AND nspname NOT IN ('pg_catalog', 'information_schema')
   AND nspname NOT LIKE 'pg\\_toast%'
 ORDER BY 2, 3, attnum
"""


class _Row(NamedTuple):
    """One column, as `_COLUMNS` tells it."""

    oid: int
    schema: str
    name: str
    column: str
    kind: str
    relation: str
    heap: int
    size: int
    may_read: bool
    all_columns: bool
    hides: bool
    root_oid: int | None
    root_schema: str | None
    root: str | None
    through_root: bool


_KNOWN_SCHEMAS = """
SELECT nspname::text, relname::text
  FROM pg_catalog.pg_class
  JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
 WHERE relname = 'orphan_candidate'
    OR (relname = 'event_logs'
        AND EXISTS (SELECT FROM pg_catalog.pg_attribute
                     WHERE attrelid = pg_class.oid AND attname = 'dagster_event_type'))
"""


_QUOTES = {"quoted": ('\\"', '"'), "row": ('""', '"'), "lexemes": ("''", "'")}
"""How a type writes a quote within what it quotes."""


@dataclass(frozen=True)
class Column:
    """One column that is searched.

    Attributes:
        name: As it is called in the table.
        kind: How its values are read: `text`, `quoted`, `row`, `lexemes`, `array of` one of these,
            `bytes`, or `nested` for what is escaped in more than one way.
    """

    name: str
    kind: str

    def read(self) -> sql.Composable:
        """The expression that gives its values without an escape of their type."""
        column = sql.Identifier(self.name)
        if self.kind == "bytes":
            return column
        text = sql.SQL("{}::text").format(column)
        of = self.kind.removeprefix("array of ")
        if of != self.kind:
            text = sql.SQL("pg_catalog.array_to_string({}, E'\\n')").format(column)
        if of in _QUOTES:
            # What stands in quotes there has its quotes escaped, and its backslashes twice.
            return sql.SQL("replace(replace({}, {}, {}), {}, {})").format(
                text, *_QUOTES[of], "\\\\", "\\"
            )
        return text


@dataclass(frozen=True)
class Table:
    """One table, or one partition, with the columns of it that are searched.

    Attributes:
        schema: Of the table.
        name: Of the table or the partition.
        known_as: Schema and table as the settings would name them: of a partition, the whole.
        columns: To be read.
        pages: Of 8 KB, without what stands apart (TOAST).
        size: Bytes, with what stands apart.
        in_parts: False when it can only be read as a whole.
        with_partitions: True for a whole whose partitions are read through it.
    """

    schema: str
    name: str
    known_as: tuple[str, str]
    columns: tuple[Column, ...]
    pages: int
    size: int
    in_parts: bool
    with_partitions: bool

    def __str__(self) -> str:
        """`schema.table`, as the settings name it."""
        return ".".join(self.known_as)

    def column(self, place: int) -> str:
        """A column as the settings name it: `schema.table.column`."""
        return f"{self}.{self.columns[place].name}"

    def query(self, pages: tuple[int, int] | None) -> sql.Composed:
        """What reads the rows of some pages, the first of them and the first no more; or all."""
        base = sql.SQL("SELECT {columns} FROM {only} {table}").format(
            only=sql.SQL("" if self.with_partitions else "ONLY"),
            columns=sql.SQL(", ").join(column.read() for column in self.columns),
            table=sql.Identifier(self.schema, self.name),
        )
        if pages is None:
            return base
        return sql.SQL("{} WHERE ctid >= {} AND ctid < {}").format(
            base, sql.Literal(f"({pages[0]},0)"), sql.Literal(f"({pages[1]},0)")
        )


@dataclass(frozen=True)
class Unsearched:
    """What may name a candidate and could not be searched.

    Attributes:
        column: `schema.table.column`, with `*` for all columns of a table.
        why: In words.
        size: Bytes of its table.
    """

    column: str
    why: str
    size: int = 0

    def __str__(self) -> str:
        """One line."""
        # A colon behind a column called password would read like a secret that follows it.
        return f"{self.column} ({self.why})"


@dataclass(frozen=True)
class Catalogue:
    """What a database has to be searched.

    Attributes:
        tables: The smallest first, so that a budget covers as many as it can.
        unsearched: What cannot be, and what nobody has declared.
        ignored: Columns that the settings leave out.
        idle: Entries of the settings that match no column.
        ignored_tables: Those columns of them that could be read, by their tables.
    """

    tables: tuple[Table, ...]
    unsearched: tuple[Unsearched, ...]
    ignored: tuple[str, ...]
    idle: tuple[str, ...]
    ignored_tables: tuple[Table, ...] = ()

    @property
    def size(self) -> int:
        """Bytes that a search reads at most."""
        return sum(table.size for table in self.tables)

    @property
    def columns(self) -> int:
        """How many columns a search reads."""
        return sum(len(table.columns) for table in self.tables)


def fingerprint(catalogues: Iterable[Catalogue]) -> str:
    """A short name for the columns that a search reads: another one, when some came or went."""
    names = {
        table.column(place)
        for one in catalogues
        for table in one.tables
        for place in range(len(table.columns))
    }
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()[:16]


def catalogue(
    connection: psycopg.Connection[Any], ignored: Sequence[str] = (), *, own_schema: str | None
) -> Catalogue:
    """Look at what there is to be searched; nothing of it is read.

    Args:
        connection: To the database.
        ignored: Columns that the settings leave out, `schema.table.column` with `*` for anything.
        own_schema: Where the project's own tables are; None in a database without them.

    Raises:
        psycopg.Error: The catalog could not be read.
    """
    with connection.transaction(), connection.cursor() as cursor:
        known = _known(cursor.execute(_KNOWN_SCHEMAS).fetchall(), own_schema)
        rows = cursor.execute(_COLUMNS).fetchall()
    matched: set[str] = set()
    left_out: dict[str, None] = {}
    unsearched: dict[str, Unsearched] = {}
    tables: dict[int, list[_Row]] = {}
    ignored_tables: dict[int, list[_Row]] = {}
    for row in map(_Row._make, rows):
        if not known.isdisjoint({(row.schema, row.name), (row.schema, row.name, row.column)}):
            continue
        called = f"{row.root_schema or row.schema}.{row.root or row.name}.{row.column}"
        patterns = [pattern for pattern in ignored if fnmatchcase(called, pattern)]
        matched.update(patterns)
        if patterns:
            left_out[called] = None
            if row.relation != "f" and row.heap and row.may_read and not row.hides:
                ignored_tables.setdefault(row.oid, []).append(row)
        elif row.relation == "f":
            whole = f"{row.schema}.{row.name}.*"
            unsearched[whole] = Unsearched(whole, FOREIGN)
        elif not row.heap:
            continue  # empty
        elif row.may_read and not row.hides:
            tables.setdefault(row.oid, []).append(row)
        elif row.through_root:
            # Rights on the whole are rights on its partitions, read through it.
            tables.setdefault(row.root_oid or row.oid, []).append(row)
        else:
            why = HIDDEN_ROWS if row.may_read else NO_RIGHT
            unsearched[called] = Unsearched(called, why, row.size)
        if row.kind in _IN_PART and row.heap and not patterns:
            unsearched.setdefault(called, Unsearched(called, _IN_PART[row.kind], row.size))
    smallest_first, ignored_ones = (
        tuple(sorted(map(_table, some.values()), key=lambda table: table.size))
        for some in (tables, ignored_tables)
    )
    return Catalogue(
        tables=smallest_first,
        unsearched=tuple(unsearched.values()),
        ignored=tuple(left_out),
        idle=tuple(pattern for pattern in ignored if pattern not in matched),
        ignored_tables=ignored_ones,
    )


def _table(rows: Sequence[_Row]) -> Table:
    first = rows[0]
    whole = first.root_oid is not None and not (first.may_read and not first.hides)
    columns = {row.column: Column(row.column, row.kind) for row in rows}
    partitions = {row.oid: row for row in rows}.values()
    return Table(
        schema=(first.root_schema if whole else None) or first.schema,
        name=(first.root if whole else None) or first.name,
        known_as=(first.root_schema or first.schema, first.root or first.name),
        columns=tuple(columns.values()),
        pages=-(-sum(row.heap for row in partitions) // 8192),
        size=sum(row.size for row in partitions),
        # The place of a row is no column: a right on columns alone does not show it.
        in_parts=first.all_columns and not whole,
        with_partitions=whole,
    )


def _known(rows: Iterable[tuple[Any, ...]], own_schema: str | None) -> set[tuple[str, ...]]:
    """Tables of Dagster, and columns of this project: sources, or what we wrote ourselves.

    A column that the application has added to a table of the project is none of them.
    """
    return {found for schema, sign in rows for found in _written_by_us(schema, sign, own_schema)}


def _written_by_us(
    schema: str, sign: str, own_schema: str | None
) -> Iterator[tuple[str, str] | tuple[str, str, str]]:
    if sign == "event_logs":
        yield from ((schema, name) for name in _OF_DAGSTER)
        return
    for thing in expected():
        if thing.kind == COLUMN and (schema == own_schema or thing.table not in _OF_THE_FEATURE):
            yield schema, thing.table, thing.name
