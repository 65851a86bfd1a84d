"""Which conditions are open, since when, and what each destination must be told of them.

One call is one transaction: a condition that is opened or closed and the notices of it become
visible together, or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from filejobs_dagster.alerts.conditions import STANDING_KINDS
from filejobs_dagster.alerts.mutes import NOT_MUTED

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.alerts.conditions import Condition, Looked
    from filejobs_dagster.alerts.destinations import Destination

FLAPPING_WITHIN = timedelta(days=1)
MOST_DOUBLINGS = 8
LONGEST_HOLD = timedelta(hours=6)
KEPT_FOR = timedelta(days=90)

# Two who look at once would both find a condition new; the second waits and finds it open.
_ONE_AT_A_TIME = (
    "SELECT pg_advisory_xact_lock(hashtextextended('filejobs/alerts/' || %(installation)s, 0))"
)

_OPEN = """
INSERT INTO alert_condition (installation, fingerprint, job, kind, severity, reason, openings)
SELECT %(installation)s, %(fingerprint)s, %(job)s, %(kind)s, %(severity)s, %(reason)s,
       1 + (SELECT count(*)
              FROM alert_condition
             WHERE installation = %(installation)s
               AND fingerprint = %(fingerprint)s
               AND first_seen > clock_timestamp() - %(within)s::interval)
ON CONFLICT (installation, fingerprint) WHERE resolved_at IS NULL DO UPDATE
   SET last_seen = clock_timestamp(), reason = excluded.reason, clear_since = NULL
RETURNING xmax = 0
"""

# What a job's record ends was over with that record, however much later somebody looks.
_NOT_SEEN = """
UPDATE alert_condition AS condition
   SET clear_since = coalesce(
           clear_since,
           CASE WHEN kind = ANY(%(of_records)s) THEN
               (SELECT min(finished_at)
                  FROM job_run
                 WHERE job_run.installation = condition.installation
                   AND job_run.job = condition.job
                   AND outcome = 'ok'
                   AND finished_at > condition.last_seen
                   AND finished_at <= clock_timestamp())
           END,
           clock_timestamp())
 WHERE installation = %(installation)s
   AND resolved_at IS NULL
   AND kind = ANY(%(judged)s)
   AND NOT fingerprint = ANY(%(seen)s)
"""

# The hold doubles with each return within a day, so that what comes and goes is told ever more
# rarely, and says how often it came.
_OVER = """
UPDATE alert_condition
   SET resolved_at = clock_timestamp()
 WHERE installation = %(installation)s
   AND resolved_at IS NULL
   AND clear_since IS NOT NULL
   AND clear_since <= clock_timestamp()
       - least(%(hold)s::interval * (1 << least(openings - 1, %(most)s)),
               greatest(%(longest)s::interval, %(hold)s::interval))
RETURNING id, job, kind
"""

# Also those of a destination that came into the settings after the condition was opened, and what
# was muted until now.
_SAY_RAISED = f"""
INSERT INTO alert_delivery (installation, destination, condition_id, what)
SELECT condition.installation, given.destination, condition.id, 'raised'
  FROM alert_condition AS condition
  JOIN unnest(%(destinations)s::text[], %(severities)s::text[]) AS given (destination, severity)
    ON given.severity = condition.severity
 WHERE condition.installation = %(installation)s
   AND condition.resolved_at IS NULL
   AND {NOT_MUTED}
ON CONFLICT DO NOTHING
"""  # noqa: S608 (a constant)

_SAY_RECOVERED = """
INSERT INTO alert_delivery (installation, destination, condition_id, what)
SELECT raised.installation, raised.destination, raised.condition_id, 'recovered'
  FROM alert_delivery AS raised
 WHERE raised.condition_id = ANY(%(conditions)s)
   AND raised.what = 'raised'
   AND raised.dropped_at IS NULL
ON CONFLICT DO NOTHING
"""

_SAY_AGAIN = f"""
INSERT INTO alert_delivery (installation, destination, condition_id, what)
SELECT said.installation, said.destination, said.condition_id, 'reminder'
  FROM alert_condition AS condition
  JOIN alert_delivery AS said ON said.condition_id = condition.id
 WHERE condition.installation = %(installation)s
   AND condition.resolved_at IS NULL
   AND said.dropped_at IS NULL
   AND {NOT_MUTED}
 GROUP BY said.installation, said.destination, said.condition_id
HAVING bool_and(said.sent_at IS NOT NULL)
   AND max(said.sent_at) <= clock_timestamp() - %(repeat_after)s::interval
ON CONFLICT DO NOTHING
"""  # noqa: S608 (a constant)

# A reminder of what is over meanwhile says nothing that the notice of its end does not say.
_NO_LATE_REMINDERS = """
UPDATE alert_delivery
   SET dropped_at = clock_timestamp(), last_error = 'it was over before this could be said'
 WHERE condition_id = ANY(%(conditions)s)
   AND what = 'reminder'
   AND sent_at IS NULL
   AND dropped_at IS NULL
"""

_DROP = """
UPDATE alert_delivery
   SET dropped_at = clock_timestamp(), last_error = 'the destination left the settings'
 WHERE installation = %(installation)s
   AND sent_at IS NULL
   AND dropped_at IS NULL
   AND NOT destination = ANY(%(destinations)s)
"""

_FORGET = """
DELETE FROM alert_condition
 WHERE id IN (SELECT id
                FROM alert_condition
               WHERE resolved_at < clock_timestamp() - %(kept_for)s::interval
                 AND installation = %(installation)s
               ORDER BY resolved_at
               LIMIT 500)
"""


@dataclass(frozen=True)
class Timing:
    """How patient alerts are.

    Attributes:
        recovered_after: How long a condition must be gone before it is over.
        repeat_after: When what is still open is told again, or None for never.
    """

    recovered_after: timedelta = timedelta(minutes=5)
    repeat_after: timedelta | None = None


@dataclass(frozen=True)
class Booked:
    """What changed: how many conditions were opened, and how many are over."""

    opened: int
    over: int


def record(
    cursor: psycopg.Cursor[TupleRow],
    installation: str,
    looked: Looked,
    destinations: Sequence[Destination],
    timing: Timing,
    *,
    all_known: bool = True,
) -> Booked:
    """Bring what is open up to date with one look, and write down what must be said.

    Args:
        cursor: In a transaction that is committed afterwards.
        installation: Whose conditions.
        looked: What was seen, and what could be.
        destinations: Who is told.
        timing: How patient to be.
        all_known: False when the settings are broken, and more destinations may stand in them than
            could be read: what they have not been told yet is kept.

    Raises:
        psycopg.Error: Nothing of it was kept.
    """
    cursor.execute(_ONE_AT_A_TIME, {"installation": installation})
    opened = sum(_open(cursor, installation, condition) for condition in looked.conditions)
    seen = [condition.fingerprint for condition in looked.conditions]
    cursor.execute(
        _NOT_SEEN,
        {
            "installation": installation,
            "judged": sorted(looked.judged),
            "seen": seen,
            "of_records": sorted(STANDING_KINDS),
        },
    )
    over = _close(cursor, installation, looked, timing)
    _say(cursor, installation, destinations, timing)
    if all_known:
        names = [destination.name for destination in destinations]
        cursor.execute(_DROP, {"installation": installation, "destinations": names})
    cursor.execute(_FORGET, {"installation": installation, "kept_for": KEPT_FOR})
    return Booked(opened, over)


def _open(cursor: psycopg.Cursor[TupleRow], installation: str, condition: Condition) -> bool:
    cursor.execute(
        _OPEN,
        {
            "installation": installation,
            "fingerprint": condition.fingerprint,
            "job": condition.job,
            "kind": condition.kind,
            "severity": condition.severity,
            "reason": condition.reason,
            "within": FLAPPING_WITHIN,
        },
    )
    row = cursor.fetchone()
    return bool(row and row[0])


def _close(
    cursor: psycopg.Cursor[TupleRow], installation: str, looked: Looked, timing: Timing
) -> int:
    cursor.execute(
        _OVER,
        {
            "installation": installation,
            "hold": timing.recovered_after,
            "longest": LONGEST_HOLD,
            "most": MOST_DOUBLINGS,
        },
    )
    over = cursor.fetchall()
    # A job that fails and then is stale has not recovered: the new notice says where it stands.
    still = {each.job for each in looked.conditions if each.kind in STANDING_KINDS}
    recovered = [
        number for number, job, kind in over if not (kind in STANDING_KINDS and job in still)
    ]
    cursor.execute(_NO_LATE_REMINDERS, {"conditions": [row[0] for row in over]})
    cursor.execute(_SAY_RECOVERED, {"conditions": recovered})
    return len(over)


def _say(
    cursor: psycopg.Cursor[TupleRow],
    installation: str,
    destinations: Sequence[Destination],
    timing: Timing,
) -> None:
    wanted = [(each.name, severity) for each in destinations for severity in each.severities]
    cursor.execute(
        _SAY_RAISED,
        {
            "installation": installation,
            "destinations": [name for name, _ in wanted],
            "severities": [severity for _, severity in wanted],
        },
    )
    if timing.repeat_after is not None:
        cursor.execute(
            _SAY_AGAIN, {"installation": installation, "repeat_after": timing.repeat_after}
        )
