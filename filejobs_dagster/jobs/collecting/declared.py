"""Candidate query and claim of a declared table, both written from its one `where` and `due`.

What the settings name is looked up in the catalog first: the table, that the id is unique, the
types, and the foreign keys behind `unless_named_by`. Names are quoted; the operator's conditions
stand in parentheses and on lines of their own.
"""

# Quoted names, types of the catalog and conditions that were read as such are put together.
# ruff: noqa: S608
from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from filejobs_dagster.jobs.collecting.detail import NOTHING_CLAIMED, SourceRefused
from filejobs_dagster.jobs.table_retention.resolving import (
    column_named,
    columns_in,
    refuse_reaching_own_tables,
    table_named,
)
from filejobs_dagster.jobs.table_retention.target import RuleRefused
from filejobs_dagster.references.plans import reads_of
from filejobs_dagster.references.transforms import Transforms
from filejobs_dagster.settings.conditions import name_of, quoted
from filejobs_dagster.settings.tables import set_to

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.jobs.table_retention.target import Relation
    from filejobs_dagster.settings.tables import (
        DependentTableSettings,
        RowRuleSettings,
        TableSettings,
    )

    Raw = psycopg.RawCursor[TupleRow]


@dataclass(frozen=True)
class AlsoDeleted:
    """What is sent about a table whose rows go with the claimed ones; `$1` ids of those.

    Attributes:
        table: As the settings have it.
        sql: The DELETE; it returns keys where the rows name objects.
        keys: A SELECT of those keys, which locks nothing; None where they name none.
        transforms: How a value becomes the key of the bucket.
    """

    table: str
    sql: str
    keys: str | None = None
    transforms: Transforms = field(default_factory=Transforms)


@dataclass(frozen=True)
class Statements:
    """What a run sends about one table of the operator's.

    Attributes:
        candidates: A SELECT of id, key, due time and perhaps the size.
        claim: A DELETE or UPDATE that returns keys; `$1` ids, `$2` cutoff.
        lock: A SELECT of the ids that a claim may take, which locks them; None where the claim
            does it itself. The same parameters.
        also_deleted: The tables whose rows go with the claimed ones, the deepest first.
        rows: A SELECT of id and whole row, as JSON text, of what a claim may take, which locks
            them; the same parameters, and `$3` columns that it leaves out. None where nobody knows.
    """

    candidates: str
    claim: str
    lock: str | None = None
    also_deleted: tuple[AlsoDeleted, ...] = ()
    rows: str | None = None


# A number or a text that does not read as declared is no time, and the ranges of the three units do
# not meet: seconds that are declared as milliseconds would else all be of January 1970, and due.
_NUMBER = "CASE WHEN {0} >= 1e{1} AND {0} < 1e{2} THEN to_timestamp({0}::float8 / 1e{3}) END"
_UUID_V7 = (
    "CASE WHEN {0}::text ~* '^[0-9a-f]{{8}}-[0-9a-f]{{4}}-7[0-9a-f]{{3}}-[89ab][0-9a-f]{{3}}-"
    "[0-9a-f]{{12}}$' AND ({0}::text COLLATE \"C\") >= '0017' "
    "THEN to_timestamp("
    "('x' || replace(left({0}::text, 13), '-', ''))::bit(48)::bigint / 1000.0) END"
)
_DAY = (
    "([12][0-9]{{3}}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)"
    "|02-(0[1-9]|1[0-9]|2[0-8]))|([12][0-9](0[48]|[2468][048]|[13579][26])|2[048]00)-02-29)"
)
_CLOCK = "[T ]([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{{1,9}})?"
_OFFSET = "(Z|[+-](0[0-9]|1[0-4])(:?[0-5][0-9])?)"

_NUMBERS = frozenset({"int2", "int4", "int8", "numeric", "float4", "float8"})
_TEXTS = frozenset({"text", "varchar"})
_TYPES = {
    "time": frozenset({"timestamptz", "timestamp"}),
    "epoch_seconds": _NUMBERS,
    "epoch_milliseconds": _NUMBERS,
    "epoch_microseconds": _NUMBERS,
    "uuid_v7": _TEXTS | {"uuid"},
    "text": _TEXTS,
}
_IDS = frozenset({"uuid", "int2", "int4", "int8", "numeric", "text", "varchar"})

_UNIQUE = """
SELECT EXISTS (
    SELECT FROM pg_index
     WHERE indrelid = $1::oid AND indisunique AND indisvalid AND indimmediate
       AND indpred IS NULL AND indexprs IS NULL
       AND (SELECT array_agg(attname::text ORDER BY attname::text)
              FROM unnest(indkey::int2[]) WITH ORDINALITY AS part (attnum, place)
              JOIN pg_attribute ON attrelid = indrelid AND pg_attribute.attnum = part.attnum
             WHERE place <= indnkeyatts)
           = (SELECT array_agg(name ORDER BY name) FROM unnest($2::text[]) AS wanted (name)))
"""

# Of two foreign keys of one column, one that changes its rows leaves nothing to refuse for another.
# A load that has switched triggers off, and perhaps not on again, has switched the key off as well.
_REFUSING_KEY = """
SELECT coalesce(bool_and(
           confdeltype IN ('a', 'r')
           AND current_setting('session_replication_role') <> 'replica'
           AND NOT EXISTS (SELECT FROM pg_trigger
                            WHERE tgconstraint = pg_constraint.oid AND tgenabled IN ('D', 'R'))
       ), false), count(*) > 0
  FROM pg_constraint
 WHERE contype = 'f' AND conrelid = $1::oid AND confrelid = $2::oid
   AND conkey = ARRAY[(SELECT attnum FROM pg_attribute WHERE attrelid = $1::oid AND attname = $3)]
   AND confkey = ARRAY[(SELECT attnum FROM pg_attribute WHERE attrelid = $2::oid AND attname = $4)]
   -- A column that PostgreSQL 18 has brought.
   AND coalesce((to_jsonb(pg_constraint) ->> 'conenforced')::boolean, true)
"""


def statements_of(
    cursor: Raw, declared: TableSettings | RowRuleSettings, so_far: str = NOTHING_CLAIMED
) -> Statements:
    """Look a declared table up, and write its statements.

    Args:
        cursor: In a transaction with the role's own search path.
        declared: The table.
        so_far: What a refusal says of the claims.

    Raises:
        SourceRefused: The catalog has something else than what is declared.
    """
    try:
        return _Writing(cursor, declared).statements()
    except RuleRefused as refused:
        raise SourceRefused(
            f"The table of {declared.name!r} cannot be used as it is declared: {refused.found}. "
            f"{so_far}. {refused.advice[:1].upper()}{refused.advice[1:]}."
        ) from refused


class _Writing:
    def __init__(self, cursor: Raw, declared: TableSettings | RowRuleSettings) -> None:
        self._cursor = cursor
        self._it = declared
        self._table, _ = table_named(cursor, declared.table)
        self._refuse_a_part()
        columns = columns_in(cursor, self._table)
        self._id = [column_named(self._table, columns, each) for each in declared.id]
        for each in (declared.key, declared.due, declared.size, *(declared.set or ())):
            if each is not None:
                column_named(self._table, columns, each)
        for name in self._id:
            if not columns[name][1]:
                raise RuleRefused(
                    f"{self._table}.{name} may be NULL, so it does not tell one row from another",
                    "name the primary key as id",
                )
        cursor.execute(_UNIQUE, (self._table.oid, self._id))
        if cursor.fetchone() != (True,):
            raise RuleRefused(
                f"nothing makes {', '.join(self._id)} of {self._table} unique, so a claim could "
                "take rows that nobody looked at",
                "name the primary key as id, or add a unique index",
            )
        self._types = self._types_of([*declared.id, declared.due])
        if declared.key is not None:
            self._require_text(self._table, self._name, name_of(declared.key), declared.key)
        refuse_reaching_own_tables(cursor, self._table)

    def _refuse_a_part(self) -> None:
        self._cursor.execute(
            "SELECT relid::regclass::text FROM pg_partition_ancestors($1::oid::regclass) AS above"
            " WHERE relid <> $1::oid",
            (self._table.oid,),
        )
        for (whole,) in self._cursor.fetchall():
            raise RuleRefused(
                f"{self._table} is a partition of {whole}, whose other rows may name the same "
                "objects",
                "declare the whole table, and let `where` say which of its rows may go",
            )

    def _types_of(self, written: Sequence[str], table: str = "") -> list[tuple[str, str]]:
        """Name and SQL of each column's type; of a domain what it is made of."""
        columns = ", ".join(quoted(each) for each in written)
        self._cursor.execute(f"SELECT {columns} FROM {table or self._name} LIMIT 0")
        found = [column.type_code for column in self._cursor.description or []]
        self._cursor.execute(
            "SELECT typname, format_type(oid, NULL)"
            "  FROM unnest($1::oid[]) WITH ORDINALITY AS wanted (oid, place)"
            "  JOIN pg_type USING (oid) ORDER BY place",
            (found,),
        )
        return [(str(name), str(written)) for name, written in self._cursor.fetchall()]

    @property
    def _name(self) -> str:
        return self._table.quoted.as_string()

    def statements(self) -> Statements:
        """All of them."""
        for (kind, _), name in zip(self._types, self._id, strict=False):
            if kind not in _IDS:
                raise RuleRefused(
                    f"{self._table}.{name} is of type {kind}",
                    f"an id is one of {', '.join(sorted(_IDS))}",
                )
        size = "" if self._it.size is None else f", own.{quoted(self._it.size)}"
        candidates = (
            f"SELECT {self._identity('own')}, {self._key('own')}, {self._due('own')}{size}\n"
            f"  FROM {self._name} AS own\n"
            f" WHERE {self._predicates('own') or 'true'}"
        )
        self._refuse_hidden_looks(candidates)
        chosen = (
            f"FROM {self._name} AS held\n"
            f" WHERE {self._among('held')}\n"
            f"   AND {self._may_go('held')}\n"
            f" ORDER BY {self._columns('held')}\n"
            "   FOR UPDATE OF held SKIP LOCKED"
        )
        change = f"DELETE FROM {self._name} AS own"
        if self._it.set is not None:
            values = ", ".join(f"{column} = {value}" for column, value in set_to(self._it.set))
            change = f"UPDATE {self._name} AS own SET {values}"
        claim = (
            f"{change}\n"
            f" WHERE ({self._columns('own')}) IN (\nSELECT {self._columns('held')} {chosen})\n"
            f"   AND {self._may_go('own')}\n"
            f"RETURNING {self._known_by('own')}"
        )
        children = tuple(self._children())
        lock = f"SELECT {self._identity('held')} {chosen}" if children else None
        rows = f"SELECT {self._identity('held')}, (to_jsonb(held) - $3::text[])::text {chosen}"
        return Statements(candidates, claim, lock, children, rows)

    def _refuse_hidden_looks(self, candidates: str) -> None:
        reads = reads_of(self._cursor, candidates)
        for hidden in (*reads.doubted, *reads.opaque):
            raise RuleRefused(
                f"a condition calls {hidden}: what it looks at in other rows may change while a "
                "row is claimed, and would not be seen",
                "write the condition itself, or let a generated column hold its result",
            )
        for name in reads.volatile:
            raise RuleRefused(
                f"a condition calls {name}, which answers anew each time or changes something: "
                "look and claim would not mean the same rows",
                "write a condition on what the row holds; for the time there is `due`, or now()",
            )

    # Parts -----------------------------------------------------------------------------------

    def _columns(self, alias: str) -> str:
        return ", ".join(f"{alias}.{quoted(each)}" for each in self._it.id)

    def _identity(self, alias: str) -> str:
        """The id as one value."""
        if len(self._id) == 1:
            return self._columns(alias)
        parts = ", ".join(f"{alias}.{quoted(each)}::text" for each in self._it.id)
        return f"jsonb_build_array({parts})::text"

    def _among(self, alias: str) -> str:
        """The condition that a row is one of those in `$1`, as an index serves it."""
        if len(self._id) == 1:
            return f"{self._columns(alias)} = ANY($1)"
        values = ", ".join(
            f"(wanted.id::jsonb ->> {place})::{written}"
            for place, (_, written) in enumerate(self._types[:-1])
        )
        return f"({self._columns(alias)}) IN (SELECT {values} FROM unnest($1) AS wanted (id))"

    def _known_by(self, alias: str) -> str:
        """What a claim returns of a row: its key, or its id where it names no object."""
        if self._it.key is not None:
            return f"{alias}.{quoted(self._it.key)}"
        return f"{self._identity(alias)}::text"

    def _key(self, alias: str) -> str:
        if self._it.key is None:
            return self._known_by(alias)
        # With something put in front of it, the empty text would be the key of a folder.
        return f"nullif({alias}.{quoted(self._it.key)}, '')"

    def _may_go(self, alias: str) -> str:
        """Every predicate, and the due time."""
        predicates = self._predicates(alias)
        due = f"{self._due(alias)} < $2"
        return f"{predicates}\n   AND {due}" if predicates else due

    def _predicates(self, alias: str) -> str:
        conditions = [f"(\n{each}\n)" for each in (self._it.in_bucket, self._it.where) if each]
        for other in self._it.unless_named_by:
            relation, _ = table_named(self._cursor, other.table)
            columns = columns_in(self._cursor, relation)
            column = column_named(relation, columns, other.column)
            self._cursor.execute(
                _REFUSING_KEY, (relation.oid, self._table.oid, column, self._id[0])
            )
            refuses, there = self._cursor.fetchone() or (False, False)
            if not refuses:
                raise RuleRefused(
                    (
                        f"the foreign key of {relation}.{column} changes its rows, or is off"
                        if there
                        else f"no foreign key leads from {relation}.{column} to {self._table}"
                    )
                    + ", so nothing would refuse the claim of a row that comes into use meanwhile",
                    f"add one that refers to {self._table}.{self._id[0]}, without ON DELETE "
                    "CASCADE, SET NULL or SET DEFAULT, and see that no trigger of either table is "
                    "disabled",
                )
            conditions.append(
                f"NOT EXISTS (SELECT FROM {relation.quoted.as_string()} AS other"
                f" WHERE other.{quoted(other.column)} = {self._columns(alias)})"
            )
        return "\n   AND ".join(conditions)

    def _due(self, alias: str) -> str:
        """The row's time, as a timestamptz; NULL where the column holds none."""
        column, kind = f"{alias}.{quoted(self._it.due)}", self._types[-1][0]
        form, zone = self._it.due_as, self._it.time_zone
        if kind not in _TYPES[form]:
            raise RuleRefused(
                f"{self._table}.{self._it.due} is of type {kind}, and due_as is {form}",
                "write due_as by what the column holds: time for timestamptz and timestamp, "
                "epoch_seconds or its like for numbers, uuid_v7, or text",
            )
        if form == "time":
            if (kind == "timestamp") != (zone is not None):
                raise RuleRefused(
                    f"{self._table}.{self._it.due} is of type {kind}",
                    "add time_zone: UTC, or the zone of whoever writes it"
                    if zone is None
                    else "leave time_zone out: the column has one of its own",
                )
            return f"({column} AT TIME ZONE '{zone}')" if zone else column
        if form == "uuid_v7":
            return f"({_UUID_V7.format(column)})"
        if form == "text":
            offset = "" if zone else _OFFSET
            pattern = f"^{_DAY}{_CLOCK}{offset}$".format()
            cast = (
                f"({column}::timestamp AT TIME ZONE '{zone}')" if zone else f"{column}::timestamptz"
            )
            return f"(CASE WHEN {column} ~ '{pattern}' THEN {cast} END)"
        power = {"epoch_seconds": 0, "epoch_milliseconds": 3, "epoch_microseconds": 6}[form]
        return f"({_NUMBER.format(column, 8 + power, 11 + power, power)})"

    def _children(self) -> Iterator[AlsoDeleted]:
        """The deepest ones first."""
        for child in self._it.also_delete:
            name = self._dependent(child, self._table, self._id[0])
            belongs = f"own.{quoted(child.column)} = ANY($1)"
            for below in child.also_delete:
                middle = (
                    f"SELECT middle.{quoted(child.id)} FROM {name} AS middle"
                    f" WHERE middle.{quoted(child.column)} = ANY($1){_and(child.where)}"
                )
                middle_table, _ = table_named(self._cursor, child.table)
                lowest = self._dependent(below, middle_table, name_of(child.id))
                column = f"own.{quoted(below.column)}"
                # Locked: one that another row is given meanwhile keeps what belongs to it.
                locked = f"{column} IN ({middle} FOR UPDATE OF middle)"
                yield self._going(below, lowest, locked, f"{column} IN ({middle})")
            yield self._going(child, name, belongs, belongs)

    def _going(
        self, child: DependentTableSettings, name: str, belongs: str, looked_at: str
    ) -> AlsoDeleted:
        returns = keys = ""
        if child.key is not None:
            relation, _ = table_named(self._cursor, child.table)
            column = column_named(relation, columns_in(self._cursor, relation), child.key)
            self._require_text(relation, name, column, child.key)
            key = f"nullif(own.{quoted(child.key)}, '')"
            returns = f"\nRETURNING {key}"
            keys = f"SELECT {key} FROM {name} AS own WHERE {looked_at}{_and(child.where)}"
        return AlsoDeleted(
            child.table,
            f"DELETE FROM {name} AS own WHERE {belongs}{_and(child.where)}{returns}",
            keys or None,
            Transforms.of(child.transforms),
        )

    def _require_text(self, table: Relation, name: str, column: str, written: str) -> None:
        ((kind, _),) = self._types_of([written], name)
        if kind not in _TEXTS:
            raise RuleRefused(
                f"{table}.{column} is of type {kind}",
                "a key is text or varchar: let a generated column hold it",
            )

    def _dependent(self, child: DependentTableSettings, to: Relation, referred: str) -> str:
        relation, _ = table_named(self._cursor, child.table)
        if relation.oid == self._table.oid:
            raise RuleRefused(
                f"{relation} is a table of also_delete and of the rows themselves",
                "let a foreign key with ON DELETE CASCADE take the rows below a row",
            )
        refuse_reaching_own_tables(self._cursor, relation)
        column = column_named(relation, columns_in(self._cursor, relation), child.column)
        self._cursor.execute(_UNIQUE, (to.oid, [referred]))
        if self._cursor.fetchone() != (True,):
            raise RuleRefused(
                f"nothing makes {referred} of {to} unique, so rows of {relation} could go that "
                "belong to others as well",
                "name its primary key as id",
            )
        self._cursor.execute(_REFUSING_KEY, (relation.oid, to.oid, column, referred))
        _, there = self._cursor.fetchone() or (False, False)
        if not there and child.where is None:
            raise RuleRefused(
                f"no foreign key leads from {relation}.{column} to {to}.{referred}, so it may as "
                "well hold ids of other tables, and rows of theirs would go",
                "add the foreign key; or, where a second column tells what the id is of, say in "
                "`where` of also_delete which: record_type = 'Blob'",
            )
        return relation.quoted.as_string()


def _and(condition: str | None) -> str:
    return f"\n   AND (\n{condition}\n)" if condition else ""
