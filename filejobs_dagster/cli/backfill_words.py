"""What `filejobs backfill` says: days, plans, and the list."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from filejobs_dagster.cli.words import NOTHING, moment

if TYPE_CHECKING:
    from filejobs_dagster.collector import Collector
    from filejobs_dagster.ledger.swept_days import SweptDays
    from filejobs_dagster.ledger.words import Mode
    from filejobs_dagster.orchestration.launching import Backfill

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
