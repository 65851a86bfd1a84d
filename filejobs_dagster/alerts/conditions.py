"""What is wrong now, read from the tables: a state, so that nothing is missed by looking late."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from filejobs_dagster.alerts.digest import SEVERITY, TITLE, Kind, Severity
from filejobs_dagster.door.hold import open_holds
from filejobs_dagster.ledger.outcome import AHEAD
from filejobs_dagster.ledger.standing import dead_letters_of, missing_of, tripped
from filejobs_dagster.registry import BY_NAME
from filejobs_dagster.runbook import of_condition
from filejobs_dagster.text import sanitize

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.ledger.standing import Standing

MOST_OF_A_REASON = 400
SLACK = timedelta(minutes=10)
"""A run stops by itself at its max_runtime; this much later it is stuck."""

LONGEST_UNKNOWN = timedelta(hours=24)
"""How long a run of a job that the settings do not have may take: the most that one may ask."""

UNRECORDED_AFTER = timedelta(minutes=15)
SILENT_AFTER = timedelta(minutes=15)
"""The mirror moves its watermark every half minute; so long without it and the daemon is gone."""

_SHOWN = 3

_AT_WORK_TOO_LONG = """
SELECT progress.job, progress.run_id, progress.holder, progress.started_at, progress.heartbeat_at
  FROM job_progress AS progress
  LEFT JOIN unnest(%(jobs)s::text[], %(limits)s::interval[]) AS given (job, longest)
         ON given.job = progress.job
 WHERE progress.installation = %(installation)s
   AND progress.closed_at IS NULL
   AND progress.outcome IS NULL
   AND progress.started_at
       < (SELECT clock_timestamp()) - coalesce(given.longest, %(longest)s::interval)
 ORDER BY progress.started_at
 LIMIT 100
"""

_WITHOUT_RECORD = """
SELECT job, run_id, finished_at
  FROM job_progress
 WHERE installation = %(installation)s
   AND closed_at IS NULL
   AND finished_at < (SELECT clock_timestamp()) - %(after)s::interval
 ORDER BY finished_at
 LIMIT 100
"""

# A mirror at work sets a watermark of the future back; one that stays is nobody's.
_MIRROR_READ_UNTIL = """
SELECT read_until,
       read_until NOT BETWEEN clock_timestamp() - %(after)s::interval
                          AND clock_timestamp() + %(ahead)s::interval
  FROM mirror_watermark
 WHERE installation = %(installation)s
"""

_OF_STANDING: Mapping[str, Kind] = {
    "never run": "never run",
    "failed": "failed",
    "stale": "stale",
    "unknown": "not swept",
    "behind": "behind",
}

_ONLY_A_WARNING: Mapping[Kind, Kind] = {
    "never run": "first run awaited",
    "failed": "started again",
}

STANDING_KINDS: frozenset[Kind] = frozenset(
    {
        "never run",
        "first run awaited",
        "failed",
        "started again",
        "stale",
        "not swept",
        "behind",
        "dead letters",
        "breaker",
        "findings",
    }
)
"""Where a job stands: when one of these follows another, nothing is over."""


@dataclass(frozen=True)
class Condition:
    """Something that somebody must be told.

    Attributes:
        kind: What is wrong.
        job: The job that it concerns, or None for the installation as a whole.
        reason: In a sentence, sanitised and bounded.
    """

    kind: Kind
    job: str | None
    reason: str

    @property
    def severity(self) -> Severity:
        """How loudly to say it."""
        return SEVERITY[self.kind]

    @property
    def title(self) -> str:
        """What is wrong with what."""
        of = "every job" if self.job is None and self.kind == "held" else self.job
        return TITLE[self.kind] if of is None else f"{of} {TITLE[self.kind]}"

    @property
    def see(self) -> str:
        """Where the pages say what to do."""
        return of_condition(self.kind)

    @property
    def fingerprint(self) -> str:
        """What makes two sightings the same condition."""
        return f"{self.job or '-'}/{self.kind}/{self.severity}"


@dataclass(frozen=True)
class QueuedRun:
    """A run that waits to start, as whoever can ask Dagster saw it."""

    run_id: str
    job: str
    since: datetime


@dataclass(frozen=True)
class Limits:
    """What is too long.

    Attributes:
        stuck_after: How long a run of each job may be at work.
        queued_longer_than: How long a run may wait.
    """

    stuck_after: Mapping[str, timedelta]
    queued_longer_than: timedelta = timedelta(hours=1)


@dataclass(frozen=True)
class Looked:
    """What one look saw, and what it was able to see.

    Attributes:
        conditions: What is wrong.
        judged: The kinds that this look could judge; of the others it says nothing, neither that
            they are there nor that they are over.
    """

    conditions: tuple[Condition, ...]
    judged: frozenset[Kind] = field(default_factory=lambda: frozenset(SEVERITY))


def look(
    cursor: psycopg.Cursor[TupleRow],
    installation: str,
    found: Sequence[Standing],
    limits: Limits,
    *,
    queued: Iterable[QueuedRun] | None = None,
    from_outside: bool = False,
    known: Iterable[str] = (),
) -> Looked:
    """Read what is wrong now.

    Args:
        cursor: In a transaction of any kind; nothing is written.
        installation: Whose runs.
        found: The standings of its jobs.
        limits: What is too long.
        queued: The runs that wait, or None from where Dagster cannot be asked.
        from_outside: True outside of Dagster's daemon, from where its silence can be heard.
        known: Secrets that no reason may show.

    Raises:
        psycopg.Error: The tables could not be read.
    """
    known = tuple(known)
    conditions = [one for standing in found for one in _of(standing, known)]
    conditions += _stuck(cursor, installation, limits, known)
    conditions += _unrecorded(cursor, installation)
    conditions += _held(cursor, installation, known)
    judged: set[Kind] = set(SEVERITY) - {"queued", "silent"}
    if queued is not None:
        judged.add("queued")
        cursor.execute("SELECT clock_timestamp()")
        row = cursor.fetchone()
        if row is not None:
            conditions += _waiting(queued, row[0], limits.queued_longer_than)
    silent = _silent(cursor, installation)
    if from_outside or silent is None:
        # From inside, an old watermark may be about to move: whoever ticks is alive.
        judged.add("silent")
        conditions += [silent] if silent is not None else []
    return Looked(tuple(conditions), frozenset(judged))


def beside_the_standings(
    cursor: psycopg.Cursor[TupleRow],
    installation: str,
    limits: Limits,
    *,
    known: Iterable[str] = (),
) -> tuple[Condition, ...]:
    """What is wrong now and no standing says: a run that is stuck, one without its record, silence.

    As seen from outside of Dagster; the arguments are those of `look`.

    Raises:
        psycopg.Error: The tables could not be read.
    """
    return look(cursor, installation, (), limits, from_outside=True, known=known).conditions


def reason_of(text: str, known: Iterable[str] = ()) -> str:
    """A reason as it may be stored, sent and shown: one line, without secrets."""
    return sanitize(" ".join(text.split()), limit=MOST_OF_A_REASON, known=known)


def _of(standing: Standing, known: tuple[str, ...]) -> list[Condition]:
    if not standing.configured:
        return []
    dead = dead_letters_of(standing.last_run)
    kind = kind_of(standing)
    reason = reason_of(standing.reason, known)
    without = missing_of(standing.last_run) or missing_of(standing.last_success)
    missing = [Condition("missing", standing.job, reason_of(without, known))] if without else []
    if dead and kind in (None, "behind"):
        return [Condition("dead letters", standing.job, reason), *missing]
    found = [] if kind is None else [Condition(kind, standing.job, reason)]
    if dead:
        many = "1 item was" if dead == 1 else f"{dead:,} items were"
        said = f"{many} given up after too many attempts"
        found.append(Condition("dead letters", standing.job, said))
    return found + missing


def kind_of(standing: Standing) -> Kind | None:
    """Which alert a standing is; None where nobody must be told."""
    kind = _OF_STANDING.get(standing.word) if standing.alarming else None
    last = standing.last_run
    if kind is not None and standing.severity == "warning" and kind in _ONLY_A_WARNING:
        return _ONLY_A_WARNING[kind]
    if kind != "failed" or last is None or last.outcome != "failed":
        return kind
    if tripped(last.detail):
        return "breaker"
    if BY_NAME[standing.job].read_only and _listed(last.detail, "findings"):
        return "findings"
    return kind


def _listed(detail: Mapping[str, Any], name: str) -> list[Any]:
    rows = detail.get(name)
    return rows if isinstance(rows, list) else []


def _stuck(
    cursor: psycopg.Cursor[TupleRow], installation: str, limits: Limits, known: tuple[str, ...]
) -> list[Condition]:
    cursor.execute(
        _AT_WORK_TOO_LONG,
        {
            "installation": installation,
            "jobs": list(limits.stuck_after),
            "limits": list(limits.stuck_after.values()),
            "longest": LONGEST_UNKNOWN,
        },
    )
    by_job: dict[str, list[str]] = {}
    for job, run_id, holder, started, beat in cursor.fetchall():
        said = f"run {run_id} ({holder}) since {_at(started)}, last sign of life {_at(beat)}"
        by_job.setdefault(job, []).append(said)
    return [Condition("stuck", job, reason_of(_few(runs), known)) for job, runs in by_job.items()]


def _unrecorded(cursor: psycopg.Cursor[TupleRow], installation: str) -> list[Condition]:
    cursor.execute(_WITHOUT_RECORD, {"installation": installation, "after": UNRECORDED_AFTER})
    by_job: dict[str, list[str]] = {}
    for job, run_id, finished in cursor.fetchall():
        by_job.setdefault(job, []).append(f"run {run_id} ended at {_at(finished)}")
    return [Condition("unrecorded", job, reason_of(_few(runs))) for job, runs in by_job.items()]


def _held(
    cursor: psycopg.Cursor[TupleRow], installation: str, known: tuple[str, ...]
) -> list[Condition]:
    return [
        Condition("held", it.job, reason_of(it.told, known))
        for it in open_holds(cursor, installation)
    ]


def _silent(cursor: psycopg.Cursor[TupleRow], installation: str) -> Condition | None:
    values = {"installation": installation, "after": SILENT_AFTER, "ahead": AHEAD}
    cursor.execute(_MIRROR_READ_UNTIL, values)
    row = cursor.fetchone()
    if row is None or not row[1]:
        return None
    return Condition("silent", None, f"the mirror of finished runs last looked at {_at(row[0])}")


def _waiting(queued: Iterable[QueuedRun], now: datetime, longest: timedelta) -> list[Condition]:
    by_job: dict[str, list[str]] = {}
    for run in queued:
        if now - run.since > longest:
            by_job.setdefault(run.job, []).append(f"run {run.run_id} since {_at(run.since)}")
    return [Condition("queued", job, reason_of(_few(runs))) for job, runs in by_job.items()]


def _few(sentences: Sequence[str]) -> str:
    more = len(sentences) - _SHOWN
    return "; ".join(sentences[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")


def _at(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
