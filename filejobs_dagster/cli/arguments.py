"""How commands write times, durations and counts, read durations and jobs, and complete them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import typer

from filejobs_dagster.ledger.runs import would_act
from filejobs_dagster.registry import BY_NAME, JOBS
from filejobs_dagster.settings.section import nearest
from filejobs_dagster.settings.values import parse_duration

if TYPE_CHECKING:
    from filejobs_dagster.collector import Collector
    from filejobs_dagster.ledger.runs import RecordedRun
    from filejobs_dagster.ledger.standing import RunSummary


# How the commands write times, durations and counts, and read durations and jobs.

NOTHING = "-"
NOT_KNOWN = "unknown"

LONGEST = timedelta(days=36_500)
"""A century; PostgreSQL could not subtract much more from now."""


def moment(when: datetime | None) -> str:
    """A moment in UTC to the minute, or `never`."""
    return "never" if when is None else f"{when.astimezone(timezone.utc):%Y-%m-%d %H:%M}"


def instant(when: datetime | None) -> str | None:
    """A moment as ISO 8601 in UTC, for programs."""
    return None if when is None else when.astimezone(timezone.utc).isoformat()


def acted_on(run: RunSummary | RecordedRun) -> str:
    """How many items a run acted on; of a dry one, how many a live run would have."""
    would = would_act(run.mode, run.detail)
    return number(run.acted) if would is None else f"would {number(would)}"


def number(count: int | None) -> str:
    """A count, or `unknown`: what is not known is never shown as zero."""
    return NOT_KNOWN if count is None else f"{count:,}"


def job_named(name: str, option: str, *, settings_read: bool = False) -> str:
    """The job of that name.

    Args:
        name: As it was typed.
        option: Where.
        settings_read: False before the settings are, and where the name of a job that has left
            them is an answer: then every name passes that an own job may have.

    Raises:
        typer.BadParameter: No job has it; the message names the nearest.
    """
    if name not in BY_NAME if settings_read else not BY_NAME.may_name(name):
        raise typer.BadParameter(
            f"no job is called {name!r}; {nearest(name, BY_NAME)}", param_hint=option
        )
    return name


def duration_given(text: str, option: str) -> timedelta:
    """A positive duration of at most a century.

    Raises:
        typer.BadParameter: It is not one; the message says what would be right.
    """
    try:
        duration = parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
    if not timedelta() < duration <= LONGEST:
        raise typer.BadParameter(f"{text} is not between 1s and {LONGEST.days}d", param_hint=option)
    return duration


def threshold_given(text: str, option: str) -> tuple[str, timedelta]:
    """A job and its threshold, from `job=duration`.

    Raises:
        typer.BadParameter: It is not such a pair; the message says what would be right.
    """
    job, equals, duration = text.partition("=")
    if not equals:
        raise typer.BadParameter(
            f"{text!r} has no '='; write a job and a duration: upload_reservations=1h",
            param_hint=option,
        )
    return job_named(job.strip(), option), duration_given(duration.strip(), option)


# What a shell may complete beside commands and options: the names of jobs and examples of days.
#
# Called for each press of a key: no more is imported than the declarations of jobs and the parser
# of settings, which is neither Dagster nor a client of storage.


def job_names(context: typer.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    """The jobs whose names begin so, with what each does."""
    for job in _jobs(context):
        if job.name.startswith(incomplete):
            yield job.name, job.summary


def partitioned_job_names(context: typer.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    """The jobs that a backfill can take day by day."""
    for job in _jobs(context):
        if job.partitioned and job.name.startswith(incomplete):
            yield job.name, job.summary


def reporting_job_names(context: typer.Context, incomplete: str) -> Iterator[tuple[str, str]]:
    """The jobs that something else runs."""
    for job in _jobs(context):
        if job.watched and job.name.startswith(incomplete):
            yield job.name, job.summary


def _jobs(context: typer.Context) -> Iterable[Collector[Any, Any]]:
    """Ours, and those of the settings, if any are found."""
    from filejobs_dagster.settings import read_settings  # noqa: PLC0415 (--help works without)

    # A key that is pressed is no place to hear of mistakes.
    with suppress(Exception):
        read_settings(context.find_root().params.get("config"))
    return JOBS
