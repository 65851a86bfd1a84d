"""`filejobs mirror`: gives every finished run its record now."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import psycopg
import typer

from filejobs_dagster.cli import terminal
from filejobs_dagster.cli.failures import expected_failure
from filejobs_dagster.cli.terminal import Invocation, print_error, print_json
from filejobs_dagster.ledger.mirror import FinishedRun, OpenRun, open_runs
from filejobs_dagster.ledger.mirror import mirror as record
from filejobs_dagster.postgres.connect import Database, DatabaseUnavailable
from filejobs_dagster.text import sanitize_exception

if TYPE_CHECKING:
    from filejobs_dagster.orchestration.reconcile import Reconciled
    from filejobs_dagster.settings import Settings

HOME_VARIABLE = "DAGSTER_HOME"
BUDGET = timedelta(minutes=5)
"""Of one call of the reconciler; it is called again until nothing is left."""

WITHOUT_HOME = (
    f"{HOME_VARIABLE} is not set, so Dagster's own runs cannot be read: set it to the directory "
    "that holds dagster.yaml. What the runs themselves left in the database is recorded all the "
    "same; a run that never started is not among it."
)


def mirror(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Give every finished run its record in job_run, now.

    The sensors of the daemon do this by themselves. Call it after `dagster job execute` without a
    daemon, or from cron while the daemon is down. Calling it often, or from several places at once,
    does no harm: each run gets one record.

    Reads filejobs.yaml, Dagster's run storage (through DAGSTER_HOME) and job_progress; writes
    job_run. It also ends runs that Dagster still calls started although their process is gone.
    Such a run must have been silent at two looks two minutes apart, so it takes two calls.

    [bold]Examples[/bold]
      DAGSTER_HOME=/srv/dagster filejobs mirror
      filejobs mirror      (without DAGSTER_HOME: only what runs left themselves)

    [bold]Exit codes[/bold]
      0   every finished run has its record
      1   one could not be recorded (call again: nothing is lost), the settings
          are wrong, or a database does not answer
    """
    invocation = Invocation.of(context)
    settings = invocation.require()
    if os.environ.get(HOME_VARIABLE, "").strip():
        recorded, ended, failed = _with_dagster(settings, invocation)
    else:
        print_error(WITHOUT_HOME)
        recorded, failed = _without_dagster(settings, invocation.secrets)
        ended = []
    if as_json:
        print_json({"recorded": recorded, "ended": ended, "not_recorded": failed})
    else:
        _tell(recorded, ended, failed)
    if failed:
        raise typer.Exit(terminal.FAILED)


def _with_dagster(
    settings: Settings, invocation: Invocation
) -> tuple[list[str], list[str], dict[str, str]]:
    recorded: list[str] = []
    ended: list[str] = []
    with _quiet():
        done = _reconcile(settings, invocation)
        while True:
            recorded += done.recorded
            ended += done.ended
            if done.complete or done.failed:
                return recorded, ended, done.failed
            done = _reconcile(settings, invocation)


def _reconcile(settings: Settings, invocation: Invocation) -> Reconciled:
    import dagster as dg  # noqa: PLC0415 (seconds, which no other command should wait for)

    from filejobs_dagster.orchestration.reconcile import reconcile  # noqa: PLC0415

    invocation.hide(os.environ.get("FILEJOBS_DAGSTER_URL", ""))
    try:
        with dg.DagsterInstance.get() as instance:
            return reconcile(instance, settings, budget=BUDGET)
    except (psycopg.Error, DatabaseUnavailable):
        raise
    except Exception as error:
        said = sanitize_exception(error, known=invocation.secrets)
        print_error(
            f"Dagster's run storage could not be read ({said}). Check that {HOME_VARIABLE} is the "
            "absolute path of the directory with dagster.yaml, and that the storage it names "
            "answers; `filejobs doctor` looks closer. Nothing was lost."
        )
        raise typer.Exit(terminal.FAILED) from error


def _without_dagster(
    settings: Settings, secrets: tuple[str, ...]
) -> tuple[list[str], dict[str, str]]:
    """Record what the runs left behind themselves.

    The watermark stays where it is: Dagster's storage was not read.
    """
    database = Database.of(settings.database)
    recorded: list[str] = []
    failed: dict[str, str] = {}
    with database.connect("mirror") as connection:
        for run in open_runs(database, connection, settings.installation):
            if not (run.final or run.lost):
                continue
            try:
                if record(database, connection, _finished(run, settings.installation, secrets)):
                    recorded.append(run.run_id)
            except psycopg.Error as error:
                if connection.closed:
                    raise
                failed[run.run_id] = expected_failure(error, secrets) or type(error).__name__
    return recorded, failed


def _finished(run: OpenRun, installation: str, secrets: tuple[str, ...]) -> FinishedRun:
    return FinishedRun(
        run_id=run.run_id,
        installation=installation,
        job=run.job,
        ended="lost" if run.lost else "unseen",
        trigger=run.trigger,
        created_at=run.started_at,
        known_secrets=secrets,
    )


def _tell(recorded: list[str], ended: list[str], failed: dict[str, str]) -> None:
    for run_id in recorded:
        typer.echo(f"recorded {run_id}")
    for run_id in ended:
        typer.echo(f"ended in Dagster, because it is lost: {run_id}")
    for run_id, reason in failed.items():
        print_error(f"not recorded {run_id}: {reason}")
    if not recorded and not failed:
        typer.echo("nothing to do: every finished run has its record")


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dagster's log lines and deprecation warnings out of a command's output."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
