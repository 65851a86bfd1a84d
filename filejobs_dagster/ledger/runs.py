"""The recorded runs, newest first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from filejobs_dagster.ledger.outcome import StartedBy, readable_detail
from filejobs_dagster.registry import BY_NAME

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.ledger.outcome import Mode

# One look into the index (installation, job, finished_at DESC, id DESC) per job, then a merge: the
# order over all jobs has no index of its own.
_NEWEST = """
SELECT run.id, run.run_id, run.installation, run.job,
       -- A moment that is none of the calendar's, as somebody may have written it.
       greatest(least(run.started_at, '9999-12-30'), '0001-01-02'),
       greatest(least(run.finished_at, '9999-12-30'), '0001-01-02'),
       run.outcome, run.mode, run.scanned, run.acted, run.detail::text, run.error
  FROM unnest(%(jobs)s::text[]) AS wanted (job)
 CROSS JOIN LATERAL (
        SELECT id, run_id, installation, job, started_at, finished_at, outcome, mode, scanned,
               acted, detail, error
          FROM job_run
         WHERE installation = %(installation)s
           AND job = wanted.job
           AND (%(mode)s::text IS NULL OR mode = %(mode)s)
           AND (NOT %(failed)s
                OR outcome = 'failed' AND coalesce(detail ->> 'ended', '') <> 'canceled')
           AND (%(since)s::interval IS NULL
                OR finished_at >= (SELECT clock_timestamp() - %(since)s::interval))
         ORDER BY finished_at DESC, id DESC
         LIMIT %(limit)s) AS run
 ORDER BY run.finished_at DESC, run.id DESC
 LIMIT %(limit)s
"""

# The index on (installation, job) is skipped through: a job has a hundred thousand records.
_RECORDED_JOBS = """
WITH RECURSIVE found AS (
    (SELECT min(job) AS job FROM job_run WHERE installation = %(installation)s)
    UNION ALL
    SELECT (SELECT min(job) FROM job_run
             WHERE installation = %(installation)s AND job > found.job)
      FROM found
     WHERE found.job IS NOT NULL
)
SELECT job FROM found WHERE job IS NOT NULL
"""

_NAMED = """
SELECT id, run_id, installation, job,
       greatest(least(started_at, '9999-12-30'), '0001-01-02'),
       greatest(least(finished_at, '9999-12-30'), '0001-01-02'),
       outcome, mode, scanned, acted, detail::text, error
  FROM job_run
 WHERE installation = %(installation)s
   AND starts_with(run_id, %(run_id)s)
 ORDER BY id DESC
 LIMIT 2
"""

_DETAIL = 10
"""Where in a row of _NEWEST the detail stands."""


@dataclass(frozen=True)
class RecordedRun:
    """One row of `job_run`.

    Attributes:
        id: The row's number, in the order of recording.
        run_id: The Dagster run.
        installation: Whose run.
        job: A name of the registry.
        started_at: The run's own start.
        finished_at: The run's own end.
        outcome: `ok` or `failed`.
        mode: The effective mode.
        scanned: Items looked at; None when the run decided nothing.
        acted: Items acted on; None when the run decided nothing.
        detail: Everything else that the run said.
        error: Why it failed, or None.
    """

    id: int
    run_id: str
    installation: str
    job: str
    started_at: datetime
    finished_at: datetime
    outcome: str
    mode: str
    scanned: int | None
    acted: int | None
    detail: Mapping[str, Any]
    error: str | None

    @property
    def took(self) -> timedelta:
        """From start to end."""
        return self.finished_at - self.started_at

    @property
    def ended(self) -> str:
        """How it ended, for people: the outcome, or `cancelled`, which is no failure of its job."""
        return ended_in_words(self.outcome, self.detail)

    @property
    def window(self) -> str | None:
        """What it covered: `everything`, a day, or None when nothing was recorded of it."""
        return _text(_part(self.detail, "window").get("covers"))

    @property
    def trigger(self) -> str | None:
        """Through which door it came, or None when that was not recorded."""
        return _text(_part(self.detail, "trigger").get("kind"))

    @property
    def trigger_name(self) -> str | None:
        """Which schedule, sensor or backfill, or None."""
        return _text(_part(self.detail, "trigger").get("name"))

    @property
    def started_by(self) -> StartedBy | None:
        """Who started it, or None when nobody did or nobody knows."""
        return StartedBy.in_detail(self.detail)

    @property
    def truncated(self) -> bool | None:
        """True when it left due items; None when it did not get to know."""
        truncated = self.detail.get("truncated")
        return truncated if isinstance(truncated, bool) else None

    @property
    def stopped_reason(self) -> str | None:
        """Why it stopped before everything was done, or None."""
        return _text(self.detail.get("stopped_reason"))


def newest_runs(
    cursor: psycopg.Cursor[TupleRow],
    installation: str,
    *,
    limit: int,
    job: str | None = None,
    mode: Mode | None = None,
    failed: bool = False,
    since: timedelta | None = None,
) -> list[RecordedRun]:
    """Return the runs that ended last, newest first.

    Args:
        cursor: In a transaction of any kind; nothing is written.
        installation: Whose runs.
        limit: The most runs.
        job: Only those of this job.
        mode: Only those that ran in this mode.
        failed: Only those that failed, of themselves: none that somebody cancelled.
        since: Only those that ended within this time, by the database's clock.
    """
    jobs = [job]
    if job is None:
        cursor.execute(_RECORDED_JOBS, {"installation": installation})
        # Also those that have left the settings: what ran is not forgotten with its declaration.
        jobs = list(dict.fromkeys([*BY_NAME, *(row[0] for row in cursor.fetchall())]))
    cursor.execute(
        _NEWEST,
        {
            "jobs": jobs,
            "installation": installation,
            "mode": mode,
            "failed": failed,
            "since": since,
            "limit": limit,
        },
    )
    return _read(cursor)


def runs_named(
    cursor: psycopg.Cursor[TupleRow], installation: str, run_id: str
) -> list[RecordedRun]:
    """Return the recorded runs whose id begins so, at most two: more than one is no answer."""
    cursor.execute(_NAMED, {"installation": installation, "run_id": run_id})
    return _read(cursor)


def _read(cursor: psycopg.Cursor[TupleRow]) -> list[RecordedRun]:
    rows: list[list[Any]] = [list(row) for row in cursor.fetchall()]
    for row in rows:
        row[_DETAIL] = readable_detail(row[_DETAIL])
    return [RecordedRun(*row) for row in rows]


def ended_in_words(outcome: str, detail: Mapping[str, Any]) -> str:
    """The outcome of a run for people, by its record: `cancelled` is no failure of its job."""
    return "cancelled" if detail.get("ended") == "canceled" and outcome == "failed" else outcome


WOULD = ("would_collect", "would_trim_events")
"""Where the detail of a dry run says how many items a live one would have acted on."""


def would_act(mode: str, detail: Mapping[str, Any]) -> int | None:
    """How many items a dry run would have acted on; None for a live one, and where it is not known.

    Args:
        mode: Of the run.
        detail: Its record's.
    """
    found = (detail.get(name) for name in WOULD)
    counts = (count for count in found if isinstance(count, int))
    return next(counts, None) if mode == "dry" else None


def _part(detail: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = detail.get(name)
    return part if isinstance(part, Mapping) else {}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
