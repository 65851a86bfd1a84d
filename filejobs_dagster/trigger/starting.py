"""What happens to a request whose holder is known: refused, or one run in the queue.

How often runs were started is kept in the database and counted by its clock (`StartBook`).
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Literal

from filejobs_dagster.door.hold import hold_before
from filejobs_dagster.orchestration import tags
from filejobs_dagster.orchestration.launching import start_run
from filejobs_dagster.orchestration.runs import active_run, request_run
from filejobs_dagster.postgres.connect import Database, one
from filejobs_dagster.postgres.locks import lock_number
from filejobs_dagster.registry import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.ledger.outcome import Mode
    from filejobs_dagster.orchestration.launching import LaunchPlace
    from filejobs_dagster.settings import Settings
    from filejobs_dagster.trigger.tokens import TokenHolder

# How often runs were started over HTTP: kept in the database, counted by its clock.

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
KEPT_FOR = timedelta(days=1)
"""Longer than any window that is counted."""

_COUNT = """
SELECT count(*),
       ceil(extract(epoch FROM min(started_at) + %(window)s - clock_timestamp()))::bigint
  FROM (SELECT started_at
          FROM http_start
         WHERE installation = %(installation)s
           AND (%(job)s::text IS NULL OR job = %(job)s)
           AND (%(token_name)s::text IS NULL OR (token_name = %(token_name)s AND asked_live))
           AND started_at > clock_timestamp() - %(window)s
         ORDER BY started_at DESC
         LIMIT %(limit)s) AS newest
"""

_INSERT = """
INSERT INTO http_start (installation, job, token_name, asked_live, run_id)
VALUES (%(installation)s, %(job)s, %(token_name)s, %(asked_live)s, %(run_id)s)
"""

_FORGET = """
DELETE FROM http_start
 WHERE installation = %(installation)s AND started_at < clock_timestamp() - %(kept_for)s
"""


@dataclass(frozen=True)
class Limits:
    """How often.

    Attributes:
        starts_per_hour: Runs of one job, whoever asks.
        live_per_minute: Runs that one token asks to be live, of all jobs.
    """

    starts_per_hour: int
    live_per_minute: int


@dataclass(frozen=True)
class Start:
    """What is counted of one start.

    Attributes:
        installation: Whose job.
        job: Which.
        token_name: Who asked.
        asked_live: True when live was asked for by hand.
    """

    installation: str
    job: str
    token_name: str
    asked_live: bool


class StartBook:
    """The starts of an installation, open for one of them."""

    def __init__(self, cursor: psycopg.Cursor[TupleRow]) -> None:
        self._cursor = cursor

    def seconds_to_wait(self, start: Start, limits: Limits) -> int:
        """Seconds until this start would be within the limits; 0 when it is."""
        of_job = self._wait(start, HOUR, limits.starts_per_hour, job=start.job)
        if not start.asked_live:
            return of_job
        of_holder = self._wait(start, MINUTE, limits.live_per_minute, token_name=start.token_name)
        return max(of_job, of_holder)

    def _wait(
        self,
        start: Start,
        window: timedelta,
        limit: int,
        *,
        job: str | None = None,
        token_name: str | None = None,
    ) -> int:
        """Seconds until the oldest of the newest `limit` starts leaves the window."""
        self._cursor.execute(
            _COUNT,
            {
                "installation": start.installation,
                "job": job,
                "token_name": token_name,
                "window": window,
                "limit": limit,
            },
        )
        count, seconds = one(self._cursor)
        return 0 if count < limit else max(1, int(seconds))

    def enter(self, start: Start, run_id: str) -> None:
        """Count a start, and forget those that no window reaches any more."""
        who = {"installation": start.installation}
        self._cursor.execute(_FORGET, {**who, "kept_for": KEPT_FOR})
        self._cursor.execute(
            _INSERT,
            {
                **who,
                "job": start.job,
                "token_name": start.token_name,
                "asked_live": start.asked_live,
                "run_id": run_id,
            },
        )


@contextmanager
def one_at_a_time(database: Database, installation: str) -> Iterator[StartBook]:
    """Hold the installation's lock for one start; what is entered counts when this ends well.

    Raises:
        psycopg.errors.LockNotAvailable: Others have held it for `lock_timeout`.
        DatabaseUnavailable: The database is away.
    """
    with (
        database.connect("serve-trigger") as connection,
        database.transaction(connection) as cursor,
    ):
        number = lock_number(f"{database.schema}/http_start/{installation}")
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", (number,))
        yield StartBook(cursor)


Status = Literal[
    "queued",
    "at work",
    "too often",
    "unknown job",
    "not allowed",
    "recorded",
    "recorded before",
]


@dataclass(frozen=True)
class Answer:
    """What is said to whoever asked.

    Attributes:
        status: What became of it.
        run_id: The run that was queued, or the one at work.
        since: When that one was asked for.
        mode: In which the queued run will work.
        retry_after: Seconds until asking again can help.
    """

    status: Status
    run_id: str | None = None
    since: datetime | None = None
    mode: Mode | None = None
    retry_after: int | None = None


class Starter:
    """Starts jobs of one installation, from any number of threads and processes.

    The settings are read for each start: a job that was switched to dry, or a veto, counts from
    then on. Tokens are those of the start of the process.
    """

    def __init__(self, place: LaunchPlace, settings: Callable[[], Settings]) -> None:
        self._place = place
        self._settings = settings

    def start(self, holder: TokenHolder, job: str, asked: Mode | None) -> Answer:
        """Start a job, or say why not.

        Args:
            holder: Who asks.
            job: As the request names it.
            asked: The mode that the request names, or None for that of the settings.

        Raises:
            SettingsError: The settings have mistakes.
            CodeUnavailable: The code location is away.
            DatabaseUnavailable: The database is away.
            psycopg.Error: It refused, or others hold the lock for too long.
            dagster.DagsterError: Dagster refused.
        """
        settings = self._settings()
        if job not in settings.jobs:
            return Answer("unknown job")
        if BY_NAME[job].watched:
            return Answer("not allowed")
        if holder.jobs is not None and job not in holder.jobs:
            return Answer("not allowed")
        beyond = asked == "live" and settings.jobs[job].mode != "live"
        if asked == "live" and (not settings.allow_live or (beyond and not holder.may_go_live)):
            return Answer("not allowed")
        start = Start(settings.installation, job, holder.name, asked_live=asked == "live")
        return self._start(settings, start, asked)

    def _start(self, settings: Settings, start: Start, asked: Mode | None) -> Answer:
        trigger = settings.trigger
        if trigger is None:
            return Answer("not allowed")
        limits = Limits(trigger.starts_per_hour, trigger.live_per_minute)
        with one_at_a_time(Database.of(settings.database), settings.installation) as book:
            at_work = active_run(self._place.instance, settings, start.job)
            if at_work is not None:
                return Answer("at work", run_id=at_work, since=self._asked_for(at_work))
            wait = book.seconds_to_wait(start, limits)
            if wait:
                return Answer("too often", retry_after=wait)
            request = request_run(settings, start.job, asked=asked)
            run = start_run(
                self._place,
                start.job,
                {
                    **request.tags,
                    tags.TRIGGER: tags.HTTP,
                    tags.STARTED_BY: start.token_name,
                },
                partition=request.partition_key,
            )
            book.enter(start, run.run_id)
        return Answer("queued", run_id=run.run_id, mode=_mode(settings, start.job, asked))

    def _asked_for(self, run_id: str) -> datetime | None:
        record = self._place.instance.get_run_record_by_id(run_id)
        if record is None:
            return None
        created = record.create_timestamp
        return created if created.tzinfo else created.replace(tzinfo=timezone.utc)


def _mode(settings: Settings, job: str, asked: Mode | None) -> Mode:
    """The mode in which the run will work, as far as settings and holds tell by now."""
    if not settings.allow_live or BY_NAME[job].read_only:
        return "dry"
    mode = asked or settings.jobs[job].mode
    database = Database.of(settings.database)
    held = mode == "live" and hold_before(database, settings.installation, job) is not None
    return "dry" if held else mode
