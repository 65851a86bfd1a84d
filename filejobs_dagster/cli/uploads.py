"""`filejobs uploads`: dead letters of upload_cleanup, and another try for them."""

from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer
from rich.table import Table

from filejobs_dagster.cli import exits
from filejobs_dagster.cli.invocation import Invocation
from filejobs_dagster.cli.lazy import help_when_alone
from filejobs_dagster.cli.output import console, print_error, print_json, print_table
from filejobs_dagster.cli.who import who
from filejobs_dagster.cli.words import NOTHING, instant, moment
from filejobs_dagster.ledger.sanitize import display_key, sanitize
from filejobs_dagster.postgres.connect import Database

if TYPE_CHECKING:
    from filejobs_dagster.jobs.upload_cleanup.dead_letters import DeadLetter

HELP = """
Cancelled uploads whose object could not be removed, and another try for them.

[bold]Examples[/bold]
  filejobs uploads dead
  filejobs uploads retry --all --reason 'the bucket is writable again'

[bold]Exit codes[/bold]
  0   done
  1   refused or failed, with the reason on standard error
  64  called wrongly
"""

app = typer.Typer(
    help=HELP,
    rich_markup_mode="rich",
    add_completion=False,
)


class Format(str, Enum):
    """How dead letters are printed."""

    TABLE = "table"
    JSON = "json"


@app.callback(invoke_without_command=True)
def _uploads(context: typer.Context) -> None:
    help_when_alone(context)


@app.command()
def dead(
    context: typer.Context,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=100_000, help="The most to show.")
    ] = 100,
    output: Annotated[
        Format, typer.Option("--format", help="table for people, json for programs.")
    ] = Format.TABLE,
) -> None:
    """List dead letters: uploads that upload_cleanup has given up, and what each met last.

    A dead letter still names its object, which may still be there. Nobody tries any more, and the
    job reads behind, until the cause is mended and somebody calls `filejobs uploads retry`.

    Reads in a read-only transaction; changes nothing.

    [bold]Examples[/bold]
      filejobs uploads dead
      filejobs uploads dead --format json

    [bold]Exit codes[/bold]
      0   shown, also when there is none
      1   the settings are wrong, or the database does not answer
      64  called wrongly
    """
    from filejobs_dagster.jobs.upload_cleanup.dead_letters import (  # noqa: PLC0415 (heavy)
        dead_letters,
    )

    invocation = Invocation.of(context)
    database = Database.of(invocation.require().database)
    with (
        database.connect("dead letters") as connection,
        database.transaction(connection, read_only=True) as cursor,
    ):
        found = dead_letters(cursor, most=limit)
    if output is Format.JSON:
        print_json([_document(letter, invocation.secrets) for letter in found])
    elif found:
        _print(found, invocation.secrets)
    else:
        typer.echo("No dead letters.")


@app.command()
def retry(
    context: typer.Context,
    upload: Annotated[
        list[UUID] | None,
        typer.Argument(metavar="ID...", help="Ids of dead letters.", show_default=False),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every dead letter.")] = False,
    reason: Annotated[
        str,
        typer.Option(
            "--reason", metavar="TEXT", help="Why; goes into the audit log.", show_default=False
        ),
    ] = "",
) -> None:
    """Let upload_cleanup try dead letters again, with all attempts ahead of them.

    Removes nothing itself: the next live run of upload_cleanup takes them. What is no dead letter
    (any more) is named, and left as it is.

    [bold]Examples[/bold]
      filejobs uploads retry 0f5a0c0e-0000-4000-8000-000000000001 --reason 'the policy is mended'
      filejobs uploads retry --all --reason 'the bucket is writable again'

    [bold]Exit codes[/bold]
      0   done
      1   one of the ids is no dead letter; or the database does not answer
      64  called wrongly
    """
    from filejobs_dagster.jobs.upload_cleanup.dead_letters import (  # noqa: PLC0415 (heavy)
        retry_dead_letters,
    )

    ids = list(upload or [])
    if bool(ids) == everything:
        raise typer.BadParameter("give ids, or --all; not both", param_hint="ID")
    if not reason.strip():
        raise typer.BadParameter("say why, for the audit log", param_hint="--reason")
    database = Database.of(Invocation.of(context).require().database)
    with (
        database.connect("retry") as connection,
        database.transaction(connection) as cursor,
    ):
        done = retry_dead_letters(cursor, None if everything else ids, by=who(), reason=reason)
    for row, key in done:
        typer.echo(f"{row} is due again: {display_key(key)}")
    missing = {str(wanted) for wanted in ids} - {str(row) for row, _ in done}
    if everything and not done:
        typer.echo("No dead letters.")
    if missing:
        print_error(f"No dead letter, and left as it is: {', '.join(sorted(missing))}")
        raise typer.Exit(exits.FAILED)


def _document(letter: "DeadLetter", secrets: tuple[str, ...]) -> dict[str, Any]:
    return {
        "id": str(letter.id),
        "storage_key": letter.key,
        "upload_id": letter.provider_id,
        "attempts": letter.attempts,
        "collectable_at": instant(letter.collectable_at),
        "dead_at": instant(letter.dead_at),
        "last_error": None
        if letter.last_error is None
        else sanitize(letter.last_error, known=secrets),
    }


def _print(found: list["DeadLetter"], secrets: tuple[str, ...]) -> None:
    table = Table(pad_edge=False, show_edge=False)
    for heading in ("id", "key", "attempts", "cancelled (UTC)", "dead (UTC)", "met last"):
        table.add_column(heading, overflow="fold")
    for letter in found:
        table.add_row(
            str(letter.id),
            display_key(letter.key),
            str(letter.attempts),
            moment(letter.collectable_at),
            moment(letter.dead_at),
            sanitize(letter.last_error, known=secrets) if letter.last_error else NOTHING,
        )
    print_table(console(), table)
