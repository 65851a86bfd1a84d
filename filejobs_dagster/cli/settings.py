"""`filejobs settings`: is the file right, and what may stand in it."""

from __future__ import annotations

import sys
from dataclasses import asdict
from datetime import datetime, timezone
from typing import Annotated

import typer

from filejobs_dagster.cli import terminal
from filejobs_dagster.cli.lazy import help_when_alone
from filejobs_dagster.cli.terminal import Invocation, print_json, refuse
from filejobs_dagster.settings.cron import longest_pause, odd_days
from filejobs_dagster.text import format_duration

app = typer.Typer(
    help="Checks filejobs.yaml, and prints its JSON Schema. Changes nothing.",
    rich_markup_mode="rich",
    add_completion=False,
)


@app.callback(invoke_without_command=True)
def _settings(context: typer.Context) -> None:
    help_when_alone(context)


@app.command()
def check(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Read filejobs.yaml and name every mistake in it, not only the first.

    Reads the file and the environment variables that it names; connects to nothing and changes
    nothing. `filejobs doctor` goes on from here.

    [bold]Examples[/bold]
      filejobs settings check
      filejobs --config staging.yaml settings check

    [bold]Exit codes[/bold]
      0   the file is right
      1   it has mistakes: each is named on standard error, with its path, what
          was found and what would be right
    """
    loaded = Invocation.of(context).read()
    settings = loaded.settings
    if as_json:
        mistakes = [asdict(problem) for problem in loaded.problems]
        print_json({"path": loaded.path, "right": settings is not None, "mistakes": mistakes})
        if settings is None:
            raise typer.Exit(terminal.FAILED)
        return
    if settings is None:
        refuse(loaded, terminal.FAILED)
    jobs = [
        f"{name} ({job.mode}, {'by hand' if job.by_hand else f'{job.schedule} {job.time_zone}'})"
        for name, job in settings.jobs.items()
    ]
    live = "" if settings.allow_live else "\nallow_live is off: every run is dry."
    typer.echo(
        f"The settings of {settings.installation} are right.\n"
        f"  buckets: {', '.join(settings.buckets) or 'none'}\n"
        f"  jobs:    {', '.join(jobs) or 'none'}{live}"
    )
    today = datetime.now(timezone.utc)
    for name, job in settings.jobs.items():
        pause = longest_pause(job.schedule)
        if pause is not None and job.stale_after is not None and job.stale_after < pause:
            typer.echo(
                f"  {name}: its schedule pauses for {format_duration(pause)}, longer than "
                f"stale_after {format_duration(job.stale_after)}: it is stale in every such pause"
            )
        if job.schedule is not None:
            for day in odd_days(job.schedule, job.time_zone, today):
                typer.echo(f"  {name}, {job.time_zone}, {day}")


@app.command()
def schema() -> None:
    """Print the JSON Schema of filejobs.yaml, with which editors complete and check it.

    Reads nothing and changes nothing.

    [bold]Example[/bold]
      filejobs settings schema > filejobs.schema.json
      The first line of filejobs.yaml then names it:
      # yaml-language-server: $schema=filejobs.schema.json

    [bold]Exit code[/bold]
      0   always
    """
    from filejobs_dagster.settings.schema import (  # noqa: PLC0415 (only this command needs it)
        settings_json_schema_text,
    )

    sys.stdout.write(settings_json_schema_text())
