"""`filejobs open`: where a run is to be seen in the web UI."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from filejobs_dagster.cli import exits
from filejobs_dagster.cli.invocation import Invocation
from filejobs_dagster.cli.output import print_error
from filejobs_dagster.ledger.runs import newest_runs, runs_named
from filejobs_dagster.postgres.connect import Database

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
        raise typer.Exit(exits.FAILED)
    base = os.environ.get(VARIABLE, "").strip() or USUAL
    typer.echo(f"{base.rstrip('/')}/runs/{found[0].run_id}")
