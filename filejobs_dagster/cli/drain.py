"""`filejobs drain`: lets runs end and holds the others back while the code server is replaced."""

from __future__ import annotations

import signal
import subprocess
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from filejobs_dagster.cli import terminal
from filejobs_dagster.cli.instance import opened_instance
from filejobs_dagster.cli.terminal import Invocation, operator_name, print_error
from filejobs_dagster.settings.values import parse_duration

if TYPE_CHECKING:
    import dagster as dg

QUIET = 10.0
"""Seconds without a run at work: several looks of the daemon, which may be taking one right now."""

BETWEEN_LOOKS = 1.0


def drain(
    context: typer.Context,
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- COMMAND …]",
            help="What replaces the code server; run when nothing is at work.",
            show_default=False,
        ),
    ] = None,
    within: Annotated[
        str, typer.Option("--within", metavar="DURATION", help="How long to wait for runs.")
    ] = "6h30m",
    resume: Annotated[
        bool, typer.Option("--resume", help="Let the queue go on, and do nothing else.")
    ] = False,
) -> None:
    """Replace the code server without a run that fails: hold, wait, act, go on.

    Holds Dagster's queue, of every installation on this instance: what schedules, sensors,
    backfills, retries and people start meanwhile waits in it. Waits until no run is at work, runs
    the command, and lets the queue go on, also when the command failed or this one is stopped.
    Without a command, or after SIGKILL, the queue stays held until `filejobs drain --resume`;
    `filejobs status`, the doctor and the sensor job_freshness say so. Needs DAGSTER_HOME, and
    Dagster's own queue as the project's dagster.yaml has it.

    [bold]Examples[/bold]
      filejobs drain -- docker compose up --detach --wait
      filejobs drain --within 30m
      filejobs drain --resume

    [bold]Exit codes[/bold]
      0   drained, and the queue goes on or is held, as it says
      1   runs were still at work in the end, or the instance is not there;
          else what the command exited with
      64  called wrongly
    """
    try:
        longest = parse_duration(within)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--within") from None
    if resume and command:
        raise typer.BadParameter("it takes no command", param_hint="--resume")
    invocation = Invocation.of(context)
    with opened_instance(invocation, "the queue is Dagster's") as instance:
        if resume:
            _resume(instance)
            return
        _drain(instance, longest, command or [])


def _drain(instance: dg.DagsterInstance, longest: timedelta, command: list[str]) -> None:
    from filejobs_dagster.orchestration import draining  # noqa: PLC0415 (imports Dagster)

    held = draining.pause(instance, operator_name())
    if not draining.holds(instance):
        draining.resume(instance)
        print_error(
            f"The queue of this instance ({type(instance.run_coordinator).__name__}) cannot be "
            "held. Write `run_coordinator` with its limits into dagster.yaml as the project's file "
            "has it, and nothing under `concurrency: runs:`; restart daemon and webserver, and "
            "call this again. Nothing was done."
        )
        raise typer.Exit(terminal.FAILED)
    code = terminal.FAILED
    # Ended by a signal, or with the terminal that it was typed in, it lets go all the same.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        typer.echo(f"From now on {held}.")
        if _wait(instance, longest):
            code = terminal.OK
            if command:
                code = subprocess.run(command, check=False).returncode
    finally:
        if command:
            _resume(instance)
        else:
            typer.echo("It stays held. To let it go on: filejobs drain --resume")
    raise typer.Exit(code)


def _wait(instance: dg.DagsterInstance, longest: timedelta) -> bool:
    """Wait until nothing is at work; say what is, whenever that changes."""
    from filejobs_dagster.orchestration import draining  # noqa: PLC0415

    ends = time.monotonic() + longest.total_seconds()
    said: list[str] | None = None
    quiet_since = time.monotonic()
    while True:
        names = sorted(f"{run.job_name} ({run.run_id})" for run in draining.runs_at_work(instance))
        if names:
            quiet_since = time.monotonic()
        if names != said:
            waiting = draining.runs_waiting(instance)
            typer.echo(f"At work: {', '.join(names) or 'nothing'}. In the queue: {waiting}.")
            said = names
        if time.monotonic() - quiet_since >= QUIET:
            return True
        if time.monotonic() > ends:
            print_error(
                f"Still at work: {', '.join(names) or 'nothing, but only just'}. Wait for them "
                "longer with --within, or terminate them in the web UI: each stops within its "
                "batch, and the next run goes on from there."
            )
            return False
        time.sleep(BETWEEN_LOOKS)


def _resume(instance: dg.DagsterInstance) -> None:
    from filejobs_dagster.orchestration import draining  # noqa: PLC0415

    held = draining.resume(instance)
    waiting = draining.runs_waiting(instance)
    was = "it was not held" if held is None else f"it was held by {held.by}"
    typer.echo(f"The queue goes on ({was}). In the queue: {waiting}.")
