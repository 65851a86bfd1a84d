"""`filejobs status`: where each job stands, also for monitoring.

A standing is shown three ways: a table for people, a JSON document for programs, whose fields are
added and never renamed or removed, and one verdict as monitoring plugins give it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import psycopg
import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from filejobs_dagster.alerts.conditions import Condition, beside_the_standings, kind_of
from filejobs_dagster.alerts.digest import ADVICE
from filejobs_dagster.alerts.mutes import Mute, active, covering
from filejobs_dagster.alerts.rounds import limits_of
from filejobs_dagster.cli import terminal
from filejobs_dagster.cli.arguments import (
    NOTHING,
    acted_on,
    instant,
    job_named,
    job_names,
    moment,
    number,
    threshold_given,
)
from filejobs_dagster.cli.failures import expected_failure
from filejobs_dagster.cli.terminal import (
    Invocation,
    console,
    one_line,
    print_error,
    print_json,
    print_table,
    problems_text,
)
from filejobs_dagster.expectations import expectations
from filejobs_dagster.ledger.outcome import StartedBy
from filejobs_dagster.ledger.runs import ended_in_words, would_act
from filejobs_dagster.ledger.standing import Standing, standings
from filejobs_dagster.orchestration.draining import Pause, pause_at
from filejobs_dagster.postgres.connect import Database, DatabaseUnavailable, database_now
from filejobs_dagster.postgres.migrate import MigrationRefused, outstanding
from filejobs_dagster.runbook import of_condition
from filejobs_dagster.settings import Settings
from filejobs_dagster.text import roughly, sanitize
from filejobs_dagster.variables import VariableUnusable, variable

if TYPE_CHECKING:
    from rich.console import Console

    from filejobs_dagster.ledger.standing import Running, RunSummary

# Standings as a JSON document for programs. Fields are added, never renamed or removed.


@dataclass(frozen=True)
class SettingsInForce:
    """Which settings a command has read; runs record the same digest as `settings`.

    Attributes:
        path: The file.
        digest: Of its content.
        changed_at: When the file was written, by the machine's clock.
    """

    path: Path
    digest: str
    changed_at: datetime

    @classmethod
    def of(cls, path: Path, settings: Settings) -> SettingsInForce | None:
        """What was read; None where the file is gone by now."""
        try:
            written = path.stat().st_mtime
        except OSError:
            return None
        return cls(path, settings.digest, datetime.fromtimestamp(written, timezone.utc))

    def __str__(self) -> str:
        return f"Settings {self.digest}, {self.path} of {self.changed_at:%Y-%m-%d %H:%M} UTC."


def status_document(
    installation: str,
    verdict: Verdict,
    standings: Sequence[Standing] = (),
    now: datetime | None = None,
    besides: Sequence[Condition] = (),
    settings: SettingsInForce | None = None,
    mutes: Sequence[Mute] = (),
) -> dict[str, Any]:
    """The whole document.

    Args:
        installation: Whose jobs.
        verdict: Over the jobs shown.
        standings: Empty when they could not be determined.
        now: The database's time of the look; None when there was none.
        besides: What is wrong and no standing says.
        settings: Which settings were read.
        mutes: What nobody is told of.
    """
    return {
        "installation": installation,
        "at": instant(now),
        "verdict": verdict.word,
        "summary": verdict.reason,
        "jobs": [_job(standing) for standing in standings],
        "besides": [
            {
                "kind": each.kind,
                "job": each.job,
                "severity": each.severity,
                "reason": each.reason,
                "see": each.see,
            }
            for each in besides
        ],
        "settings": None
        if settings is None
        else {
            "path": str(settings.path),
            "digest": settings.digest,
            "changed_at": instant(settings.changed_at),
        },
        "muted": [
            {
                "job": each.job,
                "kind": each.kind,
                "since": instant(each.since),
                "until": instant(each.until),
                "by": each.by,
                "why": each.why,
            }
            for each in mutes
        ],
    }


def _job(standing: Standing) -> dict[str, Any]:
    return {
        "job": standing.job,
        "standing": standing.word,
        "severity": standing.severity,
        "reason": standing.reason,
        "see": standing.see or None,
        "configured": standing.configured,
        "mode": standing.mode if standing.configured else None,
        "stale": standing.stale,
        "stale_after_seconds": _seconds(standing.stale_after),
        "behind": standing.behind,
        "age_seconds": _seconds(standing.age),
        "consecutive_failures": standing.consecutive_failures,
        "last_run": _run(standing.last_run),
        "last_success": _run(standing.last_success),
        "last_live_success": _run(standing.last_live_success),
        "running": _running(standing.running),
    }


def _run(run: RunSummary | None) -> dict[str, Any] | None:
    if run is None:
        return None
    return {
        "run_id": run.run_id,
        "started_at": instant(run.started_at),
        "finished_at": instant(run.finished_at),
        "outcome": run.outcome,
        "mode": run.mode,
        "scanned": run.scanned,
        "acted": run.acted,
        "would_act": would_act(run.mode, run.detail),
        "error": run.error,
        "started_by": _starter(StartedBy.in_detail(run.detail)),
    }


def _running(running: Running | None) -> dict[str, Any] | None:
    if running is None:
        return None
    return {
        "run_id": running.run_id,
        "mode": running.mode,
        "holder": running.holder,
        "started_at": instant(running.started_at),
        "heartbeat_at": instant(running.heartbeat_at),
        "started_by": _starter(running.started_by),
    }


def _starter(starter: StartedBy | None) -> dict[str, str | None] | None:
    return None if starter is None else starter.as_detail()


def _seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else duration.total_seconds()


# Standings as a table for people.

ROOM_FOR_EVERYTHING = 170
"""Columns from which everything fits into one table."""

_NOBODY_ASKED = "not in the settings"

_COLOURS = {
    "ok": "green",
    "warning": "yellow",
    "critical": "bold red",
    "unknown": "magenta",
    "silent": "dim",
}


def print_standings(out: Console, standings: Sequence[Standing], now: datetime) -> None:
    """Print one line for each job; a narrow terminal gets fewer columns, and the rest below.

    Args:
        out: Where to print.
        standings: The jobs, in the order to show.
        now: The database's time.
    """
    if out.width >= ROOM_FOR_EVERYTHING:
        print_table(out, _wide(standings, now))
        out.print(Text("Times are UTC.", style="dim"))
        return
    print_table(out, _narrow(standings, now))
    out.print()
    for standing in standings:
        if standing.configured:
            out.print(
                Text(f"{standing.job}: ", style=_COLOURS[standing.severity])
                + Text(_more(standing, now), style="default")
            )


def print_besides(out: Console, besides: Sequence[Condition]) -> None:
    """Print what is wrong and no standing says, each on a line of its own, with what to do."""
    for each in besides:
        out.print()
        line = f"{each.severity.upper()}  {each.title}: {each.reason}"
        out.print(Text(line, style=_COLOURS[each.severity]))
        out.print(Text(f"{ADVICE[each.kind]} See {each.see}"))


def _wide(standings: Sequence[Standing], now: datetime) -> Table:
    table = _table(
        "job", "standing", "mode", "last run", "last success", "age", "threshold",
        "scanned / acted", "running now",
    )  # fmt: skip
    table.add_column("reason", overflow="fold")
    for standing in standings:
        last, success = standing.last_run, standing.last_success
        table.add_row(
            *_beginning(standing),
            "never" if last is None else _last(last),
            "never" if success is None else moment(success.finished_at),
            _span(standing.age),
            _span(standing.stale_after),
            NOTHING if last is None else f"{number(last.scanned)} / {acted_on(last)}",
            _running_row(standing, now),
            Text(_reason(standing).removeprefix(f"{_NOBODY_ASKED}, and ")),
            style=None if standing.configured else "dim",
        )
    return table


def _narrow(standings: Sequence[Standing], now: datetime) -> Table:
    table = _table("job", "standing", "mode", "last run", "success", "threshold")
    for standing in standings:
        last = standing.last_run
        table.add_row(
            *_beginning(standing),
            "never"
            if last is None
            else f"{roughly(now - last.finished_at)} ago, {last.mode.upper()} "
            f"{ended_in_words(last.outcome, last.detail)}",
            "never" if standing.age is None else f"{roughly(standing.age)} ago",
            _span(standing.stale_after),
            style=None if standing.configured else "dim",
        )
    return table


def _table(*headings: str) -> Table:
    table = Table(
        box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold", show_edge=False
    )
    for heading in headings:
        table.add_column(heading, overflow="fold", no_wrap=heading in ("job", "standing", "mode"))
    return table


def _beginning(standing: Standing) -> tuple[Text, Text, Text]:
    return (
        Text(standing.job),
        Text(
            standing.word if standing.configured else _NOBODY_ASKED,
            style=_COLOURS[standing.severity],
        ),
        Text(standing.mode if standing.configured else NOTHING),
    )


def _span(duration: timedelta | None) -> str:
    return NOTHING if duration is None else roughly(duration)


def _more(standing: Standing, now: datetime) -> str:
    """What a narrow table has no room for."""
    last = standing.last_run
    parts = [_reason(standing)]
    if last is not None:
        by = StartedBy.in_detail(last.detail)
        counts = f"scanned {number(last.scanned)}, acted on {acted_on(last)}"
        parts.append(f"last run{'' if by is None else f' by {by}'} {counts}")
    if standing.running is not None:
        parts.append(f"running now: {_running_row(standing, now)}")
    return "; ".join(parts)


def _reason(standing: Standing) -> str:
    return f"{standing.reason} (see {standing.see})" if standing.see else standing.reason


def _last(last: RunSummary) -> str:
    by = StartedBy.in_detail(last.detail)
    ended = ended_in_words(last.outcome, last.detail)
    said = f"{moment(last.finished_at)} {last.mode.upper()} {ended}"
    return said if by is None else f"{said} by {by}"


def _running_row(standing: Standing, now: datetime) -> str:
    running = standing.running
    if running is None:
        return "no"
    by = "" if running.started_by is None else f" by {running.started_by}"
    return (
        f"{running.mode}{by}, for {roughly(now - running.started_at)}, "
        f"last sign of life {roughly(now - running.heartbeat_at)} ago"
    )


# One verdict over standings and what is wrong beside them, as monitoring plugins give it.

VerdictWord = Literal["ok", "warning", "critical", "unknown"]

_WORST_FIRST: tuple[VerdictWord, ...] = ("critical", "unknown", "warning", "ok")

_EXIT_CODES: dict[VerdictWord, int] = {
    "ok": terminal.OK,
    "warning": terminal.WARNING,
    "critical": terminal.CRITICAL,
    "unknown": terminal.UNKNOWN,
}


@dataclass(frozen=True)
class Verdict:
    """What `status --check` says.

    Attributes:
        word: The worst of the jobs that somebody asked for, and of what is wrong beside them.
        reason: Why, on one line.
    """

    word: VerdictWord
    reason: str

    @property
    def exit_code(self) -> int:
        """0 ok, 1 warning, 2 critical, 3 unknown."""
        return _EXIT_CODES[self.word]

    @property
    def line(self) -> str:
        """The first line of a monitoring plugin. `|` would begin its performance data."""
        return f"{self.word.upper()} - {one_line(self.reason).replace('|', '/')}"


def verdict_on(
    standings: Sequence[Standing], besides: Sequence[Condition] = (), mutes: Sequence[Mute] = ()
) -> Verdict:
    """The worst decides; critical is worse than unknown, unknown worse than warning.

    Jobs that nobody asked for do not count. When none is left there is nothing to be sure of: that
    is unknown, because settings that lost their jobs must not look healthy.

    Args:
        standings: Of the jobs.
        besides: What is wrong and no standing says.
        mutes: Said beside what they silence, and counted for nothing: whoever asks for the exit
            code decides for themselves whom they tell.
    """
    asked = [standing for standing in standings if standing.severity != "silent"]
    wrong = [
        (
            _judged(each.severity),
            f"{each.job} {each.word}: {each.reason} (see {each.see})"
            + _silenced(mutes, each.job, kind_of(each)),
        )
        for each in asked
        if each.alarming
    ]
    wrong += [
        (
            each.severity,
            f"{each.title}: {each.reason} (see {each.see})" + _silenced(mutes, each.job, each.kind),
        )
        for each in besides
    ]
    if not asked:
        named = ", ".join(standing.job for standing in standings)
        few = len(standings) == 1
        none = f"{named} is not in the settings" if few else "the settings name no job to check"
        wrong.append(("unknown", none))
    if not wrong:
        return Verdict("ok", ", ".join(f"{standing.job} {standing.word}" for standing in asked))
    wrong.sort(key=lambda each: _WORST_FIRST.index(each[0]))
    return Verdict(wrong[0][0], "; ".join(said for _, said in wrong))


def _silenced(mutes: Sequence[Mute], job: str | None, kind: str | None) -> str:
    found = covering(mutes, job, kind)
    return "" if found is None else f" [told to nobody: muted {found.told}]"


def _judged(severity: str) -> VerdictWord:
    return next((word for word in _WORST_FIRST if word == severity), "unknown")


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
        paused: Who holds Dagster's queue, where that can be asked.
    """

    installation: str
    verdict: Verdict
    standings: list[Standing] | None = None
    now: datetime | None = None
    besides: tuple[Condition, ...] = ()
    mutes: tuple[Mute, ...] = ()
    explanation: str = ""
    settings: SettingsInForce | None = None
    paused: Pause | None = None


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
        in_force = SettingsInForce.of(loaded.path, settings)
        return replace(view, settings=in_force, paused=_paused())
    except (psycopg.Error, DatabaseUnavailable, MigrationRefused) as error:
        said = expected_failure(error, invocation.secrets) or type(error).__name__
        reason = f"{said} See {of_condition('database')}"
        return View(settings.installation, Verdict("unknown", reason), explanation=reason)


def _paused() -> Pause | None:
    """Who holds the queue; None also where Dagster's storage is not named here or does not answer.

    Whether it answers is for `filejobs ready`.
    """
    with suppress(VariableUnusable, DatabaseUnavailable, psycopg.Error):
        url = variable("FILEJOBS_DAGSTER_URL", os.environ)
        return pause_at(url) if url else None
    return None


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
        if view.paused is not None:
            out.print(Text(view.paused.and_how_to_end_it(), style="magenta"))
        for each in view.mutes:
            out.print(Text(f"MUTED  {each}. To end it sooner: filejobs unmute", style="magenta"))
