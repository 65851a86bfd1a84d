"""The project's own tables: sources that no settings can remove."""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import sql


@dataclass(frozen=True)
class OwnTable:
    """A table of the project whose rows name keys.

    Attributes:
        name: What reports call it.
        table: The table, in the project's schema.
        column: `text COLLATE "C"` with an index: equality is that of the bytes, and one lookup a
            key suffices.
        awaits_upload: SQL condition on the table: its rows may name objects that never came.
    """

    name: str
    table: str
    column: str
    awaits_upload: str | None = None

    def query(self, schema: str) -> str:
        """SQL that returns those of the keys in `$1` (`text[]`) that the table names."""
        column = sql.Identifier(self.column)
        return (
            sql.SQL("SELECT {} FROM {} WHERE {} = any($1::text[])")
            .format(column, sql.Identifier(schema, self.table), column)
            .as_string()
        )

    def keys(self, schema: str) -> str:
        """SQL that returns every key of the table as bytea, in no order: one sequential read."""
        return (
            sql.SQL("SELECT convert_to({}, 'UTF8') FROM {}")
            .format(sql.Identifier(self.column), sql.Identifier(schema, self.table))
            .as_string()
        )

    def awaited_keys(self, schema: str) -> str | None:
        """SQL like `keys` for the rows that may have no object yet; None when all must have one."""
        if self.awaits_upload is None:
            return None
        return f"{self.keys(schema)} WHERE {self.awaits_upload}"


OWN_TABLES: tuple[OwnTable, ...] = (
    # In every state: a deleted file can be restored while its row is there.
    OwnTable(name="file", table="file", column="storage_key", awaits_upload="state = 'pending'"),
)
