"""What `filejobs backfill` does with Dagster's instance: list, cancel, start, resume."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from typing import TYPE_CHECKING, NoReturn

import typer

from filejobs_dagster.cli import backfill as words
from filejobs_dagster.cli import terminal
from filejobs_dagster.cli.terminal import console, operator_name, print_error, print_table
from filejobs_dagster.door.hold import hold_before
from filejobs_dagster.ledger.swept_days import done_by_backfills, swept_days
from filejobs_dagster.orchestration import tags
from filejobs_dagster.orchestration.launching import (
    CodeUnavailable,
    NoSuchBackfill,
    NoWorkspace,
    backfill_named,
    cancel_backfill,
    daemon_is_silent,
    newest_backfills,
    open_backfills,
    opened_place,
    request_backfill,
    workspace_path,
)
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.postgres.locks import lock_number

if TYPE_CHECKING:
    from pathlib import Path

    import dagster as dg

    from filejobs_dagster.ledger.outcome import Mode
    from filejobs_dagster.ledger.swept_days import SweptDays
    from filejobs_dagster.orchestration.launching import Backfill
    from filejobs_dagster.settings import Settings

MOST_WITHOUT_YES = 31
"""Days; a typing mistake in a year should not start hundreds of runs."""

SHOWN = 20
"""Backfills that --list shows."""


def refuse(text: str) -> NoReturn:
    """Say why nothing is started, and exit with 1."""
    print_error(text)
    raise typer.Exit(terminal.FAILED)


def refuse_mode(settings: Settings, job: str, mode: Mode) -> None:
    """Refuse a live backfill whose every run would be dry."""
    if mode != "live":
        return
    held = hold_before(Database.of(settings.database), settings.installation, job)
    if held is not None:
        refuse(f"{held}. Each run would be dry. To go on: {held.release}. Nothing was started.")
    if not settings.allow_live:
        refuse(
            "allow_live: false (or FILEJOBS_ALLOW_LIVE=0) forbids live runs, so each run would be "
            "dry. Leave --mode out to look, or lift the veto. Nothing was started."
        )


class Desk:
    """One call of the command."""

    def __init__(
        self,
        settings: Settings,
        instance: dg.DagsterInstance,
        workspace: Path | None,
        *,
        yes: bool,
    ) -> None:
        self._settings = settings
        self._instance = instance
        self._workspace = workspace
        self._yes = yes
        self._database = Database.of(settings.database)

    def show(self, job: str | None) -> None:
        """Print the newest backfills, of one job or of all."""
        found = newest_backfills(self._instance, self._settings.installation, limit=SHOWN, job=job)
        if found:
            print_table(console(), words.table_of(found))
        else:
            typer.echo("There is no backfill.")

    def cancel(self, backfill_id: str) -> None:
        """Ask the daemon to cancel what is left of a backfill."""
        found = self._named(backfill_id)
        if not cancel_backfill(self._instance, found, operator_name()):
            refuse(f"{backfill_id} is {found.state} already; there is nothing to cancel.")
        typer.echo(
            f"Asked to cancel {backfill_id}. The daemon takes its queued runs out, and the one at "
            "work stops within its batch. `filejobs backfill --list` shows when it is over; "
            f"`filejobs backfill --resume {backfill_id}` takes the rest."
        )
        self._warn_of_daemon()

    def start(self, job: str, asked: Sequence[date], mode: Mode, *, take_all: bool) -> None:
        """Ask for a backfill over the days that are missing, or over all of them."""
        refuse_mode(self._settings, job, mode)
        swept = self._swept(job, asked)
        days = tuple(asked) if take_all else swept.missing(asked)
        if not days:
            typer.echo(words.nothing_missing(job, asked, swept))
            return
        self._tell(job, mode, days, left_out=len(asked) - len(days))
        self._submit(job, days, mode, None)

    def resume(self, backfill_id: str) -> None:
        """Ask for a backfill over the days that an earlier one has left."""
        found = self._named(backfill_id)
        if found.ahead:
            refuse(
                f"{backfill_id} is {found.state} still. Wait for it, or cancel it first with "
                f"`filejobs backfill --cancel {backfill_id}`."
            )
        mode: Mode = "live" if found.mode == "live" else "dry"
        refuse_mode(self._settings, found.job, mode)
        days = self._left_of(found, mode)
        if not days:
            typer.echo(f"{backfill_id} has left nothing: each of its days is done.")
            return
        self._tell(found.job, mode, days, left_out=len(found.days) - len(days))
        self._submit(found.job, days, mode, found)

    def _named(self, backfill_id: str) -> Backfill:
        try:
            return backfill_named(self._instance, self._settings.installation, backfill_id)
        except NoSuchBackfill as error:
            refuse(str(error))

    def _left_of(self, found: Backfill, mode: Mode) -> tuple[date, ...]:
        if mode == "live":
            return self._swept(found.job, found.days).missing(found.days)
        with (
            self._database.connect("backfill") as connection,
            self._database.transaction(connection, read_only=True) as cursor,
        ):
            done = done_by_backfills(
                cursor,
                self._settings.installation,
                found.job,
                found.days,
                mode=mode,
                backfills={found.backfill_id, found.root},
            )
        return tuple(day for day in found.days if day not in done)

    def _swept(self, job: str, days: Sequence[date]) -> SweptDays:
        with (
            self._database.connect("backfill") as connection,
            self._database.transaction(connection, read_only=True) as cursor,
        ):
            return swept_days(cursor, self._settings.installation, job, days)

    def _tell(self, job: str, mode: Mode, days: Sequence[date], *, left_out: int) -> None:
        """Say what is going to happen, and ask a person who can answer.

        Raises:
            typer.Exit: Too many days without --yes, or the answer was no.
        """
        typer.echo(words.plan(job, mode, days, left_out=left_out))
        if self._yes:
            return
        if len(days) > MOST_WITHOUT_YES:
            refuse(
                f"{len(days)} days are more than {MOST_WITHOUT_YES}. If that is what you mean, "
                "add --yes; one run over everything would take them all at once. Nothing was "
                "started."
            )
        if mode == "live" and sys.stdin.isatty() and not typer.confirm("Delete for good?"):
            refuse("Nothing was started.")

    def _submit(self, job: str, days: Sequence[date], mode: Mode, resumes: Backfill | None) -> None:
        try:
            where = workspace_path(self._workspace)
            with (
                opened_place(self._instance, self._settings.installation, where) as place,
                self._alone(job, days),
            ):
                backfill_id = request_backfill(
                    place,
                    job,
                    days,
                    {tags.MODE: mode, tags.STARTED_BY: operator_name()},
                    title=f"{job}, {mode}: {words.ranges(days)}",
                    resumes=resumes,
                )
        except (NoWorkspace, CodeUnavailable) as error:
            refuse(str(error))
        typer.echo(words.asked_for(backfill_id, len(days)))
        self._warn_of_daemon()

    @contextmanager
    def _alone(self, job: str, days: Sequence[date]) -> Iterator[None]:
        """Let nobody else ask for a backfill of the job meanwhile; refuse days that one has."""
        with (
            self._database.connect("backfill") as connection,
            self._database.transaction(connection) as cursor,
        ):
            number = lock_number(f"{self._database.schema}/backfill/{job}")
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", (number,))
            for other in open_backfills(self._instance, self._settings.installation, job):
                both = sorted(set(days) & set(other.ahead))
                if both:
                    refuse(
                        f"{words.ranges(both)} stands in the backfill {other.backfill_id} already,"
                        f" which is {other.state}. Wait for it, or cancel it with `filejobs "
                        f"backfill --cancel {other.backfill_id}`. Nothing was started."
                    )
            yield

    def _warn_of_daemon(self) -> None:
        if daemon_is_silent(self._instance):
            print_error(
                "Dagster's daemon has given no sign of life for minutes: nothing happens until it "
                "runs."
            )
