"""An operator's candidate query, claim and audit statement, wrapped and parametrised.

The settings have looked at their form (`settings/statements.py`). Here each is put into ours so
that it stays one statement: what closes it stands on a line of its own, where a comment at the end
cannot swallow it; `RawCursor` leaves `%` alone; and with parameters PostgreSQL takes one statement
in a message and no more.
"""

# The operator's SQL is put into ours as it is: that is what this module is for.
# ruff: noqa: S608
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg.adapt import Dumper
from psycopg.types.string import StrDumper

from filejobs_dagster.jobs.collecting.detail import SourceRefused
from filejobs_dagster.settings.statements import FEWEST_COLUMNS, MOST_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable

    import psycopg
    from psycopg.rows import TupleRow

IDENTIFIER_TYPES = ("uuid", "int2", "int4", "int8", "numeric", "text", "varchar")
"""Types whose text form is the value, so that an id survives the way here and back."""

_TIMESTAMPTZ = "timestamptz"
_STRING_CATEGORY, _PADDED = "S", "bpchar"
_NUMBERS = "N"


@dataclass(frozen=True)
class Shape:
    """What a candidate query returns.

    Attributes:
        id_type: The type of its ids, one of `IDENTIFIER_TYPES`.
        id_array: The object identifier of the array of that type.
        sized: True when there is a fourth column.
    """

    id_type: str
    id_array: int
    sized: bool


@dataclass(frozen=True)
class Ids:
    """An array of ids, whose type the cursor knows."""

    texts: tuple[str, ...]

    def literal(self) -> str:
        """As PostgreSQL reads an array of any type."""
        return "{" + ",".join(_quoted(text) for text in self.texts) + "}"


def prepare(cursor: psycopg.RawCursor[TupleRow], shape: Shape) -> None:
    """Let the cursor send ids as an array of their own type, and texts as text."""

    class IdsDumper(Dumper):
        oid = shape.id_array

        def dump(self, obj: Ids) -> bytes:
            return obj.literal().encode()

    cursor.adapters.register_dumper(Ids, IdsDumper)
    # Otherwise a text has no type, and its meaning would depend on where it stands.
    cursor.adapters.register_dumper(str, StrDumper)


def ids(texts: Iterable[object]) -> Ids:
    """An array of ids as the candidate query returned them."""
    return Ids(tuple(str(text) for text in texts))


def shape_query(candidates: str) -> str:
    """SQL that returns no row and shows the columns."""
    return f"SELECT * FROM (\n{candidates}\n) AS candidate LIMIT 0"


def shape_of(name: str, columns: list[tuple[str, str, int]]) -> Shape:
    """Judge the columns of a candidate query.

    Args:
        name: What the source is called.
        columns: Of each its type's name, its type's category, and the array of its type.

    Raises:
        SourceRefused: The number or a type of the columns is wrong.
    """
    if not FEWEST_COLUMNS <= len(columns) <= MOST_COLUMNS:
        raise SourceRefused(
            f"The candidate query of source {name!r} returns {len(columns)} columns. Select id, "
            "key and due time, and if you like the size in bytes."
        )
    (id_type, _, id_array), (key_type, key_category, _), (due_type, _, _), *size = columns
    for wrong, column, found, advice in (
        (
            id_type not in IDENTIFIER_TYPES,
            "id",
            id_type,
            f"ids can be {', '.join(IDENTIFIER_TYPES)}; cast the column to one of them",
        ),
        (
            key_category != _STRING_CATEGORY or key_type == _PADDED,
            "key",
            key_type,
            "keys are text: cast the column, or use convert_from(…, 'UTF8') for bytea",
        ),
        (
            due_type != _TIMESTAMPTZ,
            "due time",
            due_type,
            "a moment has a time zone: write (…) AT TIME ZONE 'UTC' for a timestamp in UTC",
        ),
        (
            bool(size) and size[0][1] != _NUMBERS,
            "size",
            size[0][0] if size else "",
            "the size is a number of bytes",
        ),
    ):
        if wrong:
            raise SourceRefused(
                f"The candidate query of source {name!r} returns its {column} as {found}; {advice}."
            )
    return Shape(id_type, id_array, bool(size))


@dataclass(frozen=True)
class Candidates:
    """The candidate query, cut to what is due."""

    sql: str
    shape: Shape

    def _from(self) -> str:
        # A row without an id cannot be claimed, one without a key names no bytes.
        size = ", size" if self.shape.sized else ""
        return (
            f"FROM (\n{self.sql}\n) AS candidate (id, key, due{size})\n"
            "WHERE candidate.id IS NOT NULL AND candidate.key IS NOT NULL"
        )

    def page(self, *, first: bool) -> str:
        """SQL for a page: `$1` begin, `$2` end, `$3` rows; later `$4` and `$5`, last due and id."""
        size = "candidate.size::bigint" if self.shape.sized else "NULL::bigint"
        after = (
            ""
            if first
            else "AND (candidate.due, candidate.id) > "
            f"($4::timestamptz, $5::text::{self.shape.id_type})\n"
        )
        return (
            f"SELECT candidate.id::text, candidate.key::text, candidate.due, {size}\n"
            f"{self._from()}\n"
            "AND candidate.due >= $1 AND candidate.due < $2\n"
            f"{after}"
            "ORDER BY candidate.due, candidate.id\n"
            "LIMIT $3::bigint"
        )

    def oldest(self) -> str:
        """SQL for the earliest due time from `$1` to `$2`."""
        return (
            f"SELECT min(candidate.due)\n{self._from()}\n"
            "AND candidate.due >= $1 AND candidate.due < $2"
        )

    def due(self) -> str:
        """SQL that counts what is due, from `$1`, with a grace of `$2`, up to `$3` rows."""
        return (
            f"SELECT count(*) FROM (SELECT {self._from()}\n"
            "AND candidate.due >= $1\n"
            # A sub-select, evaluated once: a volatile function cannot be an index condition.
            "AND candidate.due < (SELECT clock_timestamp() - $2::interval)\n"
            # Nothing depends on the order: it leads the planner to the index of the candidates.
            "ORDER BY candidate.due, candidate.id\n"
            "LIMIT $3::bigint) AS due"
        )

    def among(self) -> str:
        """SQL that counts those of the ids in `$1` that are candidates with a due time."""
        return (
            f"SELECT count(*)\n{self._from()}\n"
            "AND candidate.id = ANY($1) AND candidate.due IS NOT NULL"
        )

    def still_due(self) -> str:
        """SQL for those of the ids in `$1` that are candidates from `$2` to `$3`."""
        return (
            f"SELECT candidate.id::text\n{self._from()}\n"
            "AND candidate.id = ANY($1) AND candidate.due >= $2 AND candidate.due < $3"
        )

    def unusable(self, no_key: str, no_time: str) -> str:
        """SQL for rows that no page returns: `$1` begin, `$2` end, `$3` rows of each kind.

        It returns class, id, and whether the row is due. Each kind is a range of the due time, as
        an index on it serves. Infinity is no mistake: such a row never expires.
        """
        size = ", size" if self.shape.sized else ""
        kinds = (
            (no_key, "true", "due >= $1 AND due < $2 AND (id IS NULL OR key IS NULL)"),
            (no_time, "true", "due < '0001-01-02Z'"),
            (no_time, "false", "due >= '9999-01-01Z' AND due < 'infinity'"),
        )
        return "\nUNION ALL\n".join(
            f"(SELECT '{fate}' AS fate, coalesce(candidate.id::text, 'NULL') AS row, {due} AS due\n"
            f"FROM (\n{self.sql}\n) AS candidate (id, key, due{size})\n"
            f"WHERE {condition}\nLIMIT $3::bigint)"
            for fate, due, condition in kinds
        )

    def times(self) -> str:
        """SQL that counts candidates, and those with a due time, up to `$1`."""
        return (
            "SELECT count(*), count(due) FROM (SELECT candidate.due "
            f"{self._from()}\nLIMIT $1::bigint) AS sampled"
        )

    def without_due(self) -> str:
        """SQL that counts rows without a due time, up to `$1`."""
        return (
            f"SELECT count(*) FROM (SELECT {self._from()}\n"
            "AND candidate.due IS NULL\nLIMIT $1::bigint) AS without_due"
        )


def claim_query(claim: str) -> str:
    """SQL that claims: `$1` ids, `$2` cutoff; returns the keys as text."""
    return f"WITH claim (key) AS (\n{claim}\n)\nSELECT claim.key::text FROM claim"


def explained(statement: str) -> str:
    """SQL that shows the plan of a statement and executes nothing."""
    return f"EXPLAIN (VERBOSE, FORMAT JSON) {statement}"


def tables_changed(plan: Any) -> list[tuple[str, str]]:
    """Schema and name of the tables that a plan (VERBOSE, FORMAT JSON) deletes from or updates."""
    if isinstance(plan, list):
        return [found for each in plan for found in tables_changed(each)]
    if not isinstance(plan, dict):
        return []
    found = [found for each in plan.values() for found in tables_changed(each)]
    if plan.get("Node Type") == "ModifyTable":
        found.append((plan.get("Schema", ""), plan.get("Relation Name", "")))
    return found


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def values_for_a_look(shape: Shape, moment: Any) -> tuple[Ids, Any]:
    """Values for the plan of a claim: one id that need not be there."""
    example = "00000000-0000-0000-0000-000000000000" if shape.id_type == "uuid" else "0"
    return Ids((example,)), moment
