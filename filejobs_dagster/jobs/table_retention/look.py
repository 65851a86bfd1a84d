"""What is due now by a rule: counted up to a bound, in a transaction that only reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from filejobs_dagster.jobs.table_retention import moments
from filejobs_dagster.jobs.table_retention.indexes import is_served, missing_indexes, too_slow
from filejobs_dagster.jobs.table_retention.partitions import partitions_past, reason_to_keep
from filejobs_dagster.jobs.table_retention.session import IN_INDEX_ORDER
from filejobs_dagster.jobs.table_retention.statements import Statements

if TYPE_CHECKING:
    from datetime import datetime

    from psycopg import sql

    from filejobs_dagster.jobs.table_retention.indexes import Missing
    from filejobs_dagster.jobs.table_retention.partitions import Partition
    from filejobs_dagster.jobs.table_retention.refused import RuleRefused
    from filejobs_dagster.jobs.table_retention.session import Raw
    from filejobs_dagster.jobs.table_retention.target import Target

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
        partitions: Those that would be dropped as a whole; their rows count in `deletes` as well.
        size_bytes: The table with its indexes and partitions.
    """

    deletes: Count
    scrubs: Count
    without_time: Count | None
    oldest: datetime | None
    partitions: tuple[Partition, ...]
    size_bytes: int


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
        deletes = counted(cursor, self.delete.count(most + 1), most)
        scrubs = Count(0)
        if self.scrub is not None:
            scrubs = counted(cursor, self.scrub.count(most + 1), most)
        return Look(
            deletes=deletes,
            scrubs=scrubs,
            without_time=_without_time(cursor, self.delete, most),
            oldest=oldest(cursor, self.delete),
            partitions=tuple(self.whole_partitions(cursor)),
            size_bytes=self.size_bytes(cursor),
        )

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
        limit = rule.warn_over_bytes
        if limit is not None and look.size_bytes > limit:
            found.append(
                f"{look.deletes} rows are due, and the table is over its size: "
                f"{look.size_bytes:,} bytes of {limit:,}"
            )
        if look.without_time is not None and look.without_time.rows:
            found.append(f"{look.without_time} rows have no time and are never taken")
        if moments.kind_of(target.time) == moments.DATE and rule.time_zone is None:
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
