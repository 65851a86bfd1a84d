"""Where each job stands: did it run, does it sweep, and what is wrong if not.

Only sweeping counts as sweeping: a job's last success is its last successful run in the configured
mode over everything that was due. No cadence is invented: without a threshold of the operator's,
`stale` is None. With one, a job that never ran is stale at once.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import timedelta, timezone
from typing import TYPE_CHECKING, Any, Literal
from zoneinfo import ZoneInfo

from cronsim import CronSim
from dateutil.parser import isoparse

from filejobs_dagster.ledger.outcome import AHEAD, LIMITED_TO, STARTED_AGAIN, StartedBy
from filejobs_dagster.ledger.runs import would_act
from filejobs_dagster.postgres.connect import one
from filejobs_dagster.registry import BY_NAME
from filejobs_dagster.runbook import of_condition
from filejobs_dagster.text import format_duration, roughly

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.ledger.outcome import Mode

Word = Literal["ok", "ok (dry)", "failed", "stale", "behind", "never run", "unknown"]

Severity = Literal["ok", "warning", "critical", "unknown", "silent"]
"""`silent`: the job is not in the settings, so nobody asked for it."""

MAX_FAILURES_COUNTED = 1000

REPEATED_WITHIN = timedelta(minutes=1)
"""So long after its record, one run whose process died waits for its repetition to succeed."""

ROOM_FOR_THE_FIRST = timedelta(minutes=10)
"""After its first tick a job that never ran has so long to start, to end and to be recorded."""

EVERYTHING_COVERED = "everything"

MOST_COUNTED = 2**63
"""No count in a record is as large; what is was written by somebody else."""

MISSING_SHOWN = 3

# One row per job, also for those that never ran: the jobs are the left side, and each look-up is
# the beginning of one of the three indexes of job_run on installation and job.
_STANDING = """
SELECT expected.job,
       -- As text: whatever stands in a detail is read for one job at a time.
       to_jsonb(last_run)::text AS last_run,
       to_jsonb(last_success)::text AS last_success,
       to_jsonb(last_live_success)::text AS last_live_success,
       failures.count AS consecutive_failures,
       runs.count AS runs,
       to_jsonb(running)::text AS running,
       to_jsonb(of_future)::text AS of_future,
       recorded.closed_at AS last_recorded_at,
       future.count AS runs_of_future,
       -- When this installation's tables were made: no tick can have been missed before.
       (SELECT min(applied_at) FROM filejobs_migration) AS installed_at
  FROM unnest(%(jobs)s::text[], %(modes)s::text[]) AS expected (job, mode)
  LEFT JOIN LATERAL (
        SELECT id, run_id, started_at, finished_at, outcome, mode, scanned, acted, detail, error
          FROM job_run
         WHERE installation = %(installation)s AND job = expected.job
           AND finished_at <= %(now)s + %(ahead)s
         ORDER BY finished_at DESC, id DESC
         LIMIT 1) AS last_run ON true
  LEFT JOIN job_progress AS recorded ON recorded.run_id = last_run.run_id
  LEFT JOIN LATERAL (
        SELECT id, run_id, started_at, finished_at, outcome, mode, scanned, acted, detail, error
          FROM job_run
         WHERE installation = %(installation)s AND job = expected.job
           AND outcome = 'ok' AND mode = expected.mode
           AND detail #>> '{window,covers}' = 'everything'
           -- Whoever runs a job for one item has not swept what it left.
           AND NOT (detail ? 'limited_to' AND coalesce(detail ->> 'truncated', '') = 'true')
           AND finished_at <= %(now)s + %(ahead)s
         ORDER BY finished_at DESC, id DESC
         LIMIT 1) AS last_success ON true
  LEFT JOIN LATERAL (
        SELECT id, run_id, started_at, finished_at, outcome, mode, scanned, acted, detail, error
          FROM job_run
         WHERE installation = %(installation)s AND job = expected.job
           AND outcome = 'ok' AND mode = 'live'
           AND detail #>> '{window,covers}' = 'everything'
           AND finished_at <= %(now)s + %(ahead)s
         ORDER BY finished_at DESC, id DESC
         LIMIT 1) AS last_live_success ON true
 CROSS JOIN LATERAL (
        SELECT count(*) AS count
          FROM (SELECT
                  FROM job_run
                 WHERE installation = %(installation)s AND job = expected.job
                   AND outcome = 'failed'
                   -- A person who got a dry run wrong by hand has seen it, and it says nothing of
                   -- the live job; a scheduled run that never started is recorded as dry, and does.
                   AND (mode = expected.mode
                        OR coalesce(detail #>> '{trigger,kind}', '') NOT IN ('ui', 'cli'))
                   AND finished_at <= %(now)s + %(ahead)s
                   -- Whoever cancelled a run knows why it did not finish.
                   AND coalesce(detail ->> 'ended', '') <> 'canceled'
                   AND (finished_at, id) > (coalesce(last_success.finished_at, '-infinity'),
                                            coalesce(last_success.id, 0))
                 ORDER BY finished_at DESC, id DESC
                 LIMIT %(most)s) AS recent) AS failures
 CROSS JOIN LATERAL (
        SELECT count(*) AS count
          FROM (SELECT
                  FROM job_run
                 WHERE installation = %(installation)s AND job = expected.job
                 ORDER BY finished_at DESC, id DESC
                 LIMIT %(most)s) AS recorded) AS runs
  LEFT JOIN LATERAL (
        SELECT run_id, mode, holder, started_at, heartbeat_at, detail
          FROM job_progress
         WHERE installation = %(installation)s AND job = expected.job
           AND closed_at IS NULL AND outcome IS NULL
         ORDER BY started_at DESC
         LIMIT 1) AS running ON true
  LEFT JOIN LATERAL (
        SELECT run_id, finished_at
          FROM job_run
         WHERE installation = %(installation)s AND job = expected.job
           AND finished_at > %(now)s + %(ahead)s
         ORDER BY finished_at DESC, id DESC
         LIMIT 1) AS of_future ON true
 CROSS JOIN LATERAL (
        SELECT count(*) AS count
          FROM (SELECT
                  FROM job_run
                 WHERE installation = %(installation)s AND job = expected.job
                   AND finished_at > %(now)s + %(ahead)s
                 ORDER BY finished_at DESC, id DESC
                 LIMIT %(most)s) AS ahead) AS future
"""


@dataclass(frozen=True)
class Expectation:
    """What the operator asks of a job.

    Attributes:
        job: A name of the registry.
        configured: True when it stands in the settings.
        mode: The mode in which it is meant to run.
        stale_after: The operator's threshold, or None.
        by_hand: True when nobody schedules it.
        schedule: The cron expression of its schedule, or None.
        time_zone: By which clock the schedule goes.
        alert_after: So many failures in a row are an alarm; fewer are none.
    """

    job: str
    configured: bool = False
    mode: Mode = "dry"
    stale_after: timedelta | None = None
    by_hand: bool = False
    schedule: str | None = None
    time_zone: str = "UTC"
    alert_after: int = 1

    def next_tick(self, after: datetime) -> datetime | None:
        """The first tick of its schedule after a moment, in UTC; None without a schedule."""
        if self.schedule is None:
            return None
        ticks = CronSim(self.schedule, after.astimezone(ZoneInfo(self.time_zone)))
        return next(ticks).astimezone(timezone.utc)


@dataclass(frozen=True)
class RunSummary:
    """One row of `job_run`, as far as a standing needs it."""

    run_id: str
    started_at: datetime
    finished_at: datetime
    outcome: str
    mode: str
    scanned: int | None
    acted: int | None
    detail: Mapping[str, Any]
    error: str | None


@dataclass(frozen=True)
class Running:
    """A run that is at work."""

    run_id: str
    mode: str
    holder: str
    started_at: datetime
    heartbeat_at: datetime
    started_by: StartedBy | None = None


@dataclass(frozen=True)
class Standing:
    """One job's standing.

    Attributes:
        job: The job.
        word: Its standing in one word.
        severity: How loudly to say so.
        reason: Why, in a sentence.
        configured: True when it stands in the settings.
        mode: The configured mode.
        stale_after: The operator's threshold, or None.
        last_run: The newest record, whatever its mode and outcome.
        last_success: The newest success that counts: configured mode, everything due.
        last_live_success: The newest live success over everything due.
        age: Since the end of `last_success`; None when there is none.
        consecutive_failures: Failed runs since `last_success`, counted up to 1000.
        stale: None without a threshold.
        behind: True when what the last counting run left is older than the threshold, when in it
            every candidate dropped out, or when the last run saw dead letters; None without any
            of them when it is not known.
        running: The run at work, if there is one.
        of_future: Records that end in the future, counted up to 1000; none of them counts.
    """

    job: str
    word: Word
    severity: Severity
    reason: str
    configured: bool
    mode: Mode
    stale_after: timedelta | None
    last_run: RunSummary | None
    last_success: RunSummary | None
    last_live_success: RunSummary | None
    age: timedelta | None
    consecutive_failures: int
    stale: bool | None
    behind: bool | None
    running: Running | None
    of_future: int = 0

    @property
    def alarming(self) -> bool:
        """True when somebody must look."""
        return self.severity in ("warning", "critical", "unknown")

    @property
    def see(self) -> str:
        """Where the pages say what to do; empty when there is nothing to do."""
        return of_condition(self.word) if self.alarming else ""


def standings(
    cursor: psycopg.Cursor[TupleRow], installation: str, expected: Sequence[Expectation]
) -> list[Standing]:
    """Return the standing of every job of the registry, in its order.

    Args:
        cursor: In a transaction of any kind; nothing is written.
        installation: Whose runs count.
        expected: What the settings ask; jobs that are left out count as not configured.

    Raises:
        ValueError: One of them is no job of the registry, so nobody would hear of it.
    """
    known = BY_NAME.keys() | BY_NAME.left.keys()
    unknown = sorted({expectation.job for expectation in expected} - known)
    if unknown:
        raise ValueError(f"No such job: {', '.join(unknown)}. Jobs: {', '.join(BY_NAME)}.")
    by_job = {expectation.job: expectation for expectation in expected}
    asked = [by_job.get(job, Expectation(job)) for job in dict.fromkeys([*BY_NAME, *by_job])]
    cursor.execute("SELECT clock_timestamp()")
    now: datetime = one(cursor)[0]
    cursor.execute(
        _STANDING,
        {
            "jobs": [expectation.job for expectation in asked],
            "modes": [expectation.mode for expectation in asked],
            "installation": installation,
            "most": MAX_FAILURES_COUNTED,
            "now": now,
            "ahead": AHEAD,
        },
    )
    rows = {row[0]: row for row in cursor.fetchall()}
    return [_judge_if_readable(expectation, rows[expectation.job], now) for expectation in asked]


def _judge_if_readable(expected: Expectation, row: tuple[Any, ...], now: datetime) -> Standing:
    """The standing, or that it is unknown: no record of one job keeps the others from theirs."""
    try:
        return _judge(expected, row, now)
    except (RecursionError, ValueError, TypeError, KeyError, OverflowError) as error:
        found = re.search(r'"run_id": "([^"]{1,100})"', row[1] or row[2] or "")
        return Standing(
            job=expected.job,
            word="unknown",
            severity="unknown" if expected.configured else "silent",
            reason="a record that its standing depends on cannot be read "
            f"({type(error).__name__}); run {'unknown' if found is None else found[1]}",
            configured=expected.configured,
            mode=expected.mode,
            stale_after=expected.stale_after,
            last_run=None,
            last_success=None,
            last_live_success=None,
            age=None,
            consecutive_failures=row[4],
            stale=None,
            behind=None,
            running=None,
            of_future=row[9],
        )


def _judge(expected: Expectation, row: tuple[Any, ...], now: datetime) -> Standing:
    last_run, last_success, last_live, running, of_future = (
        None if row[place] is None else json.loads(row[place]) for place in (1, 2, 3, 6, 7)
    )
    failures, runs, recorded_at, installed_at = row[4], row[5], row[8], row[10]
    success = _summary(last_success)
    age = None if success is None else now - success.finished_at
    threshold = expected.stale_after
    stale = None if threshold is None else age is None or age > threshold
    last = _summary(last_run)
    behind = _behind(success, threshold, now) if expected.mode == "live" else None
    again = (
        failures == 1
        and not stale
        and last is not None
        and last.detail.get(STARTED_AGAIN) is True
        and recorded_at is not None
        and abs(now - recorded_at) <= REPEATED_WITHIN
    )
    if dead_letters_of(last) or finding_of(success):
        behind = True
    word, severity, reason = _word(
        expected, last, success, age=age, failures=failures, runs=runs, stale=stale, behind=behind,
        again=again, now=now, installed_at=installed_at, at_work=running is not None,
    )  # fmt: skip
    few = failures < expected.alert_after
    if word == "failed" and few and not stale and not _of_weight(last):
        severity = "ok"
        reason += f"; no alarm before {expected.alert_after} failures in a row (alert_after)"
    if word in ("ok", "ok (dry)", "behind", "stale"):
        reason += _uncounted(expected, last, success)
    if without := missing_of(last) or missing_of(success):
        reason = f"{reason}; {without}"
    if of_future is not None:
        severity = "warning" if severity == "ok" else severity
        reason = f"{reason}; {_ahead(of_future)}"
    return Standing(
        job=expected.job,
        word=word,
        severity=severity if expected.configured else "silent",
        reason=reason,
        configured=expected.configured,
        mode=expected.mode,
        stale_after=threshold,
        last_run=last,
        last_success=success,
        last_live_success=_summary(last_live),
        age=age,
        consecutive_failures=failures,
        stale=stale,
        behind=behind,
        running=None if running is None else Running(
            running["run_id"],
            running["mode"],
            running["holder"],
            _moment(running["started_at"]),
            _moment(running["heartbeat_at"]),
            StartedBy.in_detail(running["detail"]),
        ),
        of_future=row[9],
    )  # fmt: skip


def _word(
    expected: Expectation,
    last: RunSummary | None,
    success: RunSummary | None,
    *,
    age: timedelta | None,
    failures: int,
    runs: int,
    stale: bool | None,
    behind: bool | None,
    again: bool,
    now: datetime,
    installed_at: datetime | None,
    at_work: bool,
) -> tuple[Word, Severity, str]:
    """Choose the word. The order is the order of what an operator must hear first."""
    if last is None:
        early = at_work or _before_its_first_tick(expected, installed_at, now)
        return "never run", "warning" if early else "critical", _never(expected, now, early=early)
    if failures and (success is None or last.outcome == "failed"):
        return _failing(last, failures, again=again)
    if success is None:
        return _never_counted(expected, last, runs, stale=stale)
    if stale:
        return "stale", "critical", _late(expected, age)
    if failures:
        return "failed", "critical", _failed(last, failures)
    return _healthy(expected, last, success, behind=behind, now=now)


def _healthy(
    expected: Expectation,
    last: RunSummary,
    success: RunSummary,
    *,
    behind: bool | None,
    now: datetime,
) -> tuple[Word, Severity, str]:
    if behind:
        late = expected.mode == "live" and _behind(success, expected.stale_after, now)
        reasons = [_dead(last), finding_of(success), _left(success, now) if late else ""]
        return "behind", "warning", "; ".join(reason for reason in reasons if reason)
    only_reports = expected.mode == "dry" and not BY_NAME[expected.job].read_only
    return ("ok (dry)" if only_reports else "ok"), "ok", _fine(expected, success)


def _ahead(of_future: Mapping[str, Any]) -> str:
    """Name a record of the future; it counts for nothing until its time has come."""
    return (
        f"the record of run {of_future['run_id']} ends in the future, at "
        f"{of_future['finished_at']}: a clock was wrong when it was written, and it counts for "
        "nothing; compare the clocks (`filejobs doctor`)"
    )


def tripped(detail: Mapping[str, Any]) -> bool:
    """Whether a breaker stopped the run of this record."""
    readings = detail.get("breakers")
    return isinstance(readings, list) and any(
        isinstance(reading, dict) and reading.get("verdict") == "tripped" for reading in readings
    )


def _of_weight(last: RunSummary | None) -> bool:
    """Whether a failure says more than that something did not work this time."""
    return last is not None and (tripped(last.detail) or bool(last.detail.get("findings")))


def _before_its_first_tick(
    expected: Expectation, installed_at: datetime | None, now: datetime
) -> bool:
    """Tell whether no tick of a schedule can have been missed yet.

    Ticks are counted from the day of the installation, which no restart, upgrade or change of the
    settings moves: a job that is added later has to run once before it is quiet.
    """
    first = None if installed_at is None else expected.next_tick(installed_at)
    return first is not None and now < first + ROOM_FOR_THE_FIRST


def _never(expected: Expectation, now: datetime, *, early: bool) -> str:
    if not expected.configured:
        return "not in the settings, and no run is recorded"
    if BY_NAME[expected.job].watched:
        return "no run was reported yet; something else runs it: look there why it does not"
    live = " --live" if expected.mode == "live" else ""
    start = f"to start it now: filejobs run {expected.job}{live}"
    tick = expected.next_tick(now)
    if tick is None:
        return f"no run is recorded, and it is run by hand; {start}"
    missed = "no run is recorded yet" if early else "no run is recorded, though its tick has passed"
    when = f"{tick:%Y-%m-%d %H:%M} UTC, in {roughly(tick - now)}"
    return f"{missed}; its next tick is at {when}; {start}"


def _failing(last: RunSummary, failures: int, *, again: bool) -> tuple[Word, Severity, str]:
    reason = _failed(last, failures)
    if not again:
        return "failed", "critical", reason
    unless = f"critical unless that succeeds within {format_duration(REPEATED_WITHIN)}"
    return "failed", "warning", f"{reason}; Dagster starts it again, and this is {unless}"


def _failed(last: RunSummary, failures: int) -> str:
    if last.outcome != "failed" or last.detail.get("ended") == "canceled":
        return f"{failures} failed since the last success that counts; see `filejobs runs`"
    many = f"{failures} failures in a row" if failures > 1 else "the last run failed"
    first_line = (last.error or "").splitlines()[0:1]
    return f"{many}: {first_line[0] if first_line else 'no reason was recorded'}"


def _never_counted(
    expected: Expectation, last: RunSummary, runs: int, *, stale: bool | None
) -> tuple[Word, Severity, str]:
    many = f"{runs:,} or more" if runs >= MAX_FAILURES_COUNTED else f"{runs:,}"
    none = (
        "its one recorded run did not succeed"
        if runs == 1
        else (f"none of its {many} recorded runs succeeded")
    )
    why = _why_uncounted(expected, last)
    reason = (
        f"the settings say mode: {expected.mode}, but {none} {expected.mode} over everything that "
        f"was due ({'it' if runs == 1 else 'the last'} {why or 'failed'}): nothing counts as swept"
    )
    return ("stale" if stale else "unknown"), "critical", reason


def _uncounted(expected: Expectation, last: RunSummary | None, success: RunSummary | None) -> str:
    """Why the newest run is not the one that counts; empty when it is."""
    if last is None or success is None or last.run_id == success.run_id:
        return ""
    why = _why_uncounted(expected, last)
    return f"; the newest run does not count, since it {why} (run {last.run_id})" if why else ""


def _why_uncounted(expected: Expectation, last: RunSummary) -> str:
    """What a run did instead of sweeping, behind `it`; empty where nothing speaks against it."""
    covers = last.detail.get("window", {}).get("covers")
    limit = last.detail.get(LIMITED_TO)
    if last.detail.get("ended") == "canceled":
        return "was cancelled"
    if last.outcome != "ok":
        return "failed"
    part = "" if covers in (None, EVERYTHING_COVERED) else f" over {covers} only"
    if last.mode != expected.mode:
        return f"ran {last.mode}{part}"
    if covers != EVERYTHING_COVERED:
        return f"covered {covers or 'nobody knows what'} only"
    return "" if limit is None else f"was limited to {limit} and left due items"


def _late(expected: Expectation, age: timedelta | None) -> str:
    threshold = expected.stale_after
    if age is None or threshold is None:
        return "no successful run counts"
    return (
        f"last {expected.mode} success {roughly(age)} ago, threshold {format_duration(threshold)}"
    )


def _left(success: RunSummary, now: datetime) -> str:
    oldest = _moment(success.detail["oldest_left"])
    stopped = success.detail.get("stopped_reason")
    untouched = success.detail.get("untouched")
    why = f"; it stopped because of {stopped}" if stopped else ""
    if untouched:
        why += f"; {untouched:,} items may not or cannot be taken, see the classes of the run"
    return f"the oldest item it left has been due for {roughly(now - oldest)}{why}"


def _fine(expected: Expectation, success: RunSummary) -> str:
    acted = "unknown" if success.acted is None else f"{success.acted:,}"
    if BY_NAME[expected.job].watched:
        return f"the last run ended well{'' if success.acted is None else f': {acted} items'}"
    if BY_NAME[expected.job].read_only:
        scanned = "unknown" if success.scanned is None else f"{success.scanned:,}"
        return f"last run looked at {scanned} and found nothing wrong"
    searched = _searched(success)
    if expected.mode == "dry":
        would = would_act(success.mode, success.detail)
        so_far = "" if would is None else f"; live, its last run would have acted on {would:,}"
        return f"runs dry, as the settings say: it reports and collects nothing{so_far}{searched}"
    left = _still_left(success)
    return f"last live run collected {acted}{left}{searched}"


def _searched(success: RunSummary) -> str:
    """In how many columns the run looked for the names of what it would remove."""
    search = success.detail.get("search")
    columns = search.get("columns") if isinstance(search, dict) else None
    if not isinstance(columns, int) or not columns:
        return ""
    return f"; it looked for names in {columns:,} columns"


def _still_left(success: RunSummary) -> str:
    """Say what the last run left, also when that is not old enough to be behind."""
    oldest = success.detail.get("oldest_left")
    if oldest is None:
        return ""
    stopped = success.detail.get("stopped_reason")
    why = f", because of {stopped}" if stopped else ""
    return f" and left some{why}: the oldest due since {_moment(oldest):%Y-%m-%d %H:%M} UTC"


def dead_letters_of(run: RunSummary | None) -> int:
    """How many items nobody tries any more, as the run saw it; 0 for a job without such."""
    dead = None if run is None else run.detail.get("dead_letters")
    return dead if isinstance(dead, int) else 0


def missing_of(run: RunSummary | None) -> str:
    """How many references had no object, as the run saw it, with a few keys; empty for none."""
    count = None if run is None else run.detail.get("missing")
    if run is None or not isinstance(count, int) or count < 1:
        return ""
    samples = run.detail.get("samples")
    keys = samples.get("missing") if isinstance(samples, dict) else None
    shown = [str(key) for key in keys[:MISSING_SHOWN]] if isinstance(keys, list) else []
    some = f", such as {', '.join(shown)}" if shown else ""
    verb = "reference has" if count == 1 else "references have"
    taken = run.detail.get("missing_taken")
    left = _left_of(taken) if isinstance(taken, dict) else 0
    ours = f"; of {left:,} a run took the object: `filejobs restore KEY`" if left else ""
    return f"{count:,} {verb} no object{some} (run {run.run_id}){ours}"


def _left_of(taken: dict[str, Any]) -> int:
    objects, back = taken.get("objects"), taken.get("brought_back")
    return objects - back if isinstance(objects, int) and isinstance(back, int) else 0


def finding_of(run: RunSummary | None) -> str:
    """Why a successful run was no sweep, in its own words; empty when nothing was wrong."""
    found = None if run is None else run.detail.get("finding")
    return found if isinstance(found, str) else ""


def _dead(last: RunSummary) -> str:
    dead = dead_letters_of(last)
    if not dead:
        return ""
    many = f"{dead:,} dead letters" if dead > 1 else "1 dead letter"
    return f"{many}: given up after too many attempts, see `filejobs uploads dead`"


def _behind(success: RunSummary | None, threshold: timedelta | None, now: datetime) -> bool | None:
    if success is None or threshold is None or "oldest_left" not in success.detail:
        return None
    oldest = success.detail["oldest_left"]
    return False if oldest is None else now - _moment(oldest) > threshold


def _summary(row: Mapping[str, Any] | None) -> RunSummary | None:
    if row is None:
        return None
    return RunSummary(
        run_id=row["run_id"],
        started_at=_moment(row["started_at"]),
        finished_at=_moment(row["finished_at"]),
        outcome=row["outcome"],
        mode=row["mode"],
        scanned=row["scanned"],
        acted=row["acted"],
        detail=_readable(row["detail"]),
        error=row["error"],
    )


def _readable(detail: Any) -> dict[str, Any]:
    """A detail in which what a standing reads has the shape that it must have, or is missing.

    A record stands for ever, also one that somebody else wrote: it must not keep the watchdog from
    judging.
    """
    found = dict(detail) if isinstance(detail, dict) else {}
    beyond = [name for name, it in found.items() if isinstance(it, int) and abs(it) >= MOST_COUNTED]
    for name in beyond:
        del found[name]
    if not isinstance(found.get("window", {}), dict):
        del found["window"]
    if not isinstance(found.get("untouched", 0), int):
        del found["untouched"]
    if found.get("oldest_left") is not None:
        try:
            _moment(found["oldest_left"])
        except (TypeError, ValueError, OverflowError):
            del found["oldest_left"]
    return found


def _moment(text: str) -> datetime:
    # datetime.fromisoformat of Python 3.10 refuses the fractions that PostgreSQL writes.
    return isoparse(text).astimezone(timezone.utc)
