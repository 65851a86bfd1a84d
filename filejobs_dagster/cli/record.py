"""`filejobs record`: runs a command of somebody's own cron, and records how it ended."""

from __future__ import annotations

import logging
import os
import signal
import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import psycopg
import typer

from filejobs_dagster.cli import terminal
from filejobs_dagster.cli.arguments import job_named, reporting_job_names
from filejobs_dagster.cli.terminal import Invocation, print_error
from filejobs_dagster.text import sanitize_exception

if TYPE_CHECKING:
    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.run_context import RunContext
    from filejobs_dagster.settings import Settings


def record(
    context: typer.Context,
    job: Annotated[
        str,
        typer.Argument(
            metavar="JOB",
            help="A watched job of the settings.",
            autocompletion=reporting_job_names,
            show_default=False,
        ),
    ],
    command: Annotated[
        list[str],
        typer.Argument(
            metavar="-- COMMAND...",
            help="The program and its arguments; no shell reads them.",
            show_default=False,
        ),
    ],
) -> None:
    """Run a command as it is, and record when it began and how it ended.

    For a cron that stays where it is. JOB stands under own_jobs with reports: true. The command has
    the variables, input and output of this one. It is ended together with it.

    Where the database is away the command runs all the same, and nothing is recorded but a line on
    standard error: the job becomes stale, which is what is told then.

    A second one beside the first is not started.

    [bold]Examples[/bold]
      filejobs record own_backup -- pg_dump --file /backup/app.sql app

    [bold]Exit codes[/bold]
      that of the command; 1 when it was not started, 128 and the signal when one ended it
    """
    name = job_named(job, "JOB")
    invocation = Invocation.of(context)
    settings = invocation.require()
    from filejobs_dagster.jobs.own.settings import WatchedReportsSettings  # noqa: PLC0415 (slow)

    if not isinstance(settings.jobs.get(name), WatchedReportsSettings):
        print_error(f"{name} does not stand under `own_jobs:` with reports: true. Nothing was run.")
        raise typer.Exit(terminal.FAILED)
    # Told to end, the command ends first, and its record says so.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    raise typer.Exit(_Recorded(settings, invocation.secrets, name, command).run())


class _Recorded:
    def __init__(
        self, settings: Settings, secrets: tuple[str, ...], job: str, command: list[str]
    ) -> None:
        self._settings = settings
        self._secrets = secrets
        self._job = job
        self._command = command
        self._code: int | None = None

    def run(self) -> int:
        from filejobs_dagster.jobs.lifecycle import (  # noqa: PLC0415 (the same)
            NotRecorded,
            RunSpec,
            run_job,
        )
        from filejobs_dagster.ledger.outcome import Trigger  # noqa: PLC0415
        from filejobs_dagster.ledger.progress import GivenUp, RunIdentity  # noqa: PLC0415
        from filejobs_dagster.ledger.reports import record as write  # noqa: PLC0415
        from filejobs_dagster.orchestration.tags import holder  # noqa: PLC0415
        from filejobs_dagster.postgres.connect import (  # noqa: PLC0415
            Database,
            DatabaseUnavailable,
        )
        from filejobs_dagster.run_context import JobFailed  # noqa: PLC0415 (psycopg)

        database = Database.of(self._settings.database)
        identity = RunIdentity(
            run_id=str(uuid.uuid4()),
            installation=self._settings.installation,
            job=self._job,
            mode="live",
            trigger=Trigger("cli"),
            holder=holder(),
        )
        run_spec = RunSpec(identity, known_secrets=self._secrets, settings=self._settings.digest)
        log = logging.getLogger("filejobs.record")
        try:
            outcome = run_job(run_spec, database, self._work, log, door=None)
            if self._code is None:
                print_error(outcome.error or "The command was not started.")
        except (psycopg.Error, DatabaseUnavailable, NotRecorded, GivenUp) as error:
            said = sanitize_exception(error, known=self._secrets)
            print_error(f"{self._job}: this run is not recorded: {said}")
            if self._code is None:
                try:
                    self._start()
                except JobFailed as unable:
                    print_error(str(unable))
        try:
            with database.connect("record") as connection:
                write(database, connection, identity, self._secrets)
        except (psycopg.Error, DatabaseUnavailable):
            print_error(f"{self._job}: `filejobs mirror` or the daemon writes the record later.")
        if self._code is None:
            return terminal.FAILED
        return self._code if self._code >= 0 else 128 - self._code

    def _work(self, context: RunContext) -> Outcome:
        from filejobs_dagster.ledger.outcome import Outcome  # noqa: PLC0415

        del context
        code = self._start()
        if code == 0:
            return Outcome(detail={"swept": True})
        how = f"exit code {code}" if code > 0 else f"signal {-code}"
        return Outcome(error=f"{self._command[0]} ended with {how}.", detail={"swept": False})

    def _start(self) -> int:
        from filejobs_dagster.jobs.own.foreign import run_command  # noqa: PLC0415

        with tempfile.TemporaryDirectory(prefix="filejobs-record-") as folder:
            code, _ = run_command(self._command, os.environ, Path(folder), quiet=False)
        self._code = code if code is not None else terminal.FAILED
        return self._code
