"""Which days of a job have been swept, as `job_run` tells it.

Dagster's Partitions tab is a map of runs that Dagster still has: once `run_history` has pruned
them, a swept day looks missing there, and a day that a run over everything took along was never
painted. `job_run` is append-only, so it is what decides here.

A day counts when a live run that succeeded and swept had fixed its cutoff after the day's end, and
covered that day alone or everything. A day that has not ended is never swept: more may become due.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from typing import TYPE_CHECKING

from dateutil.parser import isoparse

from filejobs_dagster.ledger.outcome import AHEAD

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import psycopg
    from psycopg.rows import TupleRow

# As text: a record stands for ever, and one that cannot be read must not hide all others.
_LOOKED_UNTIL = "detail ->> 'cutoff', detail ->> 'restore_window_seconds'"

MOST_UNREADABLE = 100
"""So many of the newest records may be unreadable before an older one is not looked for."""

# The index job_run_swept holds exactly these rows, newest first. Cutoffs rise with time; where two
# runs overlapped, the newest ended may have the older cutoff, which errs on the side of missing.
_NEWEST_OVER_EVERYTHING = f"""
SELECT run_id, {_LOOKED_UNTIL}
  FROM job_run
 WHERE installation = %(installation)s
   AND job = %(job)s
   AND mode = 'live'
   AND outcome = 'ok'
   AND detail #>> '{{window,covers}}' = 'everything'
   AND detail ->> 'swept' = 'true'
   AND detail ->> 'cutoff' IS NOT NULL
   AND finished_at <= (SELECT clock_timestamp() + %(ahead)s)
 ORDER BY finished_at DESC, id DESC
 LIMIT %(most)s
"""  # noqa: S608 (constants of this module)

_OF_ONE_DAY = f"""
SELECT DISTINCT detail #>> '{{window,covers}}', {_LOOKED_UNTIL}, detail #>> '{{window,to}}'
  FROM job_run
 WHERE installation = %(installation)s
   AND job = %(job)s
   AND mode = 'live'
   AND outcome = 'ok'
   AND finished_at >= %(first)s
   AND finished_at <= (SELECT clock_timestamp() + %(ahead)s)
   AND detail #>> '{{window,covers}}' = ANY (%(days)s)
   AND detail ->> 'swept' = 'true'
"""  # noqa: S608 (constants of this module)

_DONE_BY_BACKFILL = """
SELECT DISTINCT detail #>> '{window,covers}'
  FROM job_run
 WHERE installation = %(installation)s
   AND job = %(job)s
   AND mode = %(mode)s
   AND outcome = 'ok'
   AND detail #>> '{window,covers}' = ANY (%(days)s)
   AND detail #>> '{trigger,name}' = ANY (%(backfills)s)
"""


@dataclass(frozen=True)
class SweptDays:
    """What has been swept of the days that were asked for.

    Attributes:
        by_day: Days that a run of their own swept.
        everything_until: Up to which days the newest run that swept everything had looked, or
            None.
        everything_by: That run's id, or None.
    """

    by_day: frozenset[date]
    everything_until: datetime | None = None
    everything_by: str | None = None

    def swept(self, day: date) -> bool:
        """Tell whether nothing that became due on the day was left."""
        if day in self.by_day:
            return True
        return self.everything_until is not None and self.everything_until >= end_of(day)

    def missing(self, days: Iterable[date]) -> tuple[date, ...]:
        """Those of the days that were not swept, in their order."""
        return tuple(day for day in days if not self.swept(day))


def swept_days(
    cursor: psycopg.Cursor[TupleRow], installation: str, job: str, days: Iterable[date]
) -> SweptDays:
    """Read what has been swept.

    Args:
        cursor: In a transaction of any kind; nothing is written.
        installation: Whose runs.
        job: A partitioned job.
        days: The days in question, in UTC.
    """
    asked = sorted(days)
    if not asked:
        return SweptDays(frozenset())
    # By a clock that was ahead a run takes days for over that are still to come.
    who: Mapping[str, object] = {"installation": installation, "job": job, "ahead": AHEAD}
    cursor.execute(_NEWEST_OVER_EVERYTHING, {**who, "most": MOST_UNREADABLE})
    readable = ((row[0], _looked_until(*row[1:])) for row in cursor.fetchall())
    newest = next((each for each in readable if each[1] is not None), None)
    labels = [day.isoformat() for day in asked]
    cursor.execute(_OF_ONE_DAY, {**who, "days": labels, "first": start_of(asked[0])})
    by_day = frozenset(
        date.fromisoformat(day)
        for day, cutoff, window, to in cursor.fetchall()
        if (looked := _looked_until(cutoff, window)) is not None
        and (end := _moment(to)) is not None
        and looked >= end
    )
    if newest is None:
        return SweptDays(by_day)
    return SweptDays(by_day, everything_until=newest[1], everything_by=newest[0])


def _looked_until(cutoff: str | None, restore_window: str | None) -> datetime | None:
    """Up to which of a job's days a run looked, or None when its record cannot be read.

    deleted_files says up to which deletions it looked, and its days are those on which the restore
    window ended: in the time of its days it looked that much further.
    """
    moment = _moment(cutoff)
    try:
        further = timedelta(seconds=int(restore_window or 0))
        return None if moment is None else moment + further
    except (ValueError, OverflowError):
        return None


def _moment(text: str | None) -> datetime | None:
    try:
        return None if text is None else isoparse(text).astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return None


def done_by_backfills(
    cursor: psycopg.Cursor[TupleRow],
    installation: str,
    job: str,
    days: Iterable[date],
    *,
    mode: str,
    backfills: Iterable[str],
) -> frozenset[date]:
    """The days that runs of some backfills finished well, in whatever state they left the day.

    Args:
        cursor: In a transaction of any kind; nothing is written.
        installation: Whose runs.
        job: A partitioned job.
        days: The days in question, in UTC.
        mode: `dry` or `live`.
        backfills: Their ids.
    """
    cursor.execute(
        _DONE_BY_BACKFILL,
        {
            "installation": installation,
            "job": job,
            "mode": mode,
            "days": [day.isoformat() for day in days],
            "backfills": list(backfills),
        },
    )
    return frozenset(date.fromisoformat(row[0]) for row in cursor.fetchall())


def days_between(first: date, last: date) -> tuple[date, ...]:
    """Every day from the first to the last, both included; empty when they are in wrong order."""
    return tuple(first + timedelta(days=ahead) for ahead in range((last - first).days + 1))


def start_of(day: date) -> datetime:
    """The first moment of a day, in UTC."""
    return datetime.combine(day, time(), timezone.utc)


def end_of(day: date) -> datetime:
    """The first moment after a day, in UTC."""
    return start_of(day + timedelta(days=1))
