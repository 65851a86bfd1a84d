"""The project's own tables: sources that no settings can remove."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg import sql

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID


@dataclass(frozen=True)
class OwnTable:
    """A table of the project whose rows name keys.

    Attributes:
        name: What reports call it.
        table: The table, in the project's schema.
        column: `text COLLATE "C"` with an index: equality is that of the bytes, and one lookup a
            key suffices.
        names_object: SQL condition on the table: only these rows name their key. None: all do.
        awaits_upload: SQL condition on the table: its rows may name objects that never came.
        made_at: The column that says when a row was made, of a table from which jobs alone take
            rows, so that of those that were there before none may lack. None where an application
            takes some in the course of its work.
        comes_and_goes: Its rows leave in the course of normal work, so that fewer of them than
            before are no sign that something was lost.
    """

    name: str
    table: str
    column: str
    names_object: str | None = None
    awaits_upload: str | None = None
    made_at: str | None = None
    comes_and_goes: bool = False

    def query(self, schema: str) -> str:
        """SQL that returns those of the keys in `$1` (`text[]`) that the table names.

        It ends in its WHERE clause, so that a further condition can follow with AND.
        """
        column = sql.Identifier(self.column)
        named = f"{column.as_string()} = any($1::text[])"
        return self._select(schema, column, named)

    def keys(self, schema: str) -> str:
        """SQL that returns every key of the table as bytea, in no order: one sequential read."""
        return self._select(schema, self._as_bytes())

    def count_made_before(self, schema: str) -> str | None:
        """SQL that counts the rows that were made before `$1`; None when some may lack by now."""
        if self.made_at is None:
            return None
        made_before = sql.SQL("{} < $1").format(sql.Identifier(self.made_at)).as_string()
        return self._select(schema, sql.SQL("count(*)"), made_before)

    def awaited_keys(self, schema: str) -> str | None:
        """SQL like `keys` for the rows that may have no object yet; None when all must have one."""
        if self.awaits_upload is None:
            return None
        return self._select(schema, self._as_bytes(), f"({self.awaits_upload})")

    def _as_bytes(self) -> sql.Composed:
        return sql.SQL("convert_to({}, 'UTF8')").format(sql.Identifier(self.column))

    def _select(self, schema: str, what: sql.Composable, *conditions: str) -> str:
        found = sql.SQL("SELECT {} FROM {}").format(what, sql.Identifier(schema, self.table))
        wanted = list(conditions)
        if self.names_object is not None:
            wanted.append(f"({self.names_object})")
        where = f" WHERE {' AND '.join(wanted)}" if wanted else ""
        return found.as_string() + where


OWN_TABLES: tuple[OwnTable, ...] = (
    # In every state: a deleted file can be restored while its row is there.
    OwnTable(
        name="file",
        table="file",
        column="storage_key",
        awaits_upload="state = 'pending'",
        made_at="created_at",
    ),
    # A row in cleanup names its key until its object is known to be gone.
    OwnTable(
        name="upload",
        table="upload",
        column="storage_key",
        names_object="state <> 'cleaned'",
        awaits_upload="state IN ('writing', 'uncertain', 'cleanup')",
        # What stays is what was published, and that is counted as `attachment`.
        comes_and_goes=True,
    ),
    OwnTable(name="attachment", table="attachment", column="storage_key"),
)


# Rows of `upload` whose collector may delete the object that they name.
#
# A row in state `cleanup` names its key until it is `cleaned`, so the table would keep the object
# from its own collector. A claim leaves out exactly one row, and only while that row is as the
# claim left it: whoever has claimed it again, or has retained it, has raised its number or
# changed its state, or has written a hold into it, and the row then keeps the object as every
# other row does.

TABLE = "upload"

_NOT_CLAIMED = """
   AND NOT (state = 'cleanup'
            AND NOT legal_hold
            AND (retained_until IS NULL OR coalesce(retained_until <= claimed_at, false))
            AND (id, attempts) IN (SELECT claim.id, claim.attempt
                                     FROM unnest($2::uuid[], $3::integer[])
                                       AS claim (id, attempt)))
"""


@dataclass(frozen=True)
class Claim:
    """One row that a collector has claimed by a committed transaction.

    Attributes:
        id: The row's.
        attempt: Its `attempts` as the claim returned them: the fencing number.
    """

    id: UUID
    attempt: int


def without_claimed(query: str) -> str:
    """A query of `OwnTable.query`, without the rows of claims in `$2` (ids) and `$3` (numbers)."""
    return query + _NOT_CLAIMED


def as_parameters(claims: Sequence[Claim]) -> tuple[list[UUID], list[int]]:
    """The claims as `$2` and `$3`."""
    return [claim.id for claim in claims], [claim.attempt for claim in claims]
