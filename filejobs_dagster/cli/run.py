"""`filejobs run`: one run in this process; `filejobs runs` and `open`: the recorded ones."""

from __future__ import annotations

import os
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal

import psycopg
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from filejobs_dagster.cli import terminal
from filejobs_dagster.cli.arguments import (
    NOT_KNOWN,
    NOTHING,
    acted_on,
    duration_given,
    instant,
    job_named,
    job_names,
    moment,
    number,
)
from filejobs_dagster.cli.instance import instance_here, quiet
from filejobs_dagster.cli.terminal import (
    Invocation,
    console,
    is_folded,
    print_error,
    print_json,
    print_table,
    refuse,
)
from filejobs_dagster.ledger.runs import RecordedRun, newest_runs, runs_named, would_act
from filejobs_dagster.postgres.connect import Database, DatabaseUnavailable
from filejobs_dagster.registry import BY_NAME
from filejobs_dagster.text import bounded, roughly, sanitize

if TYPE_CHECKING:
    from collections.abc import Sequence

    from filejobs_dagster.settings import Loaded, Settings

# `filejobs runs`: the recorded runs, newest first.

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
        Text(roughly(run.took)),
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
    # One that passed over what another session held was not stopped, and yet left something.
    some = run.truncated or (
        run.window == "everything" and run.detail.get("oldest_left") is not None
    )
    if run.error is not None and run.stopped_reason is None and not some:
        return NOT_KNOWN
    left = run.stopped_reason or ("some" if some else "nothing")
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


SECONDS_BETWEEN_LOOKS = 1.0

_HOW_FAR = "SELECT scanned, acted FROM job_progress WHERE run_id = %s"


def run(  # noqa: PLR0917 (each is an option)
    context: typer.Context,
    job: Annotated[
        str,
        typer.Argument(
            metavar="JOB",
            help="A job of the settings.",
            autocompletion=job_names,
            show_default=False,
        ),
    ],
    live: Annotated[
        bool, typer.Option("--live", help="Act. Without it the run only says what it would do.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            min=1,
            help="Most items to act on, instead of the settings'.",
            show_default=False,
        ),
    ] = None,
    override: Annotated[
        list[str] | None,
        typer.Option(
            "--override",
            metavar="BREAKER",
            help="A breaker that this one run may pass over, because its numbers are right. May be "
            "given again; needs --why.",
            show_default=False,
        ),
    ] = None,
    why: Annotated[
        str, typer.Option("--why", help="Why; it is recorded.", show_default=False)
    ] = "",
    rehearsed: Annotated[
        str | None,
        typer.Option(
            "--rehearsed",
            metavar="HASH",
            help="What filejobs rehearse printed last: the first live run by changed sources or "
            "rules asks for it.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the record as JSON, for programs.")
    ] = False,
    log: Annotated[
        bool, typer.Option("--log", help="Show Dagster's log on standard error.")
    ] = False,
) -> None:
    """Run a job now, in this process, and show its record.

    It is what `dagster job execute` does: the same code, the same locks and checks, the same
    record, on the instance of DAGSTER_HOME if that is set. Dry is the default, whatever the
    settings say; they still decide the limits, and `allow_live: false` forbids a live run.

    On a terminal it shows how far it is. Ctrl-C stops it within its batch; it is recorded then,
    too. One that a day was missed by is taken by `filejobs backfill`.

    [bold]Examples[/bold]
      filejobs run upload_reservations
      filejobs run upload_reservations --live --limit 100
      filejobs run storage_orphans --override orphan_fraction --why "years of leftovers, looked at"

    [bold]Exit codes[/bold]
      0    it ran, and succeeded
      1    refused or failed, with the reason on standard error
      64   called wrongly
      130  interrupted
    """
    invocation = Invocation.of(context)
    name = job_named(job, "JOB")
    loaded = invocation.read()
    settings = loaded.settings
    if settings is None:
        refuse(loaded, terminal.FAILED)
    if name not in settings.jobs:
        print_error(
            f"{name} does not stand under `jobs:` in {loaded.path}, so nothing says how it should "
            "run. Add it there, with a `schedule` or with `by_hand: true`. Nothing was run."
        )
        raise typer.Exit(terminal.FAILED)
    if BY_NAME[name].watched:
        print_error(f"{name} is watched: something else runs it. Nothing was run.")
        raise typer.Exit(terminal.FAILED)
    config: dict[str, Any] = {} if BY_NAME[name].read_only else {"dry_run": not live}
    if live and BY_NAME[name].read_only:
        raise typer.BadParameter(f"{name} changes nothing in any mode", param_hint="--live")
    if bool(override) != bool(why):
        raise typer.BadParameter("say both: --override BREAKER --why '…'", param_hint="--override")
    said = {
        "limit": limit,
        "rehearsed": rehearsed,
        "override": {"breakers": override, "reason": why} if override else None,
    }
    for option, value in said.items():
        if value is not None:
            from filejobs_dagster.orchestration.config import choices  # noqa: PLC0415 (Dagster)

            if option not in {choice.name for choice in choices(BY_NAME[name].request)}:
                raise typer.BadParameter(f"{name} has no {option}", param_hint=f"--{option}")
            config[option] = value
    run_id, error = _run(invocation, loaded, settings, config, name, log=log)
    _tell(invocation, settings, run_id, error, live=live, as_json=as_json)


def _run(
    invocation: Invocation,
    loaded: Loaded,
    settings: Settings,
    config: dict[str, Any],
    job: str,
    *,
    log: bool,
) -> tuple[str, str | None]:
    """Execute the job and record it; its id, and why it failed."""
    run_id = str(uuid.uuid4())
    with quiet(), instance_here(invocation) as instance:
        from filejobs_dagster.orchestration.in_process import execute_here, record_here  # noqa: PLC0415

        try:
            with _showing_progress(settings, job, run_id):
                error, _ = execute_here(
                    instance, loaded, job, config, run_id=run_id,
                    log_level="DEBUG" if log else "CRITICAL",
                )  # fmt: skip
        finally:
            # Where the database is away, the run's own error says so already.
            with suppress(psycopg.Error, DatabaseUnavailable):
                record_here(instance, settings, run_id)
    return run_id, error


@contextmanager
def _showing_progress(settings: Settings, job: str, run_id: str) -> Iterator[None]:
    """Show on a terminal what the run has committed so far."""
    if not sys.stderr.isatty():
        yield
        return
    over = threading.Event()
    with Console(stderr=True).status(f"{job} begins …") as shown:

        def look() -> None:
            database = Database.of(settings.database)
            with (
                suppress(psycopg.Error, DatabaseUnavailable),
                database.connect("progress") as connection,
            ):
                while not over.wait(SECONDS_BETWEEN_LOOKS):
                    with database.transaction(connection, read_only=True) as cursor:
                        cursor.execute(_HOW_FAR, (run_id,))
                        row = cursor.fetchone()
                    if row is not None:
                        far = f"scanned {number(row[0])}, acted on {number(row[1])}"
                        shown.update(f"{job}: {far}")

        watcher = threading.Thread(target=look, name="filejobs-progress", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join(timeout=5)


def _tell(
    invocation: Invocation,
    settings: Settings,
    run_id: str,
    error: str | None,
    *,
    live: bool,
    as_json: bool,
) -> None:
    database = Database.of(settings.database)
    found = []
    try:
        with (
            database.connect("run") as connection,
            database.transaction(connection, read_only=True) as cursor,
        ):
            found = runs_named(cursor, settings.installation, run_id)
    except (psycopg.Error, DatabaseUnavailable):
        if error is None:
            raise
    if error is not None:
        print_error(sanitize(error, known=invocation.secrets))
    if not found:
        print_error(f"Run {run_id} has no record yet; `filejobs mirror` writes it.")
    lacks = error is not None and "InsufficientPrivilege" in error
    if lacks or not found:
        with suppress(psycopg.Error, DatabaseUnavailable):
            _tell_cure(settings, database, surely=lacks)
    if found and as_json:
        print_json(run_document(found[0], invocation.secrets))
    elif found:
        print_runs(found, invocation.secrets, full=False)
    refused = live and bool(found) and found[0].mode == "dry"
    if refused:
        why = sanitize(str(found[0].detail.get("mode_reason")), known=invocation.secrets)
        print_error(f"This run was dry, and changed nothing: {why}.")
    if error is not None or not found or refused:
        raise typer.Exit(terminal.FAILED)


def _tell_cure(settings: Settings, database: Database, *, surely: bool) -> None:
    """Print the statements that are missing, where the rights on the project's tables are it."""
    from filejobs_dagster.doctor.rights import cure  # noqa: PLC0415 (only then)

    with (
        database.connect("run") as connection,
        database.transaction(connection, read_only=True) as cursor,
    ):
        said = cure(cursor, settings)
    if said is not None or surely:
        yours = "`filejobs doctor` prints the rights that it lacks on tables of your own."
        print_error(said or yours)


# `filejobs open`: where a run is to be seen in the web UI.

VARIABLE = "FILEJOBS_WEB_URL"
USUAL = "http://127.0.0.1:3000"
"""Where `dagster dev`, `filejobs dev` and the containers listen."""


def open_run(
    context: typer.Context,
    run: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN",
            help="A run's id, or how it begins. Without it the newest recorded run.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Print the address of a run's page in the web UI.

    FILEJOBS_WEB_URL says where the web UI is, as people reach it (https://dagster.example.com/ops);
    without it, this machine's port 3000. Looks into job_run, and asks no web UI anything.

    [bold]Examples[/bold]
      filejobs open
      filejobs open 1b935eea
      xdg-open "$(filejobs open)"

    [bold]Exit codes[/bold]
      0   printed
      1   no such run is recorded, or more than one
      64  called wrongly
    """
    invocation = Invocation.of(context)
    settings = invocation.require()
    database = Database.of(settings.database)
    with (
        database.connect("open") as connection,
        database.transaction(connection, read_only=True) as cursor,
    ):
        if run is None:
            found = newest_runs(cursor, settings.installation, limit=1)
        else:
            found = runs_named(cursor, settings.installation, run)
    if len(found) != 1:
        which = f"begins with {run!r}" if run is not None else "is recorded"
        many = "More than one run" if found else f"No run of {settings.installation}"
        print_error(f"{many} {which}. `filejobs runs` lists them.")
        raise typer.Exit(terminal.FAILED)
    base = os.environ.get(VARIABLE, "").strip() or USUAL
    typer.echo(f"{base.rstrip('/')}/runs/{found[0].run_id}")
