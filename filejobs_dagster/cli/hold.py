"""`filejobs hold`, `release`, `mute` and `unmute`: the brake and the silence, without a restart."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from filejobs_dagster.alerts.digest import Kind
from filejobs_dagster.cli import terminal
from filejobs_dagster.cli.arguments import duration_given, job_named, job_names
from filejobs_dagster.cli.terminal import Invocation, one_line, operator_name, print_error

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg
    from psycopg.rows import TupleRow

_Job = Annotated[
    str | None,
    typer.Argument(
        metavar="[JOB]", help="Which; without it, every job.", autocompletion=job_names,
        show_default=False,
    ),
]  # fmt: skip


def hold(
    context: typer.Context,
    job: _Job = None,
    why: Annotated[
        str | None,
        typer.Option(
            "--why", metavar="TEXT", help="For whoever finds it held.", show_default=False
        ),
    ] = None,
) -> None:
    """Let no live run of a job, or of any, go on.

    A live run at work stops before its next batch; one that begins is dry and says who holds it.
    The hold stands in the database, so it works from every machine and nothing is restarted.
    Without --why it changes nothing, and prints the holds that are open.

    [bold]Examples[/bold]
      filejobs hold --why 'a customer misses files'
      filejobs hold storage_orphans --why 'new table of avatars, not a source yet'
      filejobs hold                     what is held?
      filejobs release storage_orphans  go on

    [bold]Exit codes[/bold]
      0   it is held now; or printed what is
      1   the settings are wrong, or the database does not answer
      64  called wrongly
    """
    from filejobs_dagster.door import hold as holds  # noqa: PLC0415 (--help stays fast)

    name = None if job is None else job_named(job, "JOB")
    invocation = Invocation.of(context)
    installation = invocation.require().installation
    with writing(invocation) as cursor:
        if why is None:
            found = holds.open_holds(cursor, installation, name)
            for each in found:
                typer.echo(f"{each}. To go on: {each.release}")
            if not found:
                typer.echo("Nothing is held. To hold it: filejobs hold [JOB] --why TEXT")
            return
        new = holds.hold(
            cursor, installation, name, operator_name(), one_line(why.strip()) or "no reason given"
        )
        (held,) = [it for it in holds.open_holds(cursor, installation) if it.job == name]
    if not new:
        typer.echo(f"It was held already: {held}.")
        return
    typer.echo(f"{held}. A live run at work stops before its next batch. To go on: {held.release}")


def release(context: typer.Context, job: _Job = None) -> None:
    """End a hold: live runs may begin again.

    A hold of every job is ended without a job's name, and one of a single job with it.

    [bold]Examples[/bold]
      filejobs release storage_orphans
      filejobs release

    [bold]Exit codes[/bold]
      0   it is not held any more
      1   it was not held, the settings are wrong, or the database does not
          answer
      64  called wrongly
    """
    from filejobs_dagster.door import hold as holds  # noqa: PLC0415 (--help stays fast)

    name = None if job is None else job_named(job, "JOB")
    invocation = Invocation.of(context)
    installation = invocation.require().installation
    with writing(invocation) as cursor:
        ended = holds.release(cursor, installation, name, operator_name())
        left = holds.open_holds(cursor, installation, name)
    if ended is not None:
        typer.echo(f"Released. It was: {ended}.")
    for each in left:
        typer.echo(f"Still held: {each}. To go on: {each.release}")
    if ended is None and not left:
        print_error(f"{'Every job' if name is None else name} was not held; see `filejobs hold`.")
    if ended is None:
        raise typer.Exit(terminal.FAILED)


@contextmanager
def writing(invocation: Invocation) -> Iterator[psycopg.Cursor[TupleRow]]:
    """A transaction on the installation's database."""
    from filejobs_dagster.postgres.connect import Database  # noqa: PLC0415

    database = Database.of(invocation.require().database)
    with database.connect("hold") as connection, database.transaction(connection) as cursor:
        yield cursor


# `filejobs mute` and `filejobs unmute`: silence for a while, with a name and a reason.

LONGEST = timedelta(days=30)
"""Silence that outlives the memory of whoever asked for it is no silence but blindness."""

_MuteJob = Annotated[
    str | None,
    typer.Argument(
        metavar="[JOB]", help="Whose alerts; without it, --kind of every job.",
        autocompletion=job_names, show_default=False,
    ),
]  # fmt: skip
_Which = Annotated[
    str | None,
    typer.Option(
        "--kind", metavar="KIND", help="Only this alert, as `filejobs alert --show` and the "
        "runbook call it; without it, every one of the job.", show_default=False,
    ),
]  # fmt: skip


def mute(
    context: typer.Context,
    job: _MuteJob = None,
    kind: _Which = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until",
            metavar="TIME",
            help="Such as '2026-12-01 08:00' (UTC) or with a zone, "
            "'2026-12-01T08:00+01:00'; at most 30 days from now.",
            show_default=False,
        ),
    ] = None,
    lasting: Annotated[
        str | None,
        typer.Option(
            "--for", metavar="DURATION", help="Instead of --until, such as 4h.", show_default=False
        ),
    ] = None,
    why: Annotated[
        str | None,
        typer.Option(
            "--why", metavar="TEXT", help="For whoever finds it muted.", show_default=False
        ),
    ] = None,
) -> None:
    """Tell nobody of a job's alerts, or of one kind, until a time.

    What is muted stays open and is shown: in `filejobs status`, the web UI, the metrics and below
    every message that is sent. `filejobs status --check` says it, and its exit code stays what it
    is: monitoring has a silence of its own. The failed tick of job_freshness stays, too. After its
    time the mute is over by itself, and what is still wrong is told then. What is told without the
    database (broken settings, the database away) is never muted.

    Without --until, --for and --why it changes nothing, and prints what is muted.

    [bold]Examples[/bold]
      filejobs mute storage_orphans --for 4h --why 'the bucket is being moved'
      filejobs mute --kind queued --until '2026-12-01 08:00' --why 'month end'
      filejobs mute                     what is muted?
      filejobs unmute storage_orphans   tell of it again

    [bold]Exit codes[/bold]
      0   it is muted now; or printed what is
      1   the settings are wrong, or the database does not answer
      64  called wrongly
    """  # fmt: skip
    from filejobs_dagster.alerts import mutes  # noqa: PLC0415 (--help stays fast)
    from filejobs_dagster.postgres.connect import database_now  # noqa: PLC0415

    name, asked = _what(job, kind)
    invocation = Invocation.of(context)
    installation = invocation.require().installation
    if until is None and lasting is None and why is None:
        with writing(invocation) as cursor:
            found = mutes.active(cursor, installation)
        for each in found:
            typer.echo(f"{each}.")
        if not found:
            typer.echo("Nothing is muted. To mute: filejobs mute JOB --for 4h --why TEXT")
        return
    if (until is None) == (lasting is None):
        raise typer.BadParameter("give one of --until and --for", param_hint="--until")
    reason = one_line((why or "").strip())
    if not reason:
        raise typer.BadParameter("say why: somebody else will find it muted", param_hint="--why")
    if name is None and asked is None:
        raise typer.BadParameter("name a job, a --kind, or both", param_hint="JOB")
    with writing(invocation) as cursor:
        now = database_now(cursor)
        ends = _moment(until) if lasting is None else now + duration_given(lasting, "--for")
        if not now < ends <= now + LONGEST:
            raise typer.BadParameter(
                f"{ends:%Y-%m-%d %H:%M} UTC is not within the next {LONGEST.days} days",
                param_hint="--until" if lasting is None else "--for",
            )
        new = mutes.mute(
            cursor, installation, job=name, kind=asked, until=ends, who=operator_name(), why=reason
        )
    again = " ".join(filter(None, [name, None if asked is None else f"--kind '{asked}'"]))
    typer.echo(f"{new}. To end it sooner: filejobs unmute {again}")


def unmute(context: typer.Context, job: _MuteJob = None, kind: _Which = None) -> None:
    """Tell of a job's alerts, or of one kind, again.

    Ends what was muted with the same JOB and --kind. What is wrong is told with the next look.

    [bold]Examples[/bold]
      filejobs unmute storage_orphans
      filejobs unmute --kind queued

    [bold]Exit codes[/bold]
      0   it is not muted any more
      1   it was not muted, the settings are wrong, or the database does not
          answer
      64  called wrongly
    """
    from filejobs_dagster.alerts import mutes  # noqa: PLC0415 (--help stays fast)

    name, asked = _what(job, kind)
    invocation = Invocation.of(context)
    installation = invocation.require().installation
    with writing(invocation) as cursor:
        ended = mutes.unmute(cursor, installation, job=name, kind=asked, who=operator_name())
        left = mutes.active(cursor, installation)
    for each in ended:
        typer.echo(f"Over. It was: {each}.")
    for each in left:
        typer.echo(f"Still muted: {each}.")
    if not ended:
        print_error("Nothing was muted with just these words; see `filejobs mute`.")
        raise typer.Exit(terminal.FAILED)


def _what(job: str | None, kind: str | None) -> tuple[str | None, str | None]:
    if kind is not None and kind not in get_args(Kind):
        known = ", ".join(get_args(Kind))
        raise typer.BadParameter(f"no alert is called {kind!r}; {known}", param_hint="--kind")
    return (None if job is None else job_named(job, "JOB")), kind


def _moment(text: str | None) -> datetime:
    from dateutil.parser import isoparse  # noqa: PLC0415 (--help stays fast)

    try:
        moment = isoparse((text or "").strip().replace(" ", "T", 1))
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a time; write 2026-12-01T08:00 (UTC), or with a zone",
            param_hint="--until",
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
