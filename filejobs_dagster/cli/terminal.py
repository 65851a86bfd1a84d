"""What every command shares: how it prints, its exit codes, what one call knows, its errors."""

from __future__ import annotations

import getpass
import json
import os
import socket
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import psycopg
import typer
from rich.console import Console

from filejobs_dagster.embedded.environment import EmbeddedExtraMissingError
from filejobs_dagster.ledger.runs import would_act
from filejobs_dagster.objects.errors import BucketUnavailable
from filejobs_dagster.objects.listing.page import ListingFailed
from filejobs_dagster.postgres.connect import CommitUnconfirmed, DatabaseUnavailable
from filejobs_dagster.postgres.migrate import MigrationRefused
from filejobs_dagster.registry import BY_NAME, JOBS
from filejobs_dagster.scan.page import PlotsMissing
from filejobs_dagster.settings import SettingsError
from filejobs_dagster.settings.section import nearest
from filejobs_dagster.settings.values import parse_duration
from filejobs_dagster.streams.scratch import NotEnoughRoom
from filejobs_dagster.text import LOG_LIMIT, sanitize, sanitize_exception

if TYPE_CHECKING:
    from rich.table import Table

    from filejobs_dagster.collector import Collector
    from filejobs_dagster.ledger.runs import RecordedRun
    from filejobs_dagster.ledger.standing import RunSummary
    from filejobs_dagster.settings import Loaded, Settings

NEVER_FOLDED = 100_000
"""Columns of an output that is no terminal: wide enough that nothing is folded or cut."""


def console() -> Console:
    """Standard output. NO_COLOR is respected; what is no terminal is neither coloured nor cut."""
    return Console(
        width=None if sys.stdout.isatty() else NEVER_FOLDED,
        highlight=False,
        markup=False,
        emoji=False,
    )


def is_folded(out: Console) -> bool:
    """True for a terminal, whose lines have an end."""
    return out.width != NEVER_FOLDED


def print_table(out: Console, table: Table) -> None:
    """Print a table, without the spaces that fill the last column where no terminal folds it."""
    if is_folded(out):
        out.print(table)
        return
    with out.capture() as captured:
        out.print(table)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def print_json(document: Any) -> None:
    """Print a JSON document on standard output, in UTF-8 with two spaces of indentation."""
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def print_error(text: str) -> None:
    """Print on standard error. The caller has taken the secrets out."""
    sys.stderr.write(text.rstrip("\n") + "\n")


def one_line(text: str) -> str:
    """The text with every run of white space as one space."""
    return " ".join(text.split())


# What the exit codes of `filejobs` mean.

OK = 0
FAILED = 1
"""The command could not do what it was asked, and said why."""

WARNING = 1
CRITICAL = 2
UNKNOWN = 3
"""The three of `status --check`, as monitoring plugins use them."""

USAGE = 64
"""The command was called in a way that it does not understand (EX_USAGE)."""

INTERNAL = 70
"""A fault of the program itself (EX_SOFTWARE)."""

INTERRUPTED = 130


# What one call of `filejobs` knows: the settings file it reads, and what it must not print.


@dataclass
class Invocation:
    """One call of the command.

    Attributes:
        config: From `--config`; None leaves it to FILEJOBS_CONFIG.
        secrets: Values that must not be printed; known once the settings are loaded.
    """

    config: Path | None = None
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @classmethod
    def of(cls, context: typer.Context) -> Invocation:
        """The invocation that a command's context belongs to."""
        found: Invocation = context.ensure_object(cls)
        return found

    def hide(self, *values: str) -> None:
        """Keep values out of everything that is printed from now on."""
        self.secrets = (*self.secrets, *values)

    def read(self) -> Loaded:
        """Read the settings, whatever they hold."""
        from filejobs_dagster.settings import (  # noqa: PLC0415 (--help works without pydantic)
            known_secrets,
            read_settings,
        )

        loaded = read_settings(self.config)
        if loaded.settings is not None:
            self.hide(*known_secrets(loaded.settings))
        return loaded

    def require(self) -> Settings:
        """The settings; with mistakes in them, name each on standard error and exit with 1."""
        loaded = self.read()
        if loaded.settings is None:
            refuse(loaded, FAILED)
        return loaded.settings


def refuse(loaded: Loaded, exit_code: int) -> NoReturn:
    """Name every problem of the settings on standard error, and exit."""
    print_error(problems_text(loaded))
    raise typer.Exit(exit_code)


def problems_text(loaded: Loaded) -> str:
    """Every problem of the settings: where it stands, what was found, what would be right."""
    count = len(loaded.problems)
    lines = [f"{loaded.path} has {count} mistake{'s' if count != 1 else ''}:"]
    for problem in loaded.problems:
        where = f" (line {problem.line})" if problem.line is not None else ""
        lines += [f"  {problem.path}{where}", f"    found: {problem.found}"]
        lines += [f"    right: {problem.expected}"]
    return "\n".join(lines)


# Who types: for records that must name a person.


def operator_name() -> str:
    """The user and the machine, as `ada@desk`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container whose user id has no name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


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


def span(duration: timedelta) -> str:
    """A duration in the two largest units that it fills; below a minute with its tenths."""
    total = max(0.0, duration.total_seconds())
    if total < 60:  # noqa: PLR2004 (a minute)
        return f"{total:.1f}s"
    seconds = int(total)
    parts: list[str] = []
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s")):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count}{unit}")
        elif parts:
            break
    return " ".join(parts[:2])


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


# From an exception to what a person is told, without a traceback and without a secret.

TRACEBACK_VARIABLE = "FILEJOBS_TRACEBACK"

_TEACHING = (
    BucketUnavailable,
    CommitUnconfirmed,
    DatabaseUnavailable,
    MigrationRefused,
    EmbeddedExtraMissingError,
    ListingFailed,
    NotEnoughRoom,
    PlotsMissing,
    SettingsError,
)
"""Errors whose own message says what was tried, what was found and what to do."""


@dataclass(frozen=True)
class Failure:
    """What is printed, and the exit code.

    Attributes:
        text: Without secrets.
        exit_code: 1 for what the surroundings refused, 70 for a fault of the program.
    """

    text: str
    exit_code: int


def failure_of(error: Exception, secrets: Iterable[str] = ()) -> Failure:
    """Describe any exception that ended a command."""
    known = tuple(secrets)
    text = expected_failure(error, known)
    if text is not None:
        return Failure(text, FAILED)
    text = f"filejobs met an error it did not expect: {sanitize_exception(error, known=known)}"
    if os.environ.get(TRACEBACK_VARIABLE, "") not in ("", "0"):
        trace = "".join(traceback.format_exception(error))
        text = f"{sanitize(trace, limit=LOG_LIMIT, known=known)}\n{text}"
    else:
        text += f"\nSet {TRACEBACK_VARIABLE}=1 to see where it happened."
    return Failure(text, INTERNAL)


def expected_failure(error: Exception, secrets: Iterable[str] = ()) -> str | None:
    """What to tell of a failure that the program understands, else None."""
    if isinstance(error, _TEACHING):
        return sanitize(str(error), known=secrets)
    if not isinstance(error, psycopg.Error):
        return None
    said = sanitize(one_line(error.diag.message_primary or str(error)), known=secrets)
    if isinstance(error, psycopg.errors.UndefinedTable | psycopg.errors.UndefinedColumn):
        return (
            f"The project's tables are not all in the database ({said}). Run `filejobs migrate`, "
            "and check database.schema in the settings."
        )
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        return (
            f"The database's role lacks a privilege ({said}). `filejobs grants --missing --role "
            "ROLE` prints the SQL that gives it what the jobs need; with --for status or --for "
            "mirror, what a role needs that only looks or only records."
        )
    if isinstance(error, psycopg.errors.LockNotAvailable):
        return (
            f"Somebody else holds a lock that is needed here ({said}). Nothing was changed: wait "
            "for the other session to finish, and call again."
        )
    kind = type(error).__name__
    return f"PostgreSQL refused or went away ({kind}: {said}). `filejobs doctor` looks closer."


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
