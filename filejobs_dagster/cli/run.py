"""`filejobs run`: one run in this process, and its record."""

from __future__ import annotations

import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any

import psycopg
import typer
from rich.console import Console

from filejobs_dagster.cli import exits
from filejobs_dagster.cli.completion import job_names
from filejobs_dagster.cli.instance import instance_here, quiet
from filejobs_dagster.cli.invocation import Invocation, refuse
from filejobs_dagster.cli.output import print_error, print_json
from filejobs_dagster.cli.runs import print_runs, run_document
from filejobs_dagster.cli.words import job_named, number
from filejobs_dagster.ledger.runs import runs_named
from filejobs_dagster.ledger.sanitize import sanitize
from filejobs_dagster.postgres.connect import Database, DatabaseUnavailable
from filejobs_dagster.registry import BY_NAME

if TYPE_CHECKING:
    from filejobs_dagster.settings import Loaded, Settings

SECONDS_BETWEEN_LOOKS = 1.0

_HOW_FAR = "SELECT scanned, acted FROM job_progress WHERE run_id = %s"


def run(
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
      filejobs run storage_orphans --json

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
        refuse(loaded, exits.FAILED)
    if name not in settings.jobs:
        print_error(
            f"{name} does not stand under `jobs:` in {loaded.path}, so nothing says how it should "
            "run. Add it there, with a `schedule` or with `by_hand: true`. Nothing was run."
        )
        raise typer.Exit(exits.FAILED)
    if BY_NAME[name].watched:
        print_error(f"{name} is watched: something else runs it. Nothing was run.")
        raise typer.Exit(exits.FAILED)
    config: dict[str, Any] = {} if BY_NAME[name].read_only else {"dry_run": not live}
    if live and BY_NAME[name].read_only:
        raise typer.BadParameter(f"{name} changes nothing in any mode", param_hint="--live")
    if limit is not None:
        from filejobs_dagster.orchestration.config import choices  # noqa: PLC0415 (Dagster)

        if "limit" not in {choice.name for choice in choices(BY_NAME[name].request)}:
            raise typer.BadParameter(f"{name} has no limit", param_hint="--limit")
        config["limit"] = limit
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
        from filejobs_dagster.orchestration.by_hand import (  # noqa: PLC0415 (imports Dagster)
            execute_here,
            record_here,
        )

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
        if "InsufficientPrivilege" in error:
            _tell_cure(settings, database)
    if not found:
        print_error(f"Run {run_id} has no record yet; `filejobs mirror` writes it.")
    elif as_json:
        print_json(run_document(found[0], invocation.secrets))
    else:
        print_runs(found, invocation.secrets, full=False)
    refused = live and bool(found) and found[0].mode == "dry"
    if refused:
        why = sanitize(str(found[0].detail.get("mode_reason")), known=invocation.secrets)
        print_error(f"This run was dry, and changed nothing: {why}.")
    if error is not None or not found or refused:
        raise typer.Exit(exits.FAILED)


def _tell_cure(settings: Settings, database: Database) -> None:
    """Print the statements that are missing, where the rights on the project's tables are it."""
    from filejobs_dagster.doctor.rights import cure  # noqa: PLC0415 (only then)

    with (
        database.connect("run") as connection,
        database.transaction(connection, read_only=True) as cursor,
    ):
        said = cure(cursor, settings)
    print_error(said or "`filejobs doctor` prints the rights that it lacks on tables of your own.")
