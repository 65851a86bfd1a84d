"""`filejobs backfill`: takes the days that were missed, one after the other.

The words are here: days, plans, and the list. What is done with Dagster is in `backfill_desk.py`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from filejobs_dagster.cli import terminal
from filejobs_dagster.cli.arguments import NOTHING, job_named, moment, partitioned_job_names
from filejobs_dagster.cli.instance import opened_instance
from filejobs_dagster.cli.terminal import Invocation, print_error
from filejobs_dagster.ledger.swept_days import days_between
from filejobs_dagster.postgres.connect import Database, database_now
from filejobs_dagster.registry import BY_NAME

if TYPE_CHECKING:
    from filejobs_dagster.collector import Collector
    from filejobs_dagster.ledger.outcome import Mode
    from filejobs_dagster.ledger.swept_days import SweptDays
    from filejobs_dagster.orchestration.launching import Backfill
    from filejobs_dagster.settings import Settings

# What `filejobs backfill` says: days, plans, and the list.

_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def day_given(text: str, option: str) -> date:
    """A day as year-month-day.

    Raises:
        typer.BadParameter: It is not one; the message says what would be right.
    """
    if _DAY.fullmatch(text):
        try:
            return date.fromisoformat(text)
        except ValueError:
            pass  # it looks like a day and is none: told below
    raise typer.BadParameter(
        f"{text!r} is not a day; write year-month-day, such as 2026-03-01", param_hint=option
    )


def without_days(job: Collector[Any, Any]) -> str:
    """Why a job has no days, and what to do instead."""
    why = (
        f"{job.name} states where things stand now: a statement about a day that is over would be "
        "a lie"
        if job.states_now
        else f"{job.name} has no days: each run looks at everything, so one run makes up for all "
        "that were missed"
    )
    live = "" if job.read_only else ', live with --tags \'{"filejobs/mode": "live"}\''
    return (
        f"{why}. Start one with `dagster job launch -w workspace.yaml -j {job.name}`{live}, or "
        "wait for its schedule. Nothing was started."
    )


def plan(job: str, mode: Mode, days: Sequence[date], *, left_out: int) -> str:
    """Which days, in which mode, and what that means."""
    what = (
        "live: deletes, for good, what became due on"
        if mode == "live"
        else "dry: reports what a live run would take, and changes nothing, of"
    )
    lines = [f"{job}, {what} {counted(len(days), 'day')} (UTC), one after the other:"]
    lines += [f"  {each}" for each in ranges_of(days)]
    if left_out:
        lines.append(f"Left out: {counted(left_out, 'day')} done already (--all takes them, too).")
    return "\n".join(lines)


def nothing_missing(job: str, asked: Sequence[date], swept: SweptDays) -> str:
    """Why there is nothing to do."""
    by = ""
    if swept.everything_until is not None:
        by = (
            f" Run {swept.everything_by} swept everything that was due until "
            f"{moment(swept.everything_until)} UTC."
        )
    return (
        f"Nothing is missing of {job}: {ranges(asked)} was swept.{by} --all takes the days all "
        "the same."
    )


def asked_for(backfill_id: str, days: int) -> str:
    """What was started, where it is to be seen, and how it is stopped."""
    return (
        f"Asked for backfill {backfill_id}: {counted(days, 'run')}, which the daemon starts one "
        "after the other.\n"
        f"Look at it with `filejobs backfill --list` or under Backfills in the web UI; stop it "
        f"with `filejobs backfill --cancel {backfill_id}`."
    )


def counted(number: int, thing: str) -> str:
    """A number of things: `1 day`, `3 days`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def ranges(days: Sequence[date]) -> str:
    """Days on one line: `2026-03-01 to 2026-03-04, 2026-03-07`."""
    return ", ".join(ranges_of(days))


def ranges_of(days: Sequence[date]) -> list[str]:
    """Days that follow each other as ranges, in order."""
    found: list[tuple[date, date]] = []
    for day in sorted(days):
        if found and day - found[-1][1] == timedelta(days=1):
            found[-1] = (found[-1][0], day)
        else:
            found.append((day, day))
    return [str(first) if first == last else f"{first} to {last}" for first, last in found]


def table_of(backfills: Sequence[Backfill]) -> Table:
    """The newest backfills, for `--list`."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("id", "job", "mode", "days", "state", "runs", "asked for (UTC)", "by"):
        table.add_column(heading)
    for each in backfills:
        table.add_row(
            each.backfill_id,
            each.job,
            each.mode,
            f"{ranges(each.days)} ({len(each.days)})",
            each.state,
            ", ".join(
                f"{count} {status}" for status, count in sorted(Counter(each.runs.values()).items())
            )
            or NOTHING,
            moment(each.asked_at),
            each.started_by or NOTHING,
        )
    return table


def backfill(  # noqa: PLR0917 (typer reads options from parameters)
    context: typer.Context,
    job: Annotated[
        str | None,
        typer.Argument(
            metavar="JOB",
            help="A job that can take one day at a time.",
            autocompletion=partitioned_job_names,
            show_default=False,
        ),
    ] = None,
    first: Annotated[
        str | None,
        typer.Option("--from", metavar="DAY", help="The first day (UTC).", show_default=False),
    ] = None,
    last: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="DAY",
            help="The last day, included. Without it, today.",
            show_default=False,
        ),
    ] = None,
    mode: Annotated[
        Literal["dry", "live"] | None,
        typer.Option("--mode", help="live deletes. Without it, dry.", show_default=False),
    ] = None,
    take_all: Annotated[
        bool,
        typer.Option(
            "--all/--only-missing",
            help="Take also days that were swept already, or leave them out.",
        ),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask, and allow more than 31 days.")
    ] = False,
    resume: Annotated[
        str | None,
        typer.Option(
            "--resume",
            metavar="ID",
            help="Take the days that a backfill has left.",
            show_default=False,
        ),
    ] = None,
    cancel: Annotated[
        str | None,
        typer.Option(
            "--cancel", metavar="ID", help="Cancel what is left of a backfill.", show_default=False
        ),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="Show the newest backfills.")] = False,
    workspace: Annotated[
        Path | None,
        typer.Option(
            "--workspace",
            "-w",
            help="The workspace file of Dagster's daemon. Without it ./workspace.yaml, then the "
            "one in DAGSTER_HOME.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Take the days that a job has missed, one after the other.

    After an outage it is rarely needed: the next scheduled run covers everything that is due. Look
    with `filejobs status` first. A backfill is for a backlog in pieces, or for single days.

    Of the days from --from to --to it takes those that no live run has swept, as job_run tells it,
    and says first which they are and in which mode. The runs are Dagster's: its daemon starts them
    one after the other, its web UI shows them under Backfills and can cancel them there.

    Dry is the default, reports only, and leaves the days missing. Live deletes for good.

    [bold]Examples[/bold]
      filejobs backfill upload_reservations --from 2026-03-01 --to 2026-03-05
      filejobs backfill upload_reservations --from 2026-03-01 --mode live
      filejobs backfill --list
      filejobs backfill --cancel abcdefgh
      filejobs backfill --resume abcdefgh

    [bold]Exit codes[/bold]
      0   asked for; or nothing was missing
      1   refused, with the reason; nothing was started
      64  called wrongly
    """
    invocation = Invocation.of(context)
    _one_thing(job, resume, cancel, listed=listed)
    if resume is not None:
        _refuse_options(first, last, mode, take_all=take_all)
    named = None if job is None else job_named(job, "JOB")
    settings = invocation.require()
    asked: tuple[date, ...] = ()
    if named is not None and not listed:
        asked = _asked_days(settings, named, first, last)
    with opened_instance(invocation, "backfills are kept in Dagster's instance") as instance:
        from filejobs_dagster.cli.backfill_desk import Desk  # noqa: PLC0415 (imports Dagster)

        desk = Desk(settings, instance, workspace, yes=yes)
        if listed:
            desk.show(named)
        elif cancel is not None:
            desk.cancel(cancel)
        elif resume is not None:
            desk.resume(resume)
        elif named is not None:
            desk.start(named, asked, mode or "dry", take_all=take_all)


def _one_thing(job: str | None, resume: str | None, cancel: str | None, *, listed: bool) -> None:
    asked = [job is not None and not listed, resume is not None, cancel is not None, listed]
    if sum(asked) != 1:
        raise typer.BadParameter(
            "name a JOB with --from, or one of --list, --cancel ID and --resume ID"
        )


def _refuse_options(
    first: str | None, last: str | None, mode: str | None, *, take_all: bool
) -> None:
    if first is not None or last is not None or mode is not None or take_all:
        raise typer.BadParameter(
            "a resumed backfill keeps its days and its mode: --resume ID stands alone"
        )


def _asked_days(
    settings: Settings, job: str, first: str | None, last: str | None
) -> tuple[date, ...]:
    """The days that were asked for, all of which exist.

    Raises:
        typer.BadParameter: They cannot be read, or are in wrong order.
        typer.Exit: The job takes no days, or a day is not one that it has.
    """
    registered = BY_NAME[job_named(job, "JOB", settings_read=True)]
    if not registered.partitioned:
        _refuse(without_days(registered))
    if job not in settings.jobs:
        _refuse(f"{job} does not stand under `jobs:` in the settings, so its runs would refuse.")
    if first is None:
        raise typer.BadParameter("write the first day, such as 2026-03-01", param_hint="--from")
    database = Database.of(settings.database)
    with (
        database.connect("backfill") as connection,
        database.transaction(connection, read_only=True) as cursor,
    ):
        today = database_now(cursor).date()
    begins = day_given(first, "--from")
    ends = today if last is None else day_given(last, "--to")
    if ends > today:
        _refuse(f"{ends} has not begun: today is {today} (UTC). Nothing was started.")
    if begins < settings.backfill_from:
        _refuse(
            f"{begins} is before backfill_from, {settings.backfill_from}, so {job} has no such "
            "day. If files could be that old, write an earlier day there and reload the code "
            "location. Nothing was started."
        )
    if begins > ends:
        raise typer.BadParameter(f"{begins} is after {ends}", param_hint="--from")
    return days_between(begins, ends)


def _refuse(text: str) -> NoReturn:
    print_error(text)
    raise typer.Exit(terminal.FAILED)
