"""The row that a run keeps while it works.

The row is written in the same transaction as each batch, so a killed run keeps the numbers that
it had committed. Once the run's record stands in `job_run` the row is closed, and a run that finds
its row closed was given up for dead: it stops.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.types.json import Jsonb

from filejobs_dagster.ledger.outcome import sanitized_detail
from filejobs_dagster.postgres.connect import one
from filejobs_dagster.postgres.locks import exclusive_lock, holding_session, run_lock

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from psycopg.rows import TupleRow

    from filejobs_dagster.ledger.outcome import Mode, Outcome, StartedBy, Trigger

_OPEN = """
INSERT INTO job_progress
    (run_id, installation, job, mode, trigger, trigger_name, holder, detail)
VALUES
    (%(run_id)s, %(installation)s, %(job)s, %(mode)s, %(trigger)s, %(trigger_name)s,
     %(holder)s, %(detail)s)
"""

# Counts start as NULL and become numbers with the first decision.
_ADVANCE = """
UPDATE job_progress
   SET scanned      = %(scanned)s,
       acted        = %(acted)s,
       detail       = detail || %(detail)s,
       heartbeat_at = clock_timestamp(),
       silent_since = NULL
 WHERE run_id = %(run_id)s
   AND closed_at IS NULL
"""

# A final word without numbers leaves those that were committed before.
_FINISH = """
UPDATE job_progress
   SET scanned      = coalesce(%(scanned)s, scanned),
       acted        = coalesce(%(acted)s, acted),
       detail       = detail || %(detail)s,
       outcome      = %(outcome)s,
       error        = %(error)s,
       heartbeat_at = clock_timestamp(),
       finished_at  = least(coalesce(%(finished_at)s, clock_timestamp()), clock_timestamp())
 WHERE run_id = %(run_id)s
   AND outcome IS NULL
   AND closed_at IS NULL
"""

_BEAT = """
UPDATE job_progress
   SET heartbeat_at = clock_timestamp(),
       silent_since = NULL
 WHERE run_id = %(run_id)s
   AND closed_at IS NULL
"""

_HAS_FINAL_WORD = "SELECT FROM job_progress WHERE run_id = %(run_id)s AND outcome IS NOT NULL"

_STILL_OPEN = "SELECT FROM job_progress WHERE run_id = %(run_id)s AND closed_at IS NULL"

_LATER_LIVE_RUN = """
SELECT later.run_id
  FROM job_progress AS own
  JOIN job_progress AS later
    ON later.job = own.job AND later.started_at > own.started_at AND later.mode = 'live'
 WHERE own.run_id = %(run_id)s AND own.job = %(job)s
 ORDER BY later.started_at DESC
 LIMIT 1
"""

_LIVE_RUNS = """
SELECT run_id, holder, trigger, started_at
  FROM job_progress
 WHERE job = %(job)s
   AND mode = 'live'
   AND closed_at IS NULL
   AND run_id <> %(run_id)s
 ORDER BY started_at DESC
 LIMIT 100
"""

_OWN = "SELECT run_id, holder, trigger, started_at FROM job_progress WHERE run_id = %(run_id)s"


class GivenUp(Exception):
    """This run's record has been written already: it was given up for dead and must stop."""

    def __init__(self, run_id: str) -> None:
        super().__init__(
            f"Run {run_id} was given up for dead and its record is written. It stops here and "
            "deletes nothing more; a later run goes on with what is left."
        )


@dataclass(frozen=True)
class RunIdentity:
    """Which run this is, and how it came to be.

    Attributes:
        run_id: The Dagster run.
        installation: From the settings.
        job: A name of the registry.
        mode: The effective mode.
        trigger: Through which door it came.
        holder: Host, process and user, for whoever is refused because of it.
        started_by: Who started it, or None when nobody did or nobody knows.
    """

    run_id: str
    installation: str
    job: str
    mode: Mode
    trigger: Trigger
    holder: str
    started_by: StartedBy | None = None


@dataclass(frozen=True)
class Holder:
    """The run that stands in the way of another, or of a second process of its own."""

    run_id: str
    holder: str
    trigger: str
    started_at: datetime


class Progress:
    """The progress row of one run. Every method runs in the caller's transaction."""

    def __init__(self, identity: RunIdentity) -> None:
        self.identity = identity

    def open(self, cursor: psycopg.Cursor[TupleRow], detail: Mapping[str, Any]) -> None:
        """Insert the row.

        Raises:
            GivenUp: The run's record stands already (a monitor failed a slow start).
        """
        identity = self.identity
        try:
            cursor.execute(
                _OPEN,
                {
                    "run_id": identity.run_id,
                    "installation": identity.installation,
                    "job": identity.job,
                    "mode": identity.mode,
                    "trigger": identity.trigger.kind,
                    "trigger_name": identity.trigger.name,
                    "holder": identity.holder,
                    "detail": Jsonb(sanitized_detail(detail)),
                },
            )
        except psycopg.errors.UniqueViolation as error:
            raise GivenUp(identity.run_id) from error

    def advance(
        self,
        cursor: psycopg.Cursor[TupleRow],
        *,
        scanned: int | None,
        acted: int | None,
        detail: Mapping[str, Any],
    ) -> None:
        """Write the totals reached so far, and a sign of life.

        Raises:
            GivenUp: The row is closed: roll back and stop.
        """
        self._update(
            cursor,
            _ADVANCE,
            {"scanned": scanned, "acted": acted, "detail": Jsonb(sanitized_detail(detail))},
        )

    def finish(
        self,
        cursor: psycopg.Cursor[TupleRow],
        outcome: Outcome,
        finished_at: datetime | None = None,
    ) -> None:
        """Write the final word, unless it stands already (a commit whose answer was lost).

        Args:
            cursor: In the caller's transaction.
            outcome: How it ended.
            finished_at: When, where that is heard of later; a time in the future is now.

        Raises:
            GivenUp: The row was closed before this run could say how it ended.
        """
        outcome = outcome.sanitized()
        cursor.execute(
            _FINISH,
            {
                "run_id": self.identity.run_id,
                "scanned": outcome.scanned,
                "acted": outcome.acted,
                "detail": Jsonb(dict(outcome.detail)),
                "outcome": "ok" if outcome.ok else "failed",
                "error": outcome.error,
                "finished_at": finished_at,
            },
        )
        if cursor.rowcount == 1:
            return
        cursor.execute(_HAS_FINAL_WORD, {"run_id": self.identity.run_id})
        if cursor.fetchone() is None:
            raise GivenUp(self.identity.run_id)

    def beat(self, cursor: psycopg.Cursor[TupleRow]) -> None:
        """Write a sign of life.

        Raises:
            GivenUp: The row is closed.
        """
        self._update(cursor, _BEAT, {})

    def must_be_open(self, cursor: psycopg.Cursor[TupleRow]) -> None:
        """Check, right before bytes go, that nobody has given this run up.

        Raises:
            GivenUp: Somebody has.
        """
        cursor.execute(_STILL_OPEN, {"run_id": self.identity.run_id})
        if cursor.fetchone() is None:
            raise GivenUp(self.identity.run_id)

    def committed(
        self, cursor: psycopg.Cursor[TupleRow]
    ) -> tuple[int | None, int | None, dict[str, Any]]:
        """Return `scanned`, `acted` and `detail` as the last commit left them."""
        cursor.execute(
            "SELECT scanned, acted, detail FROM job_progress WHERE run_id = %s",
            (self.identity.run_id,),
        )
        row = cursor.fetchone()
        return (None, None, {}) if row is None else (row[0], row[1], row[2])

    def live_holder(self, cursor: psycopg.Cursor[TupleRow]) -> Holder | None:
        """Return who runs this job live at the moment, if its row can be seen.

        That is the run whose own lock hangs on the session that holds the exclusive lock. The
        newest row would be wrong: it may belong to a run that was killed, or to one that is being
        refused at the same moment.
        """
        identity = self.identity
        cursor.execute("SELECT current_schema()")
        schema = str(one(cursor)[0])
        session = holding_session(cursor, exclusive_lock(schema, identity.job))
        if session is None:
            return None
        cursor.execute(_LIVE_RUNS, {"job": identity.job, "run_id": identity.run_id})
        for row in cursor.fetchall():
            if holding_session(cursor, run_lock(schema, row[0])) == session:
                return Holder(*row)
        return None

    def own_holder(self, cursor: psycopg.Cursor[TupleRow]) -> Holder | None:
        """Return which process this very run is at work in, if its row can be seen."""
        cursor.execute(_OWN, {"run_id": self.identity.run_id})
        row = cursor.fetchone()
        return None if row is None else Holder(*row)

    def later_live_run(self, cursor: psycopg.Cursor[TupleRow]) -> str | None:
        """The id of a live run of this job that began after this one, if there is any."""
        identity = self.identity
        cursor.execute(_LATER_LIVE_RUN, {"job": identity.job, "run_id": identity.run_id})
        row = cursor.fetchone()
        return None if row is None else str(row[0])

    def _update(
        self, cursor: psycopg.Cursor[TupleRow], statement: str, values: Mapping[str, Any]
    ) -> None:
        cursor.execute(statement, {"run_id": self.identity.run_id, **values})
        if cursor.rowcount != 1:
            raise GivenUp(self.identity.run_id)
