"""The outbox: what was written down is said, at least once, and forgotten only when it was taken.

The rows of a message stay locked while it is sent. Whoever else looks meanwhile skips them, so two
senders never say the same at once; when this one dies its lock goes with it, and the message is
sent again by the next.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from filejobs_dagster.alerts.digest import Digest, Notice, compose
from filejobs_dagster.alerts.mutes import active
from filejobs_dagster.alerts.sending import NotSent

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.alerts.destinations import Destination
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
