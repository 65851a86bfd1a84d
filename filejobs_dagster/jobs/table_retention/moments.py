"""When a row is past a cutoff, for each type that its time can have.

The cutoff is a moment of the database's clock. What a row's time means decides the rest: a
timestamp without zone is read in the zone that the rule declares, a date lasts until its day is
over. Exactly at the cutoff is not past it, and infinity is no time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from psycopg import sql

if TYPE_CHECKING:
    from datetime import datetime

    from filejobs_dagster.jobs.table_retention.target import Column

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
