"""`filejobs hold` and `filejobs release`: the brake, from anywhere and without a restart."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from filejobs_dagster.cli import exits
from filejobs_dagster.cli.completion import job_names
from filejobs_dagster.cli.invocation import Invocation
from filejobs_dagster.cli.output import one_line, print_error
from filejobs_dagster.cli.who import who
from filejobs_dagster.cli.words import job_named

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
            cursor, installation, name, who(), one_line(why.strip()) or "no reason given"
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
        ended = holds.release(cursor, installation, name, who())
        left = holds.open_holds(cursor, installation, name)
    if ended is not None:
        typer.echo(f"Released. It was: {ended}.")
    for each in left:
        typer.echo(f"Still held: {each}. To go on: {each.release}")
    if ended is None and not left:
        print_error(f"{'Every job' if name is None else name} was not held; see `filejobs hold`.")
    if ended is None:
        raise typer.Exit(exits.FAILED)


@contextmanager
def writing(invocation: Invocation) -> Iterator[psycopg.Cursor[TupleRow]]:
    """A transaction on the installation's database."""
    from filejobs_dagster.postgres.connect import Database  # noqa: PLC0415

    database = Database.of(invocation.require().database)
    with database.connect("hold") as connection, database.transaction(connection) as cursor:
        yield cursor
