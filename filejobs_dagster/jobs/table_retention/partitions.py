"""Partitions of which every row is past the cutoff: detached as a whole, and mostly dropped.

The upper bound decides, never the lower one nor the name. Both steps are one transaction, together
with the audit event, so DETACH … CONCURRENTLY is out: it cannot be part of one. The lock that they
need keeps everybody out of the table while they last, an instant, so it is waited for one second
and no longer: those who want to read would queue behind the wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg import sql

from filejobs_dagster.jobs.table_retention.target import Relation
from filejobs_dagster.settings.conditions import name_of

if TYPE_CHECKING:
    from datetime import datetime

    from filejobs_dagster.jobs.table_retention.target import Column, Raw, Target

# When a row is past a cutoff, for each type that its time can have.
#
# The cutoff is a moment of the database's clock. What a row's time means decides the rest: a
# timestamp without zone is read in the zone that the rule declares, a date lasts until its day is
# over. Exactly at the cutoff is not past it, and infinity is no time.

TIMESTAMPTZ = "timestamp with time zone"
TIMESTAMP = "timestamp without time zone"
DATE = "date"
KINDS = (TIMESTAMPTZ, TIMESTAMP, DATE)
UTC = "UTC"

# Where no zone is declared a day counts as over when it is over in the last zone on earth, UTC-12.
_LAST_ZONE = sql.SQL("interval '12 hours'")

# A clock that is put forward leaves out an hour or two. A row that claims a time inside of them
# was written by a clock that was not, so a bound of a partition waits for those as well.
_LEFT_OUT = sql.SQL("interval '3 hours'")


def kind_of(column: Column) -> str | None:
    """The type of a time column without its precision, or None for another type."""
    bare = column.type
    if bare.startswith("timestamp("):
        bare = "timestamp" + bare[bare.index(")") + 1 :]
    return bare if bare in KINDS else None


def past(column: Column, zone: str | None, cutoff: datetime) -> sql.Composed:
    """The condition that a row's time is before the cutoff, in a form that an index serves."""
    name, moment = column.quoted, sql.Literal(cutoff)
    kind = kind_of(column)
    if kind == TIMESTAMPTZ:
        return sql.SQL("({0} > '-infinity'::timestamptz AND {0} < {1})").format(name, moment)
    if kind == TIMESTAMP:
        in_zone = sql.Literal(zone or UTC)
        bound = sql.SQL("{0} > '-infinity'::timestamp AND {0} < ({1} AT TIME ZONE {2})").format(
            name, moment, in_zone
        )
        if zone in (None, UTC):
            return sql.SQL("({})").format(bound)
        # When the clock is put back, an hour comes twice. PostgreSQL reads it as the later one.
        return sql.SQL("({} AND ({} AT TIME ZONE {}) < {})").format(bound, name, in_zone, moment)
    if zone is None:
        return sql.SQL(
            "({0} > '-infinity'::date AND {0} < (({1} AT TIME ZONE 'UTC') - {2})::date)"
        ).format(name, moment, _LAST_ZONE)
    in_zone = sql.Literal(zone)
    return sql.SQL(
        "({0} > '-infinity'::date AND {0} < ({1} AT TIME ZONE {2})::date AND ({3}) <= {1})"
    ).format(name, moment, in_zone, instant(column, zone))


def instant(column: Column, zone: str | None) -> sql.Composed:
    """The moment that a row's time stands for; of a date the one at which its day is over."""
    return _instant(column.quoted, kind_of(column) or TIMESTAMPTZ, zone)


def _instant(value: sql.Composable, kind: str, zone: str | None) -> sql.Composed:
    if kind == TIMESTAMPTZ:
        return sql.SQL("{}").format(value)
    if kind == TIMESTAMP:
        return sql.SQL("({} AT TIME ZONE {})").format(value, sql.Literal(zone or UTC))
    day_over = sql.SQL("(({} + 1)::timestamp AT TIME ZONE {})").format(
        value, sql.Literal(zone or UTC)
    )
    return day_over if zone else sql.SQL("({} + {})").format(day_over, _LAST_ZONE)


def bound_is_past(
    bound: sql.Composable, column: Column, zone: str | None, cutoff: datetime
) -> sql.Composed:
    """The condition that every row below a partition's upper bound is past the cutoff.

    Rows are below the bound, so a bound exactly at the cutoff is past it.

    Args:
        bound: SQL of the upper bound, as text.
        column: The time, by which the table is partitioned.
        zone: What the rule declares.
        cutoff: Of the rule.
    """
    kind = kind_of(column) or TIMESTAMPTZ
    value = sql.SQL("({}::{})").format(bound, column.cast)
    moment = sql.Literal(cutoff)
    if kind == DATE:
        # The last day below the bound is over when the day of the bound begins.
        return sql.SQL("({}) <= {}").format(
            _instant(sql.SQL("({} - 1)").format(value), DATE, zone), moment
        )
    if kind == TIMESTAMP and zone not in (None, UTC):
        value = sql.SQL("({} + {})").format(value, _LEFT_OUT)
    return sql.SQL("({}) <= {}").format(_instant(value, kind, zone), moment)


PATIENCE = "1s"
"""How long the lock is waited for; all readers queue behind it."""

# Below a partition that goes nothing needs to be asked. `TO ('…')` alone is one bound of one
# column; DEFAULT, MAXVALUE and bounds of several columns are left to the rows.
_PAST = """
WITH part AS (
    SELECT tree.relid::oid AS oid, tree.parentrelid AS parent, tree.level,
           pg_get_expr(pg_class.relpartbound, pg_class.oid) AS bounds
      FROM pg_partition_tree($1) AS tree
      JOIN pg_class ON pg_class.oid = tree.relid
      JOIN pg_partitioned_table ON partrelid = tree.parentrelid
      JOIN pg_attribute ON attrelid = partrelid AND attnum = partattrs[0]
     WHERE tree.level > 0 AND partstrat = 'r' AND partnatts = 1 AND attname = $2),
     bounded AS (
    SELECT part.*, substring(bounds FROM $bound$TO \\('([^']*)'\\)$bound$) AS upper_bound
      FROM part)
SELECT bounded.oid, part_schema.nspname, part_class.relname,
       parent_class.oid, parent_schema.nspname, parent_class.relname, bounds,
       (SELECT sum(greatest(reltuples, 0))::bigint
          FROM pg_partition_tree(bounded.oid) JOIN pg_class ON pg_class.oid = relid
         WHERE isleaf)
  FROM bounded
  JOIN pg_class AS part_class ON part_class.oid = bounded.oid
  JOIN pg_namespace AS part_schema ON part_schema.oid = part_class.relnamespace
  JOIN pg_class AS parent_class ON parent_class.oid = bounded.parent
  JOIN pg_namespace AS parent_schema ON parent_schema.oid = parent_class.relnamespace
 WHERE upper_bound IS NOT NULL AND {past}
 ORDER BY level, bounds
"""


@dataclass(frozen=True)
class Partition:
    """A partition that is past the cutoff.

    Attributes:
        relation: The partition.
        parent: What it is a partition of.
        bounds: As PostgreSQL writes them, times in UTC.
        estimate: How many rows PostgreSQL believes it holds; 0 when it never counted.
    """

    relation: Relation
    parent: Relation
    bounds: str
    estimate: int


def reason_to_keep(target: Target) -> str | None:
    """Why partitions are not dropped as a whole, or None; their rows go one by one then."""
    rule = target.rule
    if rule.where is not None or rule.except_ is not None or rule.dangling is not None:
        return "a partition may hold rows that the conditions keep"
    if target.children:
        return "the children of its rows are deleted with them"
    if target.foreign_keys:
        names = ", ".join(dict.fromkeys(str(key.relation) for key in target.foreign_keys))
        return f"foreign keys of {names} refer to the table"
    if target.delete_triggers:
        return "a trigger looks at each deletion"
    if not target.owned:
        return "the role does not own the table"
    return None


def partitions_past(cursor: Raw, target: Target, cutoff: datetime) -> list[Partition]:
    """The partitions whose upper bound is at or before the cutoff, outermost first."""
    past = bound_is_past(sql.Identifier("upper_bound"), target.time, target.rule.time_zone, cutoff)
    before, after = _PAST.split("{past}")
    cursor.execute(
        sql.SQL("{}{}{}").format(sql.SQL(before), past, sql.SQL(after)),
        (target.table.oid, target.time.name),
    )
    found: list[Partition] = []
    inside: set[int] = set()
    for (
        oid,
        schema,
        name,
        parent,
        parent_schema,
        parent_name,
        bounds,
        estimate,
    ) in cursor.fetchall():
        partition = Partition(
            Relation(int(oid), str(schema), str(name)),
            Relation(int(parent), str(parent_schema), str(parent_name)),
            str(bounds),
            int(estimate or 0),
        )
        if partition.parent.oid in inside:
            inside.add(partition.relation.oid)
            continue
        inside.add(partition.relation.oid)
        found.append(partition)
    return found


def take(cursor: Raw, target: Target, partition: Partition, cutoff: datetime) -> str | None:
    """Detach a partition, and drop it where the rule says so, in the caller's transaction.

    Returns:
        Why it stays: nothing was done then. None when it is gone.
    """
    cursor.execute("SELECT current_setting('lock_timeout')")
    (before,) = cursor.fetchone() or ("0",)
    cursor.execute("SELECT set_config('lock_timeout', $1, true)", (PATIENCE,))
    for relation in (partition.parent, partition.relation):
        cursor.execute(
            sql.SQL("LOCK TABLE ONLY {} IN ACCESS EXCLUSIVE MODE").format(relation.quoted)
        )
    # Under the lock: somebody may have detached it, or attached it with other bounds.
    still = partitions_past(cursor, target, cutoff)
    if (partition.relation, partition.bounds) not in [(one.relation, one.bounds) for one in still]:
        return "it is another one than a moment ago"
    if _has_infinite_time(cursor, target, partition):
        return "it holds rows whose time is -infinity"
    if is_last(cursor, partition):
        return LAST
    cursor.execute(
        sql.SQL("ALTER TABLE {} DETACH PARTITION {}").format(
            partition.parent.quoted, partition.relation.quoted
        )
    )
    if target.rule.whole_partitions == "drop":
        # Without CASCADE: what depends on the partition, such as a view, keeps it.
        cursor.execute(sql.SQL("DROP TABLE {}").format(partition.relation.quoted))
    elif target.rule.archive_schema is not None:
        cursor.execute(
            sql.SQL("ALTER TABLE {} SET SCHEMA {}").format(
                partition.relation.quoted, sql.Identifier(name_of(target.rule.archive_schema))
            )
        )
    cursor.execute("SELECT set_config('lock_timeout', $1, true)", (before,))
    return None


LAST = "it is the last one, and new rows would have no place: see to what makes partitions"


def is_last(cursor: Raw, partition: Partition) -> bool:
    """Tell whether its table has no other partition."""
    cursor.execute(
        "SELECT count(*) FROM pg_inherits WHERE inhparent = $1 AND NOT inhdetachpending",
        (partition.parent.oid,),
    )
    return cursor.fetchone() == (1,)


def _has_infinite_time(cursor: Raw, target: Target, partition: Partition) -> bool:
    """A partition without a lower bound can hold -infinity, which is no time."""
    cursor.execute(
        sql.SQL("SELECT EXISTS (SELECT FROM {} WHERE {} = '-infinity')").format(
            partition.relation.quoted, target.time.quoted
        )
    )
    return cursor.fetchone() == (True,)
