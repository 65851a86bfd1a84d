"""What is due now by a rule: counted up to a bound, in a transaction that only reads."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg import sql

from filejobs_dagster.jobs.table_retention import partitions
from filejobs_dagster.jobs.table_retention.partitions import (
    LAST,
    partitions_past,
    reason_to_keep,
)
from filejobs_dagster.jobs.table_retention.statements import NAMED, Statements
from filejobs_dagster.jobs.table_retention.target import IN_INDEX_ORDER, RuleRefused

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from filejobs_dagster.jobs.table_retention.partitions import Partition
    from filejobs_dagster.jobs.table_retention.target import Raw, Relation, Target

# Whether an index serves a rule's statements, and which one would.
#
# The rule is asked of PostgreSQL's planner itself: with reading whole tables made expensive, a
# plan that does so all the same has no index to use.

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
    for other in target.dangling.named if target.dangling is not None else ():
        if not _has_index(cursor, other.relation, other.column.name):
            found += _of_other(cursor, other.relation, other.column.name, "looks what is named")
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
    if "Relation Name" in node and node["Alias"] != NAMED and not _is_served(cursor, node, column):
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


NEWEST = 1000
"""So many rows, the newest ones, say whether the tables that a rule names are those it means."""


def refuse_where_most_dangle(cursor: Raw, statements: Statements) -> None:
    """Make sure that what the rows name is looked for in the right tables, and that those are full.

    The oldest rows may well dangle all; of the newest, most name something that is there.

    Args:
        cursor: In a transaction.
        statements: Of either fate.

    Raises:
        RuleRefused: Too many dangle, or they name rows of more tables than the rule knows.
    """
    target, rule = statements.target, statements.target.rule
    dangling = target.dangling
    if dangling is None or rule.dangling is None:
        return
    cursor.execute(statements.newest(dangling, NEWEST))
    rows, dangle, kinds = cursor.fetchone() or (0, 0, 0)
    tables = ", ".join(str(each.relation) for each in dangling.named)
    if dangling.kind is not None and kinds > len(dangling.named):
        raise RuleRefused(
            f"the newest rows of {target.table} have {kinds} values of {dangling.kind.name}, and "
            f"the rule looks into {tables} alone: rows that name another table would be taken",
            f"let `where` fix one of them: {dangling.kind.name} = 'Message'",
        )
    if dangle > rows * rule.dangling.at_most:
        raise RuleRefused(
            f"{dangle} of the newest {rows} rows of {target.table} name what is not in {tables}, "
            f"and at_most is {rule.dangling.at_most:g}: such a table is being filled, or it is not "
            "what they name",
            "look some of these rows up; if all of them are rightly so, raise at_most of dangling",
        )


_SIZE = """
SELECT sum(pg_total_relation_size(oid))::bigint
  FROM (SELECT $1::oid AS oid UNION SELECT relid FROM pg_partition_tree($1)) AS part
"""


@dataclass(frozen=True)
class Count:
    """A number of rows, counted up to a bound.

    Attributes:
        rows: How many; at most the bound.
        more: True when there are more than the bound.
    """

    rows: int
    more: bool = False

    def __str__(self) -> str:
        return f"{self.rows:,} or more" if self.more else f"{self.rows:,}"


@dataclass(frozen=True)
class Look:
    """What a rule would do now.

    Attributes:
        deletes: Rows that would be deleted.
        scrubs: Rows that would be scrubbed, and are not deleted.
        without_time: Rows that the rule means and never takes, because they have no time; None
            where a large table would be read as a whole for it.
        oldest: The moment of the oldest row that is due for deletion, or None.
        partitions: Those that would go as a whole; their rows count in `deletes` as well.
        last_partition: One that is past, and stays, since the table has no other one; or None.
        size_bytes: The table with its indexes and partitions.
    """

    deletes: Count
    scrubs: Count
    without_time: Count | None
    oldest: datetime | None
    partitions: tuple[Partition, ...]
    size_bytes: int
    last_partition: Relation | None = None


@dataclass(frozen=True)
class Plan:
    """A rule with its table and its cutoffs.

    Attributes:
        target: The table.
        delete: Statements for what is deleted.
        scrub: Statements for what is scrubbed, or None.
    """

    target: Target
    delete: Statements
    scrub: Statements | None

    @classmethod
    def of(cls, target: Target, now: datetime) -> Plan:
        """The plan at a moment of the database's clock."""
        rule = target.rule
        cutoff = now - rule.delete_after
        scrub = None
        if rule.scrub_after is not None:
            scrub = Statements(target, "scrubbed", now - rule.scrub_after, cutoff)
        return cls(target, Statements(target, "deleted", cutoff, cutoff), scrub)

    @property
    def both(self) -> tuple[Statements, ...]:
        """The statements in the order of work."""
        return (self.delete,) if self.scrub is None else (self.delete, self.scrub)

    def missing_indexes(self, cursor: Raw) -> list[Missing]:
        """The indexes that the rule lacks."""
        found = [missing for each in self.both
                 for missing in missing_indexes(cursor, self.target, each)]  # fmt: skip
        return list(dict.fromkeys(found))

    def too_slow(self) -> RuleRefused:
        """Why the rule is not carried out when its rows are not found in time."""
        return too_slow(self.both)

    def whole_partitions(self, cursor: Raw) -> list[Partition]:
        """The partitions that can go as a whole."""
        if not self.target.partitioned or reason_to_keep(self.target) is not None:
            return []
        return partitions_past(cursor, self.target, self.delete.cutoff)

    def look(self, cursor: Raw, most: int) -> Look:
        """Count what is due.

        Args:
            cursor: In a transaction with the role's own search path; its planner is told to go by
                the indexes.
            most: Rows of each kind are counted up to here.
        """
        cursor.execute(IN_INDEX_ORDER)
        refuse_where_most_dangle(cursor, self.delete)
        deletes = counted(cursor, self.delete.count(most + 1), most)
        scrubs = Count(0)
        if self.scrub is not None:
            scrubs = counted(cursor, self.scrub.count(most + 1), most)
        partitions = self.whole_partitions(cursor)
        # Those before it go, and then it is the last one.
        last = (
            partitions[-1].relation if partitions and self._all_of_it(cursor, partitions) else None
        )
        return Look(
            deletes=deletes,
            scrubs=scrubs,
            without_time=_without_time(cursor, self.delete, most),
            oldest=oldest(cursor, self.delete),
            partitions=tuple(one for one in partitions if one.relation != last),
            last_partition=last,
            size_bytes=self.size_bytes(cursor),
        )

    def _all_of_it(self, cursor: Raw, partitions: list[Partition]) -> bool:
        """Whether the table would have none left."""
        table = self.target.table.oid
        cursor.execute("SELECT count(*) FROM pg_inherits WHERE inhparent = $1", (table,))
        return cursor.fetchone() == (sum(one.parent.oid == table for one in partitions),)

    def size_bytes(self, cursor: Raw) -> int:
        """The table with its indexes and partitions."""
        cursor.execute(_SIZE, (self.target.table.oid,))
        (size,) = cursor.fetchone() or (0,)
        return int(size)

    def warnings(self, look: Look) -> list[str]:
        """What somebody should know of the rule, a sentence each."""
        target, rule = self.target, self.target.rule
        found = [
            f"its foreign key {key.name} changes rows of {key.relation} with it ({key.action})"
            for key in target.cascades
        ]
        referring = {key.relation.oid for key in target.foreign_keys}
        found += [
            f"{child.relation} has no foreign key to {target.table}: a row that is added to it "
            "while its parent goes stays behind"
            for child in target.children
            if child.relation.oid not in referring
        ]
        if target.partitioned:
            reason = reason_to_keep(target)
            if reason is not None:
                found.append(f"no partition is dropped as a whole: {reason}")
        found += [
            "a partition is pending detach, so nobody sees its rows through the table and no rule "
            f"takes them; finish that: {statement}"
            for statement in target.pending
        ]
        if look.last_partition is not None:
            found.append(f"{look.last_partition} stays, and its rows go one by one: {LAST}")
        limit = rule.warn_over_bytes
        if limit is not None and look.size_bytes > limit:
            found.append(
                f"{look.deletes} rows are due, and the table is over its size: "
                f"{look.size_bytes:,} bytes of {limit:,}"
            )
        if look.without_time is not None and look.without_time.rows:
            found.append(f"{look.without_time} rows have no time and are never taken")
        if partitions.kind_of(target.time) == partitions.DATE and rule.time_zone is None:
            found.append("a day counts as over when it is over everywhere on earth (UTC-12)")
        return found


def _without_time(cursor: Raw, statements: Statements, most: int) -> Count | None:
    for statement in statements.without_time(most + 1):
        if is_served(cursor, statements.target, statement):
            cursor.execute(statement)
            meant, looked_at = cursor.fetchone() or (0, 0)
            return Count(min(int(meant), most), int(looked_at) > most)
    return None


def oldest(cursor: Raw, statements: Statements) -> datetime | None:
    """The moment of the oldest due row."""
    cursor.execute(statements.oldest())
    row = cursor.fetchone()
    return None if row is None else row[0]


def counted(cursor: Raw, statement: sql.Composed, most: int) -> Count:
    """Send a statement that counts up to `most` and one."""
    cursor.execute(statement)
    (rows,) = cursor.fetchone() or (0,)
    return Count(min(int(rows), most), int(rows) > most)
