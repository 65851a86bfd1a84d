"""`filejobs migrate`: makes or updates the project's tables."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer
from psycopg.conninfo import make_conninfo

from filejobs_dagster.cli import terminal
from filejobs_dagster.cli.terminal import Invocation, print_error
from filejobs_dagster.postgres import migrate as migrations
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.postgres.inventory import changes

if TYPE_CHECKING:
    from collections.abc import Sequence


def migrate(
    context: typer.Context,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print the SQL that is outstanding, and change nothing."),
    ] = False,
    database_url_env: Annotated[
        str | None,
        typer.Option(
            "--database-url-env",
            metavar="NAME",
            help="Connect with the URL in this environment variable, for instance as the role "
            "that owns the tables. The settings file is then not read.",
            show_default=False,
        ),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            "--schema",
            metavar="SCHEMA",
            help="The schema of the tables. Only with --database-url-env (then: public); "
            "otherwise the settings name it.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Make the project's tables, or bring them to this version.

    Reads the connection from filejobs.yaml. Applies what is outstanding in one transaction and
    under a lock: two calls at once wait for each other, and a failure leaves everything as it was.
    A file that was changed after it had been applied is refused, and so is a database that a newer
    version has migrated. The role needs CREATE on the schema.

    What locks a large table says so before: nobody writes that table meanwhile, and a run or an
    application that holds it makes the migration give up after seconds, with nothing changed. An
    index of a very large table is built before, CONCURRENTLY: that may take long, and locks out
    nobody. What was built stays when the rest fails.

    Then compares the schema with what the migrations make: a trigger that somebody switched off,
    a constraint that is gone. Each is named with the statement that mends it, which is left to you.

    [bold]Examples[/bold]
      filejobs migrate --dry-run
      filejobs migrate --dry-run | psql -v ON_ERROR_STOP=1 "$OWNER_URL"
      filejobs migrate --database-url-env OWNER_URL --schema filejobs

    [bold]Exit codes[/bold]
      0   everything is applied, or was already, and is there
      1   refused or failed, and nothing was changed; or something of what
          the migrations made is gone, off or another thing by now
      64  called wrongly
    """
    database = _database(Invocation.of(context), database_url_env, schema)
    _tell_locks(database)
    if dry_run:
        sys.stdout.write(_script(database))
        _require_unchanged(database)
        return
    applied = migrations.migrate(
        make_conninfo(database.url, **database.tls), database.schema, beforehand=_say_beforehand
    )
    for migration in applied:
        typer.echo(f"applied {migration.name}")
    _require_unchanged(database)
    if not applied:
        typer.echo(f"nothing to do: the schema {database.schema} is up to date")


def _say_beforehand(statement: str) -> None:
    """Say what is built, because it may take an hour."""
    typer.echo(f"first, while everybody goes on reading and writing: {statement}")


def _tell_locks(database: Database) -> None:
    """Say of large tables that nobody can write them meanwhile."""
    # The first look, too: it says what is wrong with an address without repeating the address.
    with (
        database.connect("a look at the migrations") as connection,
        database.transaction(connection, read_only=True) as cursor,
    ):
        for lock in migrations.locked(cursor, migrations.outstanding_in(cursor)):
            print_error(f"{lock} until it is over: nobody writes there meanwhile.")


def _require_unchanged(database: Database) -> None:
    """Name what is not as the migrations made it, unless some of them are outstanding."""
    with (
        database.connect("what the migrations made") as connection,
        database.transaction(connection, read_only=True) as cursor,
    ):
        if migrations.outstanding_in(cursor):
            return
        found = changes(cursor, database.schema)
    if found:
        print_error(
            f"Every migration is applied, and the schema {database.schema} is not as they made it:"
            + "".join(f"\n- {change}" for change in found)
            + "\nLive runs are refused meanwhile. Find out who changed it, and mend it."
        )
        raise typer.Exit(terminal.FAILED)


def _database(invocation: Invocation, variable: str | None, schema: str | None) -> Database:
    if variable is None:
        if schema is not None:
            raise typer.BadParameter(
                "it goes with --database-url-env only; otherwise write database.schema in the "
                "settings, so that the jobs find the tables too",
                param_hint="--schema",
            )
        return Database.of(invocation.require().database)
    return Database(owners_url(variable, invocation), schema or "public")


def owners_url(variable: str, invocation: Invocation) -> str:
    """The URL in a variable, kept out of everything that is printed.

    Raises:
        typer.BadParameter: The variable is not set.
    """
    url = os.environ.get(variable, "")
    if not url.strip():
        raise typer.BadParameter(
            f"the environment variable {variable} is not set or empty; put the database's URL "
            "into it",
            param_hint="--database-url-env",
        )
    invocation.hide(url)
    return url


def _script(database: Database) -> str:
    outstanding = migrations.outstanding(database)
    if not outstanding:
        return f"-- nothing to do: no migration is outstanding for the schema {database.schema}\n"
    return migration_script(outstanding, database.schema, make_schema=_lacks_schema(database))


def _lacks_schema(database: Database) -> bool:
    with (
        database.connect("migrations") as connection,
        database.transaction(connection, read_only=True) as cursor,
    ):
        cursor.execute("SELECT FROM pg_namespace WHERE nspname = %s", (database.schema,))
        return cursor.fetchone() is None


def migration_script(
    outstanding: Sequence[migrations.Migration], schema: str, *, make_schema: bool
) -> str:
    """The outstanding migrations as one SQL script that does what `filejobs migrate` does.

    Args:
        outstanding: In their order.
        schema: Where the tables go.
        make_schema: True when the schema is not there yet.
    """
    quoted = '"' + schema.replace('"', '""') + '"'
    path = (quoted + ", pg_temp").replace("'", "''")
    parts = [
        f"-- {len(outstanding)} outstanding, for the schema {quoted}.",
        "-- Stop at the first error: psql -v ON_ERROR_STOP=1",
        "BEGIN;",
        f"{migrations.LOCK};",
        *([f"CREATE SCHEMA {quoted};"] if make_schema else []),
        f"SELECT set_config('search_path', '{path}', true);",
        f"{migrations.RECORD_TABLE.strip()};",
    ]
    for migration in outstanding:
        parts += [
            "",
            f"-- {migration.name}",
            migration.text.rstrip(),
            "INSERT INTO filejobs_migration (number, name, checksum)",
            f"VALUES ({migration.number}, '{migration.name}', '{migration.checksum}');",
        ]
    return "\n".join([*parts, "", "COMMIT;", ""])
