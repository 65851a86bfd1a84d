"""The entry point of `filejobs`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from filejobs_dagster.cli.lazy import LazyGroup, help_when_alone
from filejobs_dagster.cli.terminal import Invocation


class Commands(LazyGroup):
    """Every command."""

    places: ClassVar[Mapping[str, str]] = {
        "demo": "filejobs_dagster.cli.demo:demo",
        "dev": "filejobs_dagster.cli.demo:dev",
        "prove": "filejobs_dagster.cli.prove:prove",
        "scan": "filejobs_dagster.cli.scan:scan",
        "init": "filejobs_dagster.cli.init:init",
        "preset": "filejobs_dagster.cli.preset:app",
        "migrate": "filejobs_dagster.cli.migrate:migrate",
        "grants": "filejobs_dagster.cli.grants:grants",
        "doctor": "filejobs_dagster.cli.doctor:doctor",
        "bucket": "filejobs_dagster.cli.bucket:app",
        "rehearse": "filejobs_dagster.cli.rehearse:rehearse",
        "apply": "filejobs_dagster.cli.apply:apply",
        "verify": "filejobs_dagster.cli.verify:verify",
        "audit": "filejobs_dagster.cli.audit:app",
        "run": "filejobs_dagster.cli.run:run",
        "open": "filejobs_dagster.cli.run:open_run",
        "status": "filejobs_dagster.cli.status:status",
        "runs": "filejobs_dagster.cli.run:runs",
        "retention": "filejobs_dagster.cli.retention:retention",
        "hold": "filejobs_dagster.cli.hold:hold",
        "release": "filejobs_dagster.cli.hold:release",
        "restore": "filejobs_dagster.cli.restore:restore",
        "backup": "filejobs_dagster.cli.backup:app",
        "mute": "filejobs_dagster.cli.hold:mute",
        "unmute": "filejobs_dagster.cli.hold:unmute",
        "backfill": "filejobs_dagster.cli.backfill:backfill",
        "drain": "filejobs_dagster.cli.drain:drain",
        "uploads": "filejobs_dagster.cli.uploads:app",
        "alert": "filejobs_dagster.cli.alert:alert",
        "metrics": "filejobs_dagster.cli.metrics:metrics",
        "record": "filejobs_dagster.cli.record:record",
        "mirror": "filejobs_dagster.cli.mirror:mirror",
        "serve-trigger": "filejobs_dagster.cli.serve_trigger:serve_trigger",
        "live": "filejobs_dagster.cli.health:live",
        "ready": "filejobs_dagster.cli.health:ready",
        "settings": "filejobs_dagster.cli.settings:app",
        "man": "filejobs_dagster.cli.manual:man",
    }


HELP = """
Collects what a file feature leaves behind, and shows whether the collecting happened.

Settings come from filejobs.yaml, secrets from the environment variables that it names.
Jobs are started by Dagster; the commands here look, prepare and explain.

[bold]A first look, without any server[/bold]
  filejobs demo             a collector at work, on servers made for it
  filejobs prove            what careless collectors lose, on a real PostgreSQL

  filejobs scan             which columns of your database name the objects of
                            your bucket, and what nothing names; it only reads

[bold]Your own installation[/bold]
  filejobs init             write a first filejobs.yaml, all of it dry
  filejobs preset list      settings for applications that many teams run
  filejobs settings check   is filejobs.yaml right?
  filejobs migrate          make or update the project's tables
  filejobs grants           the SQL for the rights of each role
  filejobs bucket policy    the same for the bucket
  filejobs doctor           does everything that the jobs need answer?
  filejobs rehearse         the real sweep on a copy: what would go, what must stay
  filejobs bucket adopt     take a bucket into use for what sweeps it

[bold]Every day[/bold]
  filejobs run JOB          run a job now, dry, and show its record; --live removes
  filejobs open RUN         the address of a run in the web UI
  filejobs status           where does each job stand?
  filejobs status --check   the same, for monitoring
  filejobs runs --failed    what went wrong?
  filejobs alert --show     what is somebody told of?
  filejobs record JOB -- …  run a command of your own cron, and record how it ended
  filejobs hold JOB --why … let no live run go on, until filejobs release JOB
  filejobs restore --run …  bring back what a run has deleted
  filejobs backup check     would a backup come back, and was this database restored?
  filejobs mute JOB --for … tell nobody of its alerts for a while
  filejobs retention        what is kept for how long, and what is due now?
  filejobs backfill JOB     take single days, one after the other
  filejobs uploads dead     cancelled uploads that nobody tries to remove any more
  filejobs apply REPORT     remove the orphans of a list that somebody has reviewed
  filejobs verify           was the audit log changed?
  filejobs audit show FILE  what happened to one file?

[bold]In containers[/bold]
  filejobs live PROCESS     is code, webserver or daemon alive?
  filejobs ready PROCESS    can it do its work?
  filejobs drain -- COMMAND replace the code server while no run is at work

[bold]With every command[/bold]
  --json        what --format json says, where a command has that
  --quiet       print no answer; errors, and the exit code, remain
  --no-color    no colours, as NO_COLOR=1 in the environment
  filejobs man COMMAND | man -l -   its page; --to FOLDER writes all of them
  COLUMNS=100 before it folds what no terminal reads: widths that suit a mail

[bold]Exit codes[/bold] (status --check and verify have their own)
  0    done
  1    refused or failed, with the reason on standard error
  64   called wrongly
  70   a fault of the program; FILEJOBS_TRACEBACK=1 shows where
  130  interrupted
"""

app = typer.Typer(
    name="filejobs",
    cls=Commands,
    help=HELP,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib import metadata  # noqa: PLC0415 (only --version needs it)

        try:
            typer.echo(f"filejobs {metadata.version('filejobs_dagster')}")
        except metadata.PackageNotFoundError:
            typer.echo("filejobs, from a checkout that is not installed")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _filejobs(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            metavar="PATH",
            help="The settings file. Without it FILEJOBS_CONFIG names it, else ./filejobs.yaml.",
            show_default=False,
        ),
    ] = None,
    version: Annotated[
        bool,
        typer.Option("--version", "-V", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    del version
    Invocation.of(context).config = config
    help_when_alone(context)


def run() -> None:
    """Run `filejobs` with the arguments of this process."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            # A terminal that cannot show a character gets its number instead of a crash.
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="filejobs")
