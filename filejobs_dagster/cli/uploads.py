"""`filejobs uploads`: dead letters of upload_cleanup, and another try for them.

A dead letter is an upload that nobody tries any more, until somebody asks for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Annotated, Any
from uuid import UUID

import psycopg
import typer
from psycopg.rows import TupleRow
from rich.table import Table

from filejobs_dagster.audit.append import append
from filejobs_dagster.cli import terminal
from filejobs_dagster.cli.arguments import NOTHING, instant, moment
from filejobs_dagster.cli.lazy import help_when_alone
from filejobs_dagster.cli.terminal import (
    Invocation,
    console,
    operator_name,
    print_error,
    print_json,
    print_table,
)
from filejobs_dagster.jobs.upload_cleanup.settings import JOB
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.text import display_key, sanitize

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
        done = retry_dead_letters(
            cursor, None if everything else ids, by=operator_name(), reason=reason
        )
    for row, key in done:
        typer.echo(f"{row} is due again: {display_key(key)}")
    missing = {str(wanted) for wanted in ids} - {str(row) for row, _ in done}
    if everything and not done:
        typer.echo("No dead letters.")
    if missing:
        print_error(f"No dead letter, and left as it is: {', '.join(sorted(missing))}")
        raise typer.Exit(terminal.FAILED)


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


# Dead letters: uploads that nobody tries any more, until somebody asks for it.

_DEAD = """
SELECT id, storage_key, upload_id, attempts, collectable_at, dead_at, last_error
  FROM upload
 WHERE dead_at IS NOT NULL
 ORDER BY dead_at, id
 LIMIT %(most)s
"""

# What was tried so far is forgiven; the fencing number goes on.
_RETRY = """
UPDATE upload
   SET dead_at         = NULL,
       forgiven        = attempts,
       next_attempt_at = clock_timestamp()
 WHERE dead_at IS NOT NULL
   AND state = 'cleanup'
   AND (%(ids)s::uuid[] IS NULL OR id = any(%(ids)s::uuid[]))
RETURNING id, storage_key, attempts
"""


@dataclass(frozen=True)
class DeadLetter:
    """One upload that was given up.

    Attributes:
        id: Of the row.
        key: Of the object, which may still be there.
        provider_id: The provider's id of its multipart upload, or None.
        attempts: How often it was tried, forgiven attempts included.
        collectable_at: Since when it waits for its cleanup.
        dead_at: Since when nobody tries any more.
        last_error: What the last attempt met, sanitised.
    """

    id: UUID
    key: str
    provider_id: str | None
    attempts: int
    collectable_at: datetime
    dead_at: datetime
    last_error: str | None


def dead_letters(cursor: psycopg.Cursor[TupleRow], *, most: int) -> list[DeadLetter]:
    """The dead letters, those first that are dead the longest."""
    cursor.execute(_DEAD, {"most": most})
    return [DeadLetter(*row) for row in cursor.fetchall()]


def retry_dead_letters(
    cursor: psycopg.Cursor[TupleRow], ids: Sequence[UUID] | None, *, by: str, reason: str
) -> list[tuple[UUID, str]]:
    """Make dead letters due at once, with all attempts ahead of them, and write who asked.

    Args:
        cursor: In a transaction of the caller's.
        ids: Which; None for all of them.
        by: Who asks, for the audit log.
        reason: Why, for the audit log.

    Returns:
        Id and key of each; what is no dead letter (any more) is left out.
    """
    cursor.execute(_RETRY, {"ids": None if ids is None else list(ids)})
    rows = cursor.fetchall()
    append(
        cursor,
        [
            {
                "kind": "upload.retry",
                "job": JOB,
                "upload": str(row),
                "storage_key": key,
                "attempts": attempts,
                "by": by,
                "reason": reason,
            }
            for row, key, attempts in rows
        ],
    )
    return [(row, key) for row, key, _ in rows]
