"""`filejobs runs`: the recorded runs, newest first."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.box import SIMPLE_HEAD
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from filejobs_dagster.cli.completion import job_names
from filejobs_dagster.cli.invocation import Invocation
from filejobs_dagster.cli.output import console, is_folded, print_json, print_table
from filejobs_dagster.cli.words import (
    NOT_KNOWN,
    NOTHING,
    acted_on,
    duration_given,
    instant,
    job_named,
    moment,
    number,
    span,
)
from filejobs_dagster.ledger.runs import RecordedRun, newest_runs, would_act
from filejobs_dagster.ledger.sanitize import bounded, sanitize
from filejobs_dagster.postgres.connect import Database

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

LONGEST_FIRST_LINE = 160
ROOM_FOR_EVERYTHING = 170
"""Columns from which everything fits into one table."""

WHO_RECORDS = "Dagster's daemon records a run after its end; where none is running: filejobs mirror"

_COLOURS = {"ok": "green", "cancelled": "yellow"}

_HEADINGS = (
    "id", "run", "job", "started (UTC)", "took", "outcome", "mode", "window", "trigger", "by",
    "scanned", "acted", "left", "error",
)  # fmt: skip


class Format(str, Enum):
    """How the runs are printed."""

    TABLE = "table"
    JSON = "json"


def runs(
    context: typer.Context,
    job: Annotated[
        str | None,
        typer.Option(
            "--job",
            help="Only runs of this job.",
            autocompletion=job_names,
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=10_000, help="The most runs to show.")
    ] = 20,
    failed: Annotated[bool, typer.Option("--failed", help="Only runs that failed.")] = False,
    mode: Annotated[
        Literal["dry", "live"] | None,
        typer.Option("--mode", help="Only runs in this mode.", show_default=False),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="DURATION",
            help="Only runs that ended within this time, such as 24h or 7d.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Format, typer.Option("--format", help="table for people, json for programs.")
    ] = Format.TABLE,
    full: Annotated[
        bool, typer.Option("--full", help="Show whole errors instead of their first lines.")
    ] = False,
) -> None:
    """List what ran, newest first: when, how it ended, what it did, and why it failed.

    Reads filejobs.yaml and the table job_run in a read-only transaction; changes nothing. A run
    stands here once it is over; `filejobs status` shows what is running now.

    Dagster's daemon records a run within minutes of its end; where none is running, `filejobs
    mirror` does. Left says why due items were left, and how many orphans wait for confirm_after.

    By names who asked for the run. "claimed" means that only a tag says so, which anybody can type.
    A schedule's or a sensor's run has nobody; nor has one that was started past everything that
    could know.

    A count that is not known reads unknown: the run decided nothing, which is not the same as
    finding nothing. A dry run acts on nothing; its detail says what a live one would have taken.

    [bold]Examples[/bold]
      filejobs runs --failed --since 7d
      filejobs runs --job upload_reservations --mode live --limit 5
      filejobs runs --format json --limit 1

    [bold]Exit codes[/bold]
      0   shown, also when there is none
      1   the settings are wrong, or the database does not answer
      64  called wrongly
    """
    invocation = Invocation.of(context)
    wanted = None if job is None else job_named(job, "--job")
    within = None if since is None else duration_given(since, "--since")
    settings = invocation.require()
    database = Database.of(settings.database)
    with (
        database.connect("runs") as connection,
        database.transaction(connection, read_only=True) as cursor,
    ):
        found = newest_runs(
            cursor,
            settings.installation,
            limit=limit,
            job=wanted,
            mode=mode,
            failed=failed,
            since=within,
        )
    if output is Format.JSON:
        print_json([run_document(run, invocation.secrets) for run in found])
    elif found:
        print_runs(found, invocation.secrets, full=full)
    else:
        typer.echo(f"No run of {settings.installation} is recorded that fits. {WHO_RECORDS}")


def run_document(run: RecordedRun, secrets: tuple[str, ...]) -> dict[str, Any]:
    """A run for programs. Fields are added, never renamed or removed."""
    return {
        "id": run.id,
        "run_id": run.run_id,
        "installation": run.installation,
        "job": run.job,
        "started_at": instant(run.started_at),
        "finished_at": instant(run.finished_at),
        "took_seconds": run.took.total_seconds(),
        "outcome": run.outcome,
        "mode": run.mode,
        "window": run.window,
        "trigger": {"kind": run.trigger, "name": run.trigger_name},
        "started_by": None if run.started_by is None else run.started_by.as_detail(),
        "scanned": run.scanned,
        "acted": run.acted,
        "would_act": would_act(run.mode, run.detail),
        "truncated": run.truncated,
        "stopped_reason": run.stopped_reason,
        "error": None if run.error is None else sanitize(run.error, known=secrets),
        "detail": dict(run.detail),
    }


def print_runs(found: Sequence[RecordedRun], secrets: tuple[str, ...], *, full: bool) -> None:
    """Print runs for people."""
    out = console()
    # What is no terminal goes to a program, or to somebody who searches: nothing is shortened.
    short = is_folded(out) and not full
    rows = [_cells(run, secrets, short=short, full=full) for run in found]
    if out.width < ROOM_FOR_EVERYTHING:
        for row in rows:
            _print_block(out, row)
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    for heading in _HEADINGS:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*row)
    print_table(out, table)


def _print_block(out: Console, row: Sequence[Text]) -> None:
    """One run on lines of its own, for a terminal that has no room for the table."""
    identity, run, job, started, took, outcome, mode, *rest, error = row
    first = Text("  ").join([identity, job, outcome, mode, started + Text(" UTC"), took])
    out.print(first)
    more = ", ".join(f"{name} {cell}" for name, cell in zip(_HEADINGS[7:], rest, strict=False))
    out.print(Padding(Text(f"run {run}, {more}", style="dim"), (0, 0, 0, 4)))
    if str(error) != NOTHING:
        out.print(Padding(error, (0, 0, 0, 4)))


def _cells(run: RecordedRun, secrets: tuple[str, ...], *, short: bool, full: bool) -> list[Text]:
    trigger = run.trigger or NOT_KNOWN
    if run.trigger_name:
        trigger += f": {run.trigger_name}"
    return [
        Text(str(run.id)),
        Text(run.run_id[:8] if short else run.run_id),
        Text(run.job),
        Text(moment(run.started_at)),
        Text(span(run.took)),
        Text(run.ended, style=_COLOURS.get(run.ended, "bold red")),
        Text(run.mode.upper(), style="bold" if run.mode == "live" else "default"),
        Text(run.window or NOT_KNOWN),
        Text(trigger),
        Text(NOTHING if run.started_by is None else str(run.started_by)),
        Text(number(run.scanned)),
        Text(acted_on(run)),
        Text(_left(run)),
        Text(_error(run, secrets, short=short, full=full)),
    ]


def _left(run: RecordedRun) -> str:
    """Whether due items were left and why, and how many are not due yet where a job counts them."""
    if run.truncated is None and run.stopped_reason is None:
        return NOT_KNOWN
    if run.mode == "dry" and run.stopped_reason is None and not run.truncated:
        # It took nothing: what it would have taken stands beside it.
        return NOTHING
    left = run.stopped_reason or ("some" if run.truncated else "nothing")
    waiting = run.detail.get("waiting")
    return f"{left}; {number(waiting)} wait" if isinstance(waiting, int) and waiting else left


def _error(run: RecordedRun, secrets: tuple[str, ...], *, short: bool, full: bool) -> str:
    if run.error is None:
        return NOTHING
    error = sanitize(run.error, known=secrets)
    if full:
        return error
    first = error.splitlines()[0] if error else NOTHING
    return bounded(first, LONGEST_FIRST_LINE) if short else first
