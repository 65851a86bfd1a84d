"""`filejobs apply`: removes what a reviewed list and a fresh check agree on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from filejobs_dagster.cli import terminal
from filejobs_dagster.cli.instance import has_home, instance_here
from filejobs_dagster.cli.mirror import HOME_VARIABLE
from filejobs_dagster.cli.terminal import Invocation, print_error, refuse
from filejobs_dagster.jobs.storage_orphans.settings import JOB
from filejobs_dagster.text import sanitize

if TYPE_CHECKING:
    from filejobs_dagster.settings import Loaded

SCHEME = "s3://"


def apply(
    context: typer.Context,
    report: Annotated[
        str,
        typer.Argument(
            metavar="REPORT",
            help="A list that a run wrote and somebody has reviewed: a file, or s3://BUCKET/KEY.",
            show_default=False,
        ),
    ],
    live: Annotated[
        bool, typer.Option("--live", help="Remove. Without it the run only says what it would do.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option("--limit", min=1, help="Most objects to remove.", show_default=False),
    ] = None,
) -> None:
    """Run storage_orphans on what a reviewed list says to remove, and on nothing else.

    The run lists the bucket and reads all references as any other does. It removes an object only
    when the list says `remove`, when the object is the one that the list names (ETag, size, time),
    when it is an orphan still, and when an earlier run saw it long enough ago: the run that wrote
    the list counts. Breakers, the bucket's marker and every check before a deletion stay in force.
    A list of another bucket, of another installation, of other rules or from weeks ago is refused.

    It runs in this process, as `dagster job execute` would, on the instance of DAGSTER_HOME.
    Without that the run is recorded by `filejobs mirror`.

    [bold]Examples[/bold]
      filejobs apply /var/lib/filejobs/reports/storage_orphans-20250101T030000Z-1a2b3c4d.csv
      filejobs apply reviewed.csv --live --limit 500

    [bold]Exit codes[/bold]
      0  done, or nothing was to be done
      1  refused or failed; the message says why, and what was removed before
    """
    invocation = Invocation.of(context)
    loaded = invocation.read()
    if loaded.settings is None:
        refuse(loaded, terminal.FAILED)
    where = report if report.startswith(SCHEME) else str(Path(report).resolve())
    config: dict[str, Any] = {"dry_run": not live, "reviewed": where}
    if limit is not None:
        config["limit"] = limit
    error, facts = _run(loaded, config, invocation)
    if error is not None:
        print_error(sanitize(error, known=invocation.secrets))
        raise typer.Exit(terminal.FAILED)
    _tell(facts, asked_live=live)


def _run(
    loaded: Loaded, config: dict[str, Any], invocation: Invocation
) -> tuple[str | None, dict[str, Any]]:
    """Execute the job in this process; what went wrong, and what its page shows."""
    from filejobs_dagster.orchestration.in_process import execute_here  # noqa: PLC0415 (Dagster)

    if not has_home():
        print_error(
            f"{HOME_VARIABLE} is not set, so Dagster keeps nothing of this run. `filejobs mirror` "
            "records it."
        )
    with instance_here(invocation) as instance:
        return execute_here(instance, loaded, JOB, config)


def _tell(facts: dict[str, Any], *, asked_live: bool) -> None:
    live = facts.get("mode") == "live"
    if live:
        acted, freed = facts.get("acted", 0), facts.get("bytes_freed", 0)
        marked = facts.get("marked", 0)
        only = f"; {marked:,} got a delete marker, which frees nothing" if marked else ""
        if kept := facts.get("quarantined", 0):
            only += f"; {kept:,} lie in quarantine, which frees nothing"
        typer.echo(f"removed {acted:,} objects, {freed:,} bytes freed{only}")
    else:
        would = facts.get("would_collect", 0)
        then = "--live removes them" if would else "the log says why"
        typer.echo(f"would remove {would:,} objects" + ("" if asked_live else f"; {then}"))
    typer.echo(str(facts.get("explained", "")))
    if asked_live and not live:
        print_error(f"This run was dry, and removed nothing: {facts.get('mode_reason')}.")
        raise typer.Exit(terminal.FAILED)
