"""What happens to a request whose holder is known: refused, or one run in the queue."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Literal

from filejobs_dagster.door.hold import hold_before
from filejobs_dagster.orchestration import tags
from filejobs_dagster.orchestration.launching import start_run
from filejobs_dagster.orchestration.requests import active_run, request_run
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.registry import BY_NAME
from filejobs_dagster.trigger.starts import Limits, Start, one_at_a_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from filejobs_dagster.ledger.words import Mode
    from filejobs_dagster.orchestration.launching import LaunchPlace
    from filejobs_dagster.settings import Settings
    from filejobs_dagster.trigger.tokens import TokenHolder

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
