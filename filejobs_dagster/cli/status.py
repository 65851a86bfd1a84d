"""`filejobs status`: where each job stands, also for monitoring."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Annotated

import psycopg
import typer
from rich.text import Text

from filejobs_dagster.alerts.conditions import Condition, beside_the_standings
from filejobs_dagster.alerts.mutes import Mute, active
from filejobs_dagster.alerts.rounds import limits_of
from filejobs_dagster.cli.completion import job_names
from filejobs_dagster.cli.failures import expected_failure
from filejobs_dagster.cli.invocation import Invocation, problems_text
from filejobs_dagster.cli.output import console, print_error, print_json
from filejobs_dagster.cli.status_document import SettingsInForce, status_document
from filejobs_dagster.cli.status_table import print_besides, print_standings
from filejobs_dagster.cli.verdict import Verdict, verdict_on
from filejobs_dagster.cli.words import job_named, threshold_given
from filejobs_dagster.expectations import expectations
from filejobs_dagster.ledger.sanitize import sanitize
from filejobs_dagster.ledger.standing import Standing, standings
from filejobs_dagster.postgres.clock import database_now
from filejobs_dagster.postgres.connect import Database, DatabaseUnavailable
from filejobs_dagster.postgres.migrate import MigrationRefused, outstanding
from filejobs_dagster.runbook import of_condition
from filejobs_dagster.settings import Settings


class Format(str, Enum):
    """How the standings are printed."""

    TABLE = "table"
    JSON = "json"
    PROMETHEUS = "prometheus"


@dataclass(frozen=True)
class View:
    """What was seen.

    Attributes:
        installation: Whose jobs.
        verdict: Over the jobs shown; unknown, with the reason, when nothing could be seen.
        standings: None when nothing could be seen.
        now: The database's time.
        besides: What is wrong and no standing says, such as a mirror that is silent.
        mutes: What nobody is told of at the moment; no exit code knows of it.
        explanation: More than the verdict's one line, for standard error.
        settings: Which settings these are, by their digest, and since when.
    """

    installation: str
    verdict: Verdict
    standings: list[Standing] | None = None
    now: datetime | None = None
    besides: tuple[Condition, ...] = ()
    mutes: tuple[Mute, ...] = ()
    explanation: str = ""
    settings: SettingsInForce | None = None


def status(
    context: typer.Context,
    output: Annotated[
        Format,
        typer.Option("--format", help="table for people, json and prometheus for programs."),
    ] = Format.TABLE,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Begin with a verdict on one line, and exit with 0, 1, 2 or 3."
        ),
    ] = False,
    stale_after: Annotated[
        list[str] | None,
        typer.Option(
            "--stale-after",
            metavar="JOB=DURATION",
            help="Call the job stale when its last success is older, whatever the settings say; "
            "may be repeated. Example: upload_reservations=1h.",
            show_default=False,
        ),
    ] = None,
    job: Annotated[
        str | None,
        typer.Option(
            "--job",
            help="Show this job only.",
            autocompletion=job_names,
            show_default=False,
        ),
    ] = None,
) -> None:
    """Say where each job stands: did it run, does it sweep, and what is wrong if not.

    Reads filejobs.yaml and the tables job_run, job_progress, mirror_watermark and
    filejobs_migration in a read-only transaction; needs no Dagster and changes nothing, so it can
    watch from another machine.

    Only a successful run in the configured mode over everything due counts as a success: six weeks
    of dry runs do not make a live job healthy. Without a threshold (stale_after in the settings, or
    here) nothing is called stale; a job that stands in the settings and never ran is critical in
    either case. Jobs that are not in the settings are shown, and do not count.

    Beside the jobs it says, each on a line of its own, when nobody records what ran (critical: the
    daemon or the code server is gone), when a run ended without its record, and when one is stuck,
    longer at work than its job's max_runtime (warnings). What is muted (filejobs mute) is said so,
    and counts all the same.

    [bold]Standings[/bold]
      ok, ok (dry), failed, stale, never run, unknown, and
      behind: it runs, but leaves items due for longer than the threshold

    [bold]Examples[/bold]
      filejobs status
      filejobs status --check --stale-after upload_reservations=1h
      filejobs status --format json --job storage_orphans
      filejobs status --format prometheus > filejobs.prom

    [bold]Exit codes[/bold]
      0   shown
      3   nothing could be determined: the settings are wrong, the database
          does not answer, or a migration is outstanding
      64  called wrongly
      With --check: 0 ok, 1 warning, 2 critical, 3 unknown. The worst job
      decides: critical over unknown over warning.
    """
    thresholds = dict(threshold_given(text, "--stale-after") for text in stale_after or ())
    wanted = None if job is None else job_named(job, "--job")
    view = _look(Invocation.of(context), thresholds, wanted)
    _print(view, output, check=check)
    if view.explanation:
        print_error(view.explanation)
    if check or view.standings is None:
        raise typer.Exit(view.verdict.exit_code)


def _look(invocation: Invocation, thresholds: Mapping[str, timedelta], job: str | None) -> View:
    loaded = invocation.read()
    if loaded.settings is not None:
        for name in thresholds:
            job_named(name, "--stale-after", settings_read=True)
        if job is not None:
            job_named(job, "--job", settings_read=True)
    if loaded.settings is None:
        mistakes = "; ".join(map(str, loaded.problems))
        reason = f"{loaded.path} has mistakes: {mistakes} (see {of_condition('settings')})"
        return View(
            loaded.installation, Verdict("unknown", reason), explanation=problems_text(loaded)
        )
    settings = loaded.settings
    try:
        view = _look_into(settings, thresholds, job, invocation.secrets)
        return replace(view, settings=SettingsInForce.of(loaded.path, settings))
    except (psycopg.Error, DatabaseUnavailable, MigrationRefused) as error:
        said = expected_failure(error, invocation.secrets) or type(error).__name__
        reason = f"{said} See {of_condition('database')}"
        return View(settings.installation, Verdict("unknown", reason), explanation=reason)


def _look_into(
    settings: Settings,
    thresholds: Mapping[str, timedelta],
    job: str | None,
    secrets: tuple[str, ...],
) -> View:
    database = Database.of(settings.database)
    lacking = outstanding(database)
    if lacking:
        names = ", ".join(migration.name for migration in lacking)
        reason = (
            f"the database lacks {names}: run `filejobs migrate` (see {of_condition('database')})"
        )
        return View(settings.installation, Verdict("unknown", reason), explanation=reason)
    with (
        database.connect("status") as connection,
        database.transaction(connection, read_only=True) as cursor,
    ):
        now = database_now(cursor)
        found = standings(cursor, settings.installation, expectations(settings, thresholds))
        wrong = beside_the_standings(
            cursor, settings.installation, limits_of(settings), known=secrets
        )
        mutes = tuple(active(cursor, settings.installation))
    shown = [_clean(each, secrets) for each in found if job in (None, each.job)]
    besides = tuple(each for each in wrong if job is None or each.job in (None, job))
    verdict = verdict_on(shown, besides, mutes)
    return View(settings.installation, verdict, shown, now, besides, mutes)


def _clean(standing: Standing, secrets: tuple[str, ...]) -> Standing:
    """Records are written without secrets; those that somebody else wrote are not trusted."""
    last = standing.last_run
    if last is not None and last.error is not None:
        last = replace(last, error=sanitize(last.error, known=secrets))
    return replace(standing, last_run=last, reason=sanitize(standing.reason, known=secrets))


def _print(view: View, output: Format, *, check: bool) -> None:
    if output is Format.JSON:
        print_json(
            status_document(
                view.installation,
                view.verdict,
                view.standings or (),
                view.now,
                view.besides,
                view.settings,
                view.mutes,
            )
        )
        return
    if output is Format.PROMETHEUS:
        if view.standings is not None:
            from filejobs_dagster.ledger.prometheus import exposition  # noqa: PLC0415

            sys.stdout.write(exposition(view.standings, view.installation, view.mutes))
        return
    out = console()
    if check:
        sys.stdout.write(f"{view.verdict.line}\n")
        sys.stdout.flush()
    if view.standings is not None and view.now is not None:
        print_standings(out, view.standings, view.now)
        print_besides(out, view.besides)
        if view.settings is not None:
            out.print(str(view.settings), style="dim", highlight=False, soft_wrap=True)
        for each in view.mutes:
            out.print(Text(f"MUTED  {each}. To end it sooner: filejobs unmute", style="magenta"))
