"""The one place that writes `job_run`.

A run's record joins what the scheduler says of it with what the run itself last committed. Whoever
calls, however often and from however many places at once, each run gets exactly one record: the
progress row is locked first, and the record and the closing of that row are one transaction.

How far it has read in the scheduler's run storage is a watermark of ours.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

import psycopg
from psycopg.types.json import Jsonb

from filejobs_dagster.ledger.outcome import (
    AHEAD,
    INTERRUPTED,
    STARTED_AGAIN,
    StartedBy,
    Trigger,
    sanitized_detail,
)
from filejobs_dagster.postgres.connect import database_now, one
from filejobs_dagster.postgres.locks import is_held, run_lock
from filejobs_dagster.text import sanitize

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from psycopg.rows import TupleRow

    from filejobs_dagster.ledger.outcome import Mode
    from filejobs_dagster.postgres.connect import Connection, Database

Ended = Literal["success", "failure", "canceled", "lost", "unseen"]
"""`unseen`: the scheduler knows nothing of the run; its own final word counts."""

_SAID_BY_PROGRESS = ("lost", "unseen")

SILENCE = timedelta(minutes=2)
"""How long a run must have had neither a final word nor a lock before it is called lost."""

MAX_LOST_PER_CALL = 200

ENDS_BY = "ends_by"
"""In the detail of a run that holds no lock, since something else runs it: when its end must have
been heard of."""

# The scheduler's clock may be ahead; a record of the future would hide what comes after it.
_RESERVE = """
INSERT INTO job_progress
    (run_id, installation, job, mode, trigger, trigger_name, holder, started_at, heartbeat_at,
     detail)
VALUES
    (%(run_id)s, %(installation)s, %(job)s, 'dry', %(trigger)s, %(trigger_name)s, 'never started',
     least(%(created_at)s, clock_timestamp()), least(%(created_at)s, clock_timestamp()),
     %(detail)s)
ON CONFLICT (run_id) DO NOTHING
"""

_LOCK_PROGRESS = """
SELECT mode, trigger, trigger_name, holder, started_at, heartbeat_at, silent_since, scanned, acted,
       detail, outcome, error, finished_at, closed_at
  FROM job_progress
 WHERE run_id = %(run_id)s
   FOR UPDATE
"""

# No ON CONFLICT: PostgreSQL refuses it on a table with rules. The progress row's lock already
# lets one mirror in at a time.
_RECORD = """
INSERT INTO job_run
    (run_id, installation, job, started_at, finished_at, outcome, mode, scanned, acted, detail,
     error)
SELECT %(run_id)s, %(installation)s, %(job)s, %(started_at)s,
       greatest(%(started_at)s, least(%(finished_at)s, clock_timestamp())), %(outcome)s,
       %(mode)s, %(scanned)s, %(acted)s, %(detail)s, %(error)s
 WHERE NOT EXISTS (SELECT FROM job_run WHERE run_id = %(run_id)s)
RETURNING id
"""

_CLOSE = """
UPDATE job_progress
   SET closed_at = clock_timestamp()
 WHERE run_id = %(run_id)s
   AND closed_at IS NULL
"""

_OPEN_ROWS = """
SELECT run_id, job, outcome, started_at, trigger, trigger_name,
       finished_at <= (SELECT clock_timestamp() - %(silence)s) AS final_for_long
  FROM job_progress
 WHERE installation = %(installation)s
   AND closed_at IS NULL
 ORDER BY started_at
 LIMIT %(limit)s
"""

_CLOSED_FOR_LONG = """
SELECT run_id
  FROM job_progress
 WHERE run_id = ANY(%(run_ids)s)
   AND closed_at <= (SELECT clock_timestamp() - %(silence)s)
"""

_MAY_STILL_END = """
SELECT coalesce((detail ->> %(ends_by)s)::timestamptz > clock_timestamp(), false)
  FROM job_progress
 WHERE run_id = %(run_id)s
"""

_FIRST_SILENCE = """
UPDATE job_progress
   SET silent_since = clock_timestamp()
 WHERE run_id = %(run_id)s
   AND outcome IS NULL
   AND closed_at IS NULL
   AND (silent_since IS NULL OR heartbeat_at > silent_since)
"""

# A run in the middle of a claim holds its row, whatever became of its locks: it is at work, and
# waiting for it would keep every other run from being looked at.
_LOCK_UNLESS_HELD = "SELECT FROM job_progress WHERE run_id = %(run_id)s FOR UPDATE SKIP LOCKED"

# Asked after _FIRST_SILENCE, so that a sign of life since the last look begins the wait anew.
_SILENT_FOR_LONG = """
SELECT outcome IS NULL AND silent_since <= clock_timestamp() - %(silence)s
  FROM job_progress
 WHERE run_id = %(run_id)s
"""


@dataclass(frozen=True)
class FinishedRun:
    """What the scheduler says of a run that is over.

    Attributes:
        run_id: The Dagster run.
        installation: From the run's tag.
        job: A name of the registry.
        ended: How the scheduler says it ended.
        trigger: Through which door it came.
        created_at: When it was asked for.
        started_at: When the scheduler saw it start, or None.
        finished_at: When the scheduler saw it end, or None.
        error: The scheduler's reason; sanitised here.
        known_secrets: Values that must not appear in the record.
        started_by: Who started it, as the scheduler knows it. What the run itself said counts more.
        day: The day that it was to cover, for the record of one that never started; None for
            everything.
        asked_mode: What a tag asked for, for the record of one that never started.
        started_again: True when the scheduler repeats it by itself.
    """

    run_id: str
    installation: str
    job: str
    ended: Ended
    trigger: Trigger
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    error: str | None = None
    known_secrets: tuple[str, ...] = field(default=(), repr=False)
    started_by: StartedBy | None = None
    day: str | None = None
    asked_mode: Mode | None = None
    started_again: bool = False


@dataclass(frozen=True)
class OpenRun:
    """A run whose record is not written yet.

    Attributes:
        run_id: The run.
        job: Its job.
        final: True when it has said its final word.
        lost: True when it has had neither a final word nor a lock for longer than `SILENCE`.
        abandoned: True when it said its final word longer than `SILENCE` ago and holds no lock:
            its process is gone, whatever the scheduler believes.
        trigger: Through which door it came.
        started_at: The run's own start.
    """

    run_id: str
    job: str
    final: bool
    lost: bool
    abandoned: bool
    trigger: Trigger
    started_at: datetime


def mirror(database: Database, connection: Connection, run: FinishedRun) -> bool:
    """Write the record of a finished run, unless it stands already.

    Returns:
        True when this call wrote it.

    Raises:
        psycopg.Error: The database refused or went away; nothing was written, call again.
    """
    try:
        with database.transaction(connection) as cursor:
            return _mirror(cursor, run, database.schema)
    except psycopg.errors.UniqueViolation:
        return False


def _mirror(cursor: psycopg.Cursor[TupleRow], run: FinishedRun, schema: str) -> bool:
    progress = _locked_progress(cursor, run)
    if progress is None or progress["closed_at"] is not None:
        return False
    if _may_still_speak(cursor, run, progress, schema):
        return False
    cursor.execute(_RECORD, _record_of(run, progress))
    written = cursor.fetchone() is not None
    cursor.execute(_CLOSE, {"run_id": run.run_id})
    return written


def _locked_progress(
    cursor: psycopg.Cursor[TupleRow], run: FinishedRun
) -> Mapping[str, Any] | None:
    """Lock the run's progress row; one that the scheduler calls over gets a row if it has none."""
    if run.ended not in _SAID_BY_PROGRESS:
        _reserve(cursor, run)
    cursor.execute(_LOCK_PROGRESS, {"run_id": run.run_id})
    columns = [column.name for column in cursor.description or ()]
    row = cursor.fetchone()
    return None if row is None else dict(zip(columns, row, strict=True))


def _reserve(cursor: psycopg.Cursor[TupleRow], run: FinishedRun) -> None:
    cursor.execute(
        _RESERVE,
        {
            "run_id": run.run_id,
            "installation": run.installation,
            "job": run.job,
            "trigger": run.trigger.kind,
            "trigger_name": run.trigger.name,
            "created_at": run.created_at,
            "detail": Jsonb(
                {"never_started": True}
                | ({} if run.day is None else {"window": {"covers": sanitize(run.day)}})
                | ({} if run.asked_mode is None else {"asked_mode": run.asked_mode})
            ),
        },
    )


def _may_still_speak(
    cursor: psycopg.Cursor[TupleRow], run: FinishedRun, progress: Mapping[str, Any], schema: str
) -> bool:
    """Tell whether the run's own row contradicts the caller who calls it lost or unseen."""
    final = progress["outcome"] is not None
    if run.ended == "unseen":
        return not final
    if run.ended != "lost":
        return False
    silent_since, heartbeat_at = progress["silent_since"], progress["heartbeat_at"]
    if final:
        return True
    if silent_since is None or heartbeat_at > silent_since:
        return True
    return is_held(cursor, run_lock(schema, run.run_id))


def _record_of(run: FinishedRun, progress: Mapping[str, Any]) -> dict[str, Any]:
    final = progress["outcome"]
    never_started = bool(progress["detail"].get("never_started"))
    started_at = progress["started_at"]
    # Without a final word a run ended with its last sign of life, whenever that was noticed: heard
    # of hours later, it must not come after the runs that succeeded meanwhile.
    noticed = run.finished_at if never_started else None
    finished_at = progress["finished_at"] or noticed or progress["heartbeat_at"]
    ends_by = progress["detail"].get(ENDS_BY)
    error = progress["error"] if final else _why(run, never_started=never_started)
    if not final and ends_by is not None:
        error = f"Stuck: it said that it began, and until {ends_by} not how it ended."
    if error == INTERRUPTED and run.ended == "canceled":
        error = _why(run, never_started=False)
    starter = {} if run.started_by is None else {"started_by": run.started_by.as_detail()}
    detail = {
        **sanitized_detail(starter | progress["detail"], run.known_secrets),
        "trigger": {"kind": progress["trigger"], "name": progress["trigger_name"]},
        "ended": run.ended,
        "holder": progress["holder"],
        # Not of a run that said itself how it failed: another try may fare no better.
        **({STARTED_AGAIN: True} if run.started_again and not final else {}),
    }
    return {
        "run_id": run.run_id,
        "installation": run.installation,
        "job": run.job,
        "started_at": started_at,
        "finished_at": finished_at,
        "outcome": final or "failed",
        "mode": progress["mode"],
        "scanned": progress["scanned"],
        "acted": progress["acted"],
        "detail": Jsonb(detail),
        "error": None if error is None else sanitize(error, known=run.known_secrets),
    }


def _why(run: FinishedRun, *, never_started: bool) -> str:
    """Say why a run without a final word counts as failed."""
    reason = f": {run.error}" if run.error else "."
    if run.ended == "canceled":
        day = "" if run.day is None else f" on the day {run.day}"
        live = f" (it was to run {run.asked_mode}{day})" if run.asked_mode else ""
        return (
            f"Cancelled before it started{live}{reason}"
            if never_started
            else (f"{INTERRUPTED[:-1]}{reason}")
        )
    if run.ended == "success":
        return f"Dagster reports success, but the run left no final word{reason}"
    if never_started and run.started_at is not None:
        return f"Ended before anything was touched{reason}"
    if never_started:
        return f"The run never started{reason}"
    if run.ended == "lost":
        return (
            "Lost: the run holds no lock any more and left no final word (its process was killed, "
            f"or its machine went away){reason}"
        )
    return f"The run ended without a final word{reason}"


def open_runs(
    database: Database,
    connection: Connection,
    installation: str,
    *,
    silence: timedelta = SILENCE,
) -> list[OpenRun]:
    """Return the runs that have no record yet, and find out which of them are lost.

    A run is lost when it has no final word and its lock was free at two looks at least `silence`
    apart with no sign of life in between. One look is not enough: right after the database was
    down, every run that still lives has lost its lock and is about to take it again.
    """
    with database.transaction(connection) as cursor:
        cursor.execute(
            _OPEN_ROWS,
            {"installation": installation, "silence": silence, "limit": MAX_LOST_PER_CALL},
        )
        rows = cursor.fetchall()
    found = []
    for run_id, job, outcome, started_at, kind, name, final_for_long in rows:
        lost = outcome is None and _look(database, connection, run_id, silence)
        abandoned = bool(final_for_long) and _is_gone(database, connection, run_id)
        found.append(
            OpenRun(
                run_id=run_id,
                job=job,
                final=outcome is not None,
                lost=lost,
                abandoned=abandoned,
                trigger=Trigger(kind, name),
                started_at=started_at,
            )
        )
    return found


def _look(database: Database, connection: Connection, run_id: str, silence: timedelta) -> bool:
    """Tell whether the run's lock has been free for long, and remember when it first was."""
    with database.transaction(connection) as cursor:
        if is_held(cursor, run_lock(database.schema, run_id)):
            return False
        cursor.execute(_MAY_STILL_END, {"run_id": run_id, "ends_by": ENDS_BY})
        if one(cursor)[0]:
            return False
        cursor.execute(_LOCK_UNLESS_HELD, {"run_id": run_id})
        if cursor.fetchone() is None:
            return False
        cursor.execute(_FIRST_SILENCE, {"run_id": run_id})
        cursor.execute(_SILENT_FOR_LONG, {"run_id": run_id, "silence": silence})
        return bool(one(cursor)[0])


def _is_gone(database: Database, connection: Connection, run_id: str) -> bool:
    with database.transaction(connection, read_only=True) as cursor:
        return not is_held(cursor, run_lock(database.schema, run_id))


def closed_for_long(
    database: Database,
    connection: Connection,
    run_ids: Sequence[str],
    *,
    silence: timedelta = SILENCE,
) -> set[str]:
    """Return those of the runs whose record has stood for longer than `silence`."""
    with database.transaction(connection, read_only=True) as cursor:
        cursor.execute(_CLOSED_FOR_LONG, {"run_ids": list(run_ids), "silence": silence})
        return {row[0] for row in cursor.fetchall()}


# How far the mirror has read in the scheduler's run storage.

OVERLAP = timedelta(minutes=10)
"""Read again, because run records carry the clocks of the machines that wrote them."""

WIDE_SCAN_EVERY = timedelta(days=1)

WIDE_SCAN = timedelta(days=35)
"""How far back the daily scan looks for a run that was missed, whatever the reason."""

_MOVE = """
INSERT INTO mirror_watermark (installation, read_until, wide_scan_at)
VALUES (%(installation)s, %(read_until)s, %(read_until)s)
ON CONFLICT (installation) DO UPDATE
   SET read_until   = CASE WHEN mirror_watermark.read_until > clock_timestamp() + %(ahead)s
                           THEN excluded.read_until
                           ELSE greatest(mirror_watermark.read_until, excluded.read_until) END,
       wide_scan_at = CASE WHEN %(wide)s THEN excluded.wide_scan_at
                           ELSE mirror_watermark.wide_scan_at END
"""


@dataclass(frozen=True)
class Scan:
    """What to read next.

    Attributes:
        updated_after: Runs updated later than this, or None for all that the scheduler has.
        begun_at: The database's clock now; where the watermark goes when all was recorded.
        wide: True when more is read than the newest.
    """

    updated_after: datetime | None
    begun_at: datetime
    wide: bool


def next_scan(cursor: psycopg.Cursor[TupleRow], installation: str) -> Scan:
    """Decide what to read: everything on the first call, five weeks once a day, else the newest."""
    now = database_now(cursor)
    row = _watermark(cursor, installation)
    if row is None:
        return Scan(None, now, wide=True)
    read_until, wide_scan_at = row
    if wide_scan_at < now - WIDE_SCAN_EVERY:
        return Scan(min(read_until - OVERLAP, now - WIDE_SCAN), now, wide=True)
    return Scan(read_until - OVERLAP, now, wide=False)


def newest_only(cursor: psycopg.Cursor[TupleRow], installation: str) -> Scan:
    """Decide what to read when woken up by one run: never more than the newest."""
    now = database_now(cursor)
    row = _watermark(cursor, installation)
    since = now - OVERLAP if row is None else row[0] - OVERLAP
    return Scan(since, now, wide=False)


def _watermark(
    cursor: psycopg.Cursor[TupleRow], installation: str
) -> tuple[datetime, datetime] | None:
    cursor.execute(
        "SELECT read_until, wide_scan_at FROM mirror_watermark WHERE installation = %s",
        (installation,),
    )
    row = cursor.fetchone()
    if row is None or max(row) > database_now(cursor) + AHEAD:
        # Written by a clock that was ahead: how far was really read, nobody knows.
        return None
    return row[0], row[1]


def move_watermark(cursor: psycopg.Cursor[TupleRow], installation: str, scan: Scan) -> None:
    """Remember that every run up to the beginning of this scan has its record."""
    cursor.execute(
        _MOVE,
        {
            "installation": installation,
            "read_until": scan.begun_at,
            "wide": scan.wide,
            "ahead": AHEAD,
        },
    )


def without_record(cursor: psycopg.Cursor[TupleRow], run_ids: list[str]) -> set[str]:
    """Return those of the runs that have no row in `job_run`."""
    cursor.execute(
        """
        SELECT candidate.run_id
          FROM unnest(%s::text[]) AS candidate (run_id)
         WHERE NOT EXISTS (SELECT FROM job_run WHERE job_run.run_id = candidate.run_id)
        """,
        (run_ids,),
    )
    return {row[0] for row in cursor.fetchall()}


def without_progress(cursor: psycopg.Cursor[TupleRow], run_ids: list[str]) -> set[str]:
    """Return those of the runs that have no row in `job_progress`."""
    cursor.execute(
        """
        SELECT candidate.run_id
          FROM unnest(%s::text[]) AS candidate (run_id)
         WHERE NOT EXISTS (
               SELECT FROM job_progress WHERE job_progress.run_id = candidate.run_id)
        """,
        (run_ids,),
    )
    return {row[0] for row in cursor.fetchall()}
