"""`filejobs alert`: tells somebody, from outside of Dagster."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from filejobs_dagster.cli import terminal
from filejobs_dagster.cli.arguments import moment
from filejobs_dagster.cli.terminal import Invocation, print_error, problems_text
from filejobs_dagster.runbook import of_condition

if TYPE_CHECKING:
    from filejobs_dagster.alerts.outbox import Memory
    from filejobs_dagster.alerts.rounds import Round
    from filejobs_dagster.settings import Loaded, Settings

BUDGET = timedelta(minutes=2)
"""For everything that one call sends."""

LONGEST_CALL = 15.0

NOBODY = """\
Nobody is told: the settings name no destination. Add one:

  alerts:
    to:
      - {name: on-call, url: {env: FILEJOBS_ALERT_URL}}

and set FILEJOBS_ALERT_URL to a URL of apprise, such as mailto://… or slack://…"""


def alert(
    context: typer.Context,
    test: Annotated[
        bool, typer.Option("--test", help="Send a test message to every destination, now.")
    ] = False,
    show: Annotated[
        bool,
        typer.Option("--show", help="Show what is open and what is not delivered; send nothing."),
    ] = False,
    state: Annotated[
        Path | None,
        typer.Option(
            "--state",
            metavar="PATH",
            envvar="FILEJOBS_ALERT_STATE",
            help="Where it is remembered what was told while the database was away. Without it, "
            "a file below XDG_STATE_HOME or ~/.local/state.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Look once, and tell those whom the settings name under alerts what they do not know yet.

    The sensor job_freshness does the same each minute. Call this from cron on another machine, so
    that somebody is told when Dagster's daemon, its code server or the database are gone. Both
    share one outbox in the database: nobody is told anything twice because of the other.

    It cannot ask Dagster, so only the sensor tells of runs that wait in the queue. While the
    database is away, or the settings have mistakes, what is known is told without the outbox.

    [bold]Examples[/bold]
      filejobs alert --test
      */5 * * * *  filejobs --config /etc/filejobs/filejobs.yaml alert

    [bold]Exit codes[/bold]
      0   everybody knows what there is to know; with --test, every message was
          taken
      1   somebody could not be told (it is tried again), or the settings name
          nobody
      3   where the jobs stand could not be determined, and those who could be
          told were told so
    """
    if test and show:
        raise typer.BadParameter("it sends, and --show sends nothing", param_hint="--test")
    invocation = Invocation.of(context)
    loaded = invocation.read()
    if test:
        _test(loaded)
    elif show:
        _show(invocation.require(), invocation.secrets)
    else:
        _round(loaded, state)


def _test(loaded: Loaded) -> NoReturn:
    from filejobs_dagster.alerts import sending  # noqa: PLC0415 (--help stays fast)
    from filejobs_dagster.alerts.digest import Digest  # noqa: PLC0415
    from filejobs_dagster.alerts.sending import destinations_of  # noqa: PLC0415
    from filejobs_dagster.settings import salvage  # noqa: PLC0415

    if loaded.settings is None:
        print_error(problems_text(loaded))
    alerts = salvage(loaded.path).alerts if loaded.settings is None else loaded.settings.alerts
    destinations = () if alerts is None else destinations_of(alerts)
    if not destinations:
        print_error(NOBODY)
        raise typer.Exit(terminal.FAILED)
    said = f"This is a test, sent by `filejobs alert --test` for {loaded.installation}."
    digest = Digest(f"filejobs {loaded.installation}: a test", said, said, None)
    failed = loaded.settings is None
    for destination in destinations:
        try:
            sending.send(destination.url, digest, LONGEST_CALL)
        except sending.NotSent as error:
            failed = True
            print_error(f"{destination.name}: {error}")
        else:
            typer.echo(f"{destination.name}: taken")
    beats = None if alerts is None else alerts.heartbeat
    mistake = None if beats is None else sending.mistake_in_heartbeat(beats.url.reveal().strip())
    if mistake is not None:
        failed = True
        print_error(f"heartbeat: {mistake}")
    raise typer.Exit(terminal.FAILED if failed else terminal.OK)


def _show(settings: Settings, secrets: tuple[str, ...]) -> None:
    from filejobs_dagster.alerts.mutes import active, covering  # noqa: PLC0415
    from filejobs_dagster.alerts.outbox import open_conditions, undelivered  # noqa: PLC0415
    from filejobs_dagster.postgres.connect import Database  # noqa: PLC0415
    from filejobs_dagster.text import sanitize  # noqa: PLC0415

    database = Database.of(settings.database)
    with (
        database.connect("alerts") as connection,
        database.transaction(connection, read_only=True) as cursor,
    ):
        lasting = open_conditions(cursor, settings.installation)
        waiting = undelivered(cursor, settings.installation)
        mutes = active(cursor, settings.installation)
    for notice in lasting:
        typer.echo(f"{notice.severity}  {notice.title}, since {moment(notice.first_seen)} UTC")
        typer.echo(f"  {sanitize(notice.reason, known=secrets)} (see {of_condition(notice.kind)})")
        silent = covering(mutes, notice.job, notice.kind)
        if silent is not None:
            typer.echo(f"  told to nobody: muted {silent.told}")
    if not lasting:
        typer.echo("Nothing is open.")
    for each in waiting:
        tried = f"after {each.attempts} attempts: {each.error}" if each.attempts else "not tried"
        typer.echo(
            f"{each.destination} has not been told {each.notices} things since "
            f"{moment(each.since)} UTC, {tried}"
        )


def _round(loaded: Loaded, state: Path | None) -> None:
    from filejobs_dagster.alerts.outbox import FileMemory, default_path  # noqa: PLC0415
    from filejobs_dagster.alerts.rounds import look_and_tell  # noqa: PLC0415

    memory = FileMemory(default_path(loaded.installation) if state is None else state)
    if loaded.settings is None:
        print_error(problems_text(loaded))
        _tell(_of_broken_settings(loaded, memory), determined=False)
    if not loaded.settings.alerts.to:
        print_error(NOBODY)
        raise typer.Exit(terminal.FAILED)
    _tell(look_and_tell(loaded.settings, memory, budget=BUDGET), determined=True)


def _of_broken_settings(loaded: Loaded, memory: Memory) -> Round:
    from filejobs_dagster.alerts.rounds import tell_of_broken_settings  # noqa: PLC0415
    from filejobs_dagster.settings import salvage  # noqa: PLC0415

    return tell_of_broken_settings(loaded, salvage(loaded.path), memory, budget=BUDGET)


def _tell(done: Round, *, determined: bool) -> NoReturn:
    for each in done.delivered:
        if each.error is None:
            typer.echo(f"{each.destination}: told {each.notices} things")
        else:
            print_error(f"{each.destination}: {each.error}; it is tried again")
    said = {each.destination for each in done.delivered}
    for waiting in done.waiting:
        if waiting.destination not in said:
            print_error(f"{waiting.destination} waits for {waiting.notices} things")
    if done.trouble is not None:
        print_error(f"The outbox could not be used: {done.trouble}")
    if not determined or done.trouble is not None:
        raise typer.Exit(terminal.UNKNOWN)
    typer.echo(f"{done.open} open at {moment(datetime.now(timezone.utc))} UTC.")
    failed = bool(done.waiting) or any(each.error is not None for each in done.delivered)
    raise typer.Exit(terminal.FAILED if failed else terminal.OK)
