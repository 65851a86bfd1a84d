"""`filejobs mute` and `filejobs unmute`: silence for a while, with a name and a reason."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Annotated, get_args

import typer

from filejobs_dagster.alerts.words import Kind
from filejobs_dagster.cli import exits
from filejobs_dagster.cli.completion import job_names
from filejobs_dagster.cli.invocation import Invocation
from filejobs_dagster.cli.output import one_line, print_error
from filejobs_dagster.cli.who import who
from filejobs_dagster.cli.words import duration_given, job_named

LONGEST = timedelta(days=30)
"""Silence that outlives the memory of whoever asked for it is no silence but blindness."""

_Job = Annotated[
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
    job: _Job = None,
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
    from filejobs_dagster.cli.hold import writing  # noqa: PLC0415
    from filejobs_dagster.postgres.clock import database_now  # noqa: PLC0415

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
            cursor, installation, job=name, kind=asked, until=ends, who=who(), why=reason
        )
    again = " ".join(filter(None, [name, None if asked is None else f"--kind '{asked}'"]))
    typer.echo(f"{new}. To end it sooner: filejobs unmute {again}")


def unmute(context: typer.Context, job: _Job = None, kind: _Which = None) -> None:
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
    from filejobs_dagster.cli.hold import writing  # noqa: PLC0415

    name, asked = _what(job, kind)
    invocation = Invocation.of(context)
    installation = invocation.require().installation
    with writing(invocation) as cursor:
        ended = mutes.unmute(cursor, installation, job=name, kind=asked, who=who())
        left = mutes.active(cursor, installation)
    for each in ended:
        typer.echo(f"Over. It was: {each}.")
    for each in left:
        typer.echo(f"Still muted: {each}.")
    if not ended:
        print_error("Nothing was muted with just these words; see `filejobs mute`.")
        raise typer.Exit(exits.FAILED)


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
