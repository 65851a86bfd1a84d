"""The table of a rule, as the database knows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg import sql

from filejobs_dagster.jobs.table_retention.refused import RuleRefused
from filejobs_dagster.postgres.replica_identity import HINT

if TYPE_CHECKING:
    from filejobs_dagster.jobs.table_retention.settings import RetentionRuleSettings


@dataclass(frozen=True)
class Column:
    """A column and its type, as `format_type` writes it."""

    name: str
    type: str

    @property
    def quoted(self) -> sql.Identifier:
        """The name in SQL."""
        return sql.Identifier(self.name)

    @property
    def cast(self) -> sql.SQL:
        """The type in SQL; it comes from PostgreSQL's catalog."""
        return sql.SQL(self.type)


@dataclass(frozen=True)
class Relation:
    """A table by its object identifier; the name is for people and for statements."""

    oid: int
    schema: str
    name: str

    @property
    def quoted(self) -> sql.Identifier:
        """The name in SQL, with its schema."""
        return sql.Identifier(self.schema, self.name)

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True)
class Child:
    """A child table of the rule, and its column that holds the key."""

    relation: Relation
    column: Column


@dataclass(frozen=True)
class ForeignKey:
    """A foreign key that refers to the rule's table.

    Attributes:
        name: The constraint's.
        relation: The table that refers.
        column: Its first column.
        action: What happens to its rows: `refuses`, `cascades`, `set null` or `set default`.
        indexed: Whether an index begins with one of its columns.
    """

    name: str
    relation: Relation
    column: str
    action: str
    indexed: bool


@dataclass(frozen=True)
class Target:
    """Everything about a rule's table that its statements need.

    Attributes:
        rule: The rule, as the settings have it.
        table: The table.
        partitioned: Whether it has partitions.
        time: The column of the time; its type is one of the keys of `moments.KINDS`.
        key: The columns of the primary key, or of a unique index that can stand for it.
        scrub: The columns to scrub, as the database names them.
        children: The child tables of the rule.
        foreign_keys: What else refers to the table.
        lacking: Privileges that the role lacks for a live run, in words; empty for none.
        unidentified: Published tables whose rows PostgreSQL will not delete, in words.
        pending: Statements that finish the detaching of partitions which somebody began.
        owned: Whether the role may drop partitions of it.
        delete_triggers: Whether a trigger of the operator's looks at deletions.
    """

    rule: RetentionRuleSettings
    table: Relation
    partitioned: bool
    time: Column
    key: tuple[Column, ...]
    scrub: tuple[str, ...] = ()
    children: tuple[Child, ...] = ()
    foreign_keys: tuple[ForeignKey, ...] = ()
    lacking: tuple[str, ...] = ()
    unidentified: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    owned: bool = False
    delete_triggers: bool = False

    @property
    def order(self) -> tuple[Column, ...]:
        """The columns by which rows are taken in turn: the time, then what is unique."""
        return (self.time, *(each for each in self.key if each.name != self.time.name))

    def in_order(self) -> tuple[sql.Identifier, ...]:
        """The order for ORDER BY, with the table's name before each column.

        Without it, ORDER BY means a column of the answer, where ids are texts: 10 before 2.
        """
        schema, name = self.table.schema, self.table.name
        return tuple(sql.Identifier(schema, name, each.name) for each in self.order)

    def privileges(self) -> RuleRefused | None:
        """Why PostgreSQL will refuse a live run of this role, or None."""
        if self.unidentified:
            return RuleRefused(f"{'; '.join(self.unidentified)}: no row of it can be deleted", HINT)
        if not self.lacking:
            return None
        return RuleRefused(
            f"the role lacks {' and '.join(self.lacking)}",
            "GRANT them to the role of the jobs; locking a row needs UPDATE",
        )

    @property
    def cascades(self) -> tuple[ForeignKey, ...]:
        """The foreign keys that delete or change rows of other tables."""
        return tuple(each for each in self.foreign_keys if each.action != "refuses")
