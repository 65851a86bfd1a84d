"""The outbox: what was written down is said, at least once, and forgotten only when it was taken.

The rows of a message stay locked while it is sent. Whoever else looks meanwhile skips them, so two
senders never say the same at once; when this one dies its lock goes with it, and the message is
sent again by the next.

Beside it stands `Memory`: what is remembered outside of the project's database while that is away.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from filejobs_dagster.alerts.conditions import STANDING_KINDS
from filejobs_dagster.alerts.digest import Digest, Notice, compose
from filejobs_dagster.alerts.mutes import NOT_MUTED, active
from filejobs_dagster.alerts.sending import NotSent, complain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.alerts.conditions import Condition, Looked
    from filejobs_dagster.alerts.sending import Destination
    from filejobs_dagster.postgres.connect import Connection, Database

FIRST_WAIT = timedelta(seconds=30)
LONGEST_WAIT = timedelta(minutes=10)
LONGEST_CALL = 10.0
"""Seconds that one destination may take to answer."""

SHORTEST_CALL = 1.0
MOST_AT_ONCE = 500

_CLAIM = """
SELECT delivery.id, delivery.what, delivery.attempts, condition.kind, condition.job,
       condition.severity, condition.reason, condition.first_seen,
       -- Since when it is over, and not when it had been over for long enough to say so.
       CASE WHEN condition.resolved_at IS NOT NULL THEN condition.clear_since END,
       condition.openings
  FROM alert_delivery AS delivery
  JOIN alert_condition AS condition ON condition.id = delivery.condition_id
 WHERE delivery.installation = %(installation)s
   AND delivery.destination = %(destination)s
   AND delivery.sent_at IS NULL
   AND delivery.dropped_at IS NULL
   -- One that is due takes the others of its destination with it: one message, not many.
   AND EXISTS (SELECT
                 FROM alert_delivery AS due
                WHERE due.installation = %(installation)s
                  AND due.destination = %(destination)s
                  AND due.sent_at IS NULL
                  AND due.dropped_at IS NULL
                  AND due.next_attempt_at <= clock_timestamp())
 ORDER BY delivery.id
 LIMIT %(most)s
   FOR UPDATE OF delivery SKIP LOCKED
"""

_SENT = """
UPDATE alert_delivery
   SET sent_at = clock_timestamp(), attempts = attempts + 1, last_error = NULL
 WHERE id = ANY(%(ids)s)
"""

_NOT_SENT = """
UPDATE alert_delivery
   SET attempts = attempts + 1,
       last_error = %(error)s,
       next_attempt_at = clock_timestamp() + %(wait)s::interval
 WHERE id = ANY(%(ids)s)
"""

_UNDELIVERED = """
SELECT destination, count(*), max(attempts), min(created_at),
       (array_agg(last_error ORDER BY attempts DESC) FILTER (WHERE last_error IS NOT NULL))[1]
  FROM alert_delivery
 WHERE installation = %(installation)s
   AND sent_at IS NULL
   AND dropped_at IS NULL
 GROUP BY destination
 ORDER BY destination
"""

_OPEN = """
SELECT kind, job, severity, reason, first_seen, openings
  FROM alert_condition
 WHERE installation = %(installation)s
   AND resolved_at IS NULL
 ORDER BY severity, first_seen, id
"""


class Send(Protocol):
    """How a message leaves; `sending.send`, or a test's own."""

    def __call__(self, url: str, digest: Digest, timeout: float) -> None:
        """Send, or raise NotSent."""
        ...


@dataclass(frozen=True)
class Delivered:
    """What became of one message.

    Attributes:
        destination: Its name.
        notices: How many notices it held.
        error: None when it was taken.
    """

    destination: str
    notices: int
    error: str | None


@dataclass(frozen=True)
class Undelivered:
    """What a destination has not been told yet.

    Attributes:
        destination: Its name.
        notices: How many notices wait.
        attempts: How often the one that was tried most was tried.
        since: When the oldest was written down.
        error: What the last failure was, or None when none was tried.
    """

    destination: str
    notices: int
    attempts: int
    since: datetime
    error: str | None


def deliver(
    database: Database,
    connection: Connection,
    installation: str,
    destinations: Sequence[Destination],
    send: Send,
    *,
    deadline: float,
) -> list[Delivered]:
    """Say what is due, one message per destination.

    Args:
        database: The limits of the transactions.
        connection: In autocommit mode; one transaction per destination.
        installation: Whose notices.
        destinations: Who can be told.
        send: How a message leaves.
        deadline: Of `time.monotonic`; no message is begun after it.

    Returns:
        One entry for each destination for which something was due.

    Raises:
        psycopg.Error: The outbox could not be read or written; what was sent may be sent again.
    """
    done = []
    for destination in destinations:
        left = deadline - time.monotonic()
        if left < SHORTEST_CALL:
            break
        with database.transaction(connection) as cursor:
            said = _deliver_one(cursor, installation, destination, send, min(LONGEST_CALL, left))
        if said is not None:
            done.append(said)
    return done


def _deliver_one(
    cursor: psycopg.Cursor[TupleRow],
    installation: str,
    destination: Destination,
    send: Send,
    timeout: float,
) -> Delivered | None:
    cursor.execute(
        _CLAIM,
        {
            "installation": installation,
            "destination": destination.name,
            "most": MOST_AT_ONCE,
        },
    )
    rows = cursor.fetchall()
    if not rows:
        return None
    ids = [row[0] for row in rows]
    notices = [Notice(row[1], *row[3:]) for row in rows]
    muted = active(cursor, installation)
    try:
        send(destination.url, compose(installation, notices, muted), timeout)
    except NotSent as error:
        wait = wait_after(max(row[2] for row in rows) + 1)
        cursor.execute(_NOT_SENT, {"ids": ids, "error": str(error), "wait": wait})
        return Delivered(destination.name, len(rows), str(error))
    cursor.execute(_SENT, {"ids": ids})
    return Delivered(destination.name, len(rows), None)


def wait_after(attempts: int) -> timedelta:
    """How long to wait after so many failures: it doubles, up to ten minutes, for ever."""
    waited = FIRST_WAIT
    for _ in range(1, attempts):
        waited = min(waited * 2, LONGEST_WAIT)
        if waited == LONGEST_WAIT:
            break
    return waited


def undelivered(cursor: psycopg.Cursor[TupleRow], installation: str) -> list[Undelivered]:
    """What each destination has not been told yet, in the order of their names."""
    cursor.execute(_UNDELIVERED, {"installation": installation})
    return [Undelivered(*row) for row in cursor.fetchall()]


def open_conditions(cursor: psycopg.Cursor[TupleRow], installation: str) -> list[Notice]:
    """What is open, critical before warning, then the oldest first."""
    cursor.execute(_OPEN, {"installation": installation})
    return [
        Notice("raised", kind, job, severity, reason, first_seen, None, openings)
        for kind, job, severity, reason, first_seen, openings in cursor.fetchall()
    ]


# What is remembered outside of the project's database, for the time when that is away.

STATE_HOME = "XDG_STATE_HOME"


class Memory(Protocol):
    """A small JSON document that outlives the process."""

    def read(self) -> dict[str, Any]:
        """What was written last; empty when nothing was, or when it cannot be read."""
        ...

    def write(self, value: Mapping[str, Any]) -> None:
        """Remember this from now on. Never raises: forgetting means saying something twice."""
        ...


class FileMemory:
    """A memory in a file of its own."""

    def __init__(self, path: Path) -> None:
        """Remember in this file, which need not exist."""
        self._path = path

    def read(self) -> dict[str, Any]:
        """What the file holds."""
        try:
            return parsed(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            complain(f"{self._path} cannot be read ({type(error).__name__}); it is begun anew")
            return {}

    def write(self, value: Mapping[str, Any]) -> None:
        """Replace the file as a whole."""
        draft = self._path.with_name(f"{self._path.name}.{os.getpid()}.new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            draft.write_text(json.dumps(value), encoding="utf-8")
            draft.replace(self._path)
        except OSError as error:
            complain(
                f"what was told cannot be remembered in {self._path} ({type(error).__name__}), so "
                "it is told again by the next call; name another file by --state"
            )


def default_path(installation: str) -> Path:
    """Where the command line remembers what it told while the database was away."""
    home = os.environ.get(STATE_HOME, "").strip()
    base = Path(home) if home else Path.home() / ".local" / "state"
    return base / "filejobs" / f"alert-{installation}.json"


def parsed(text: str | None) -> dict[str, Any]:
    """A JSON object, or an empty one for nothing and for anything else."""
    try:
        value = json.loads(text) if text else {}
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


# Which conditions are open, since when, and what each destination must be told of them.
#
# One call is one transaction: a condition that is opened or closed and the notices of it become
# visible together, or not at all.

FLAPPING_WITHIN = timedelta(days=1)
MOST_DOUBLINGS = 8
LONGEST_HOLD = timedelta(hours=6)
KEPT_FOR = timedelta(days=90)

# Two who look at once would both find a condition new; the second waits and finds it open.
_ONE_AT_A_TIME = (
    "SELECT pg_advisory_xact_lock(hashtextextended('filejobs/alerts/' || %(installation)s, 0))"
)

_OPEN_ALERTS = """
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
        _OPEN_ALERTS,
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
