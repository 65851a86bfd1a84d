"""The table of a rule, as the database knows it.

Also why a rule is not carried out, in words that may be written down, and the transactions in which
the operator's names and conditions mean what they mean to the role.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow, tuple_row

from filejobs_dagster.postgres.connect import CommitUnconfirmed
from filejobs_dagster.postgres.replica_identity import HINT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.jobs.table_retention.settings import RetentionRuleSettings
    from filejobs_dagster.postgres.connect import Connection, Database

# Why a rule is not carried out, and what of PostgreSQL's refusals may be written down.


class RuleRefused(Exception):
    """The rule cannot be carried out as it is; the other rules go on.

    Attributes:
        found: What is wrong, without the final full stop.
        advice: What to do.
    """

    def __init__(self, found: str, advice: str) -> None:
        super().__init__(f"{found}. {advice[:1].upper()}{advice[1:]}.")
        self.found = found
        self.advice = advice


def ends_the_run(error: psycopg.Error, connection: psycopg.Connection[tuple[object, ...]]) -> bool:
    """Tell whether no rule can go on: the connection broke, or commits are not confirmed."""
    return connection.closed or connection.broken or isinstance(error, CommitUnconfirmed)


def refuses_rows(error: psycopg.Error) -> bool:
    """Tell whether PostgreSQL may accept the statement for other or for fewer rows.

    A foreign key refuses some row, or a trigger of the operator's does; a statement that took too
    long may not with half of the rows.
    """
    of_rows = (
        psycopg.IntegrityError,
        psycopg.DataError,
        psycopg.errors.RaiseException,
        psycopg.errors.QueryCanceled,
    )
    return isinstance(error, of_rows) or "PL/pgSQL function" in (error.diag.context or "")


def said(error: psycopg.Error) -> str:
    """What PostgreSQL said, without what a row holds.

    Its DETAIL quotes the values of a row, and so does the first line of a data error.
    """
    if isinstance(error, psycopg.errors.QueryCanceled):
        return "a statement took longer than database.statement_timeout"
    if isinstance(error, psycopg.errors.LockNotAvailable):
        return "somebody else held a lock for longer than database.lock_timeout"
    if isinstance(error, psycopg.DataError):
        return f"{type(error).__name__}: a value of some row does not fit the condition"
    return error.diag.message_primary or type(error).__name__


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
    """Another table of the rule, and its column that holds the same value."""

    relation: Relation
    column: Column


@dataclass(frozen=True)
class Dangling:
    """Rows that name a row which is not there.

    Attributes:
        column: The column that names it.
        named: Where it may be, in the order in which these tables are locked.
        kind: The column that says what is named, or None.
    """

    column: Column
    named: tuple[Child, ...]
    kind: Column | None


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
        dangling: Which rows are meant by what they name, or None.
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
    dangling: Dangling | None = None
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

    def own(self, column: Column) -> sql.Identifier:
        """A column with the table's name before it, so that no other one is meant."""
        return sql.Identifier(self.table.schema, self.table.name, column.name)

    def in_order(self) -> tuple[sql.Identifier, ...]:
        """The order for ORDER BY, with the table's name before each column.

        Without it, ORDER BY means a column of the answer, where ids are texts: 10 before 2.
        """
        return tuple(self.own(each) for each in self.order)

    def privileges(self) -> RuleRefused | None:
        """Why PostgreSQL will refuse a live run of this role, or None."""
        if self.unidentified:
            return RuleRefused(f"{'; '.join(self.unidentified)}: no row of it can be deleted", HINT)
        if not self.lacking:
            return None
        return RuleRefused(
            f"the role lacks {' and '.join(self.lacking)}",
            "GRANT them to the role of the jobs; locking a row or a table needs UPDATE",
        )

    @property
    def cascades(self) -> tuple[ForeignKey, ...]:
        """The foreign keys that delete or change rows of other tables."""
        return tuple(each for each in self.foreign_keys if each.action != "refuses")


# Transactions in which the operator's names and conditions mean what they mean to the role.

Raw: TypeAlias = psycopg.RawCursor[TupleRow]
"""Leaves `%` in a condition alone; parameters are `$1` and so on."""


@contextmanager
def reading(database: Database, connection: Connection) -> Iterator[Raw]:
    """A transaction in which PostgreSQL refuses every change."""
    with (
        database.transaction(connection, read_only=True),
        raw_cursor(connection) as cursor,
        roles_search_path(cursor),
    ):
        yield cursor


@contextmanager
def raw_cursor(connection: Connection) -> Iterator[Raw]:
    """A cursor in the transaction that is open."""
    with psycopg.RawCursor(connection, row_factory=tuple_row) as cursor:
        yield cursor


@contextmanager
def roles_search_path(cursor: Raw) -> Iterator[None]:
    """Resolve names as the role does; what follows finds the project's tables again."""
    cursor.execute("SELECT current_setting('search_path')")
    (projects,) = cursor.fetchone() or ("",)
    cursor.execute("SET LOCAL search_path TO DEFAULT")
    yield
    # After an error the transaction is over, and this setting with it.
    cursor.execute("SELECT set_config('search_path', $1, true)", (projects,))


IN_INDEX_ORDER = """
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true)
"""
"""A table that was never analyzed looks small, and a page would read and sort all of it. In the
order of the index a page costs what it returns. PostgreSQL reads a table as a whole all the same
where no index serves."""
