"""`filejobs grants`: the SQL that gives a role what the configured jobs need, and no more."""

from __future__ import annotations

from typing import Annotated

import typer
from psycopg import sql

from filejobs_dagster.cli.invocation import Invocation
from filejobs_dagster.doctor.database import FUNCTIONS, NEEDED, SEQUENCES
from filejobs_dagster.registry import BY_NAME
from filejobs_dagster.settings import Settings


def grants(
    context: typer.Context,
    role: Annotated[
        str, typer.Option("--role", help="The role of the jobs; it must exist already.")
    ] = "filejobs_collector",
) -> None:
    """Print the SQL that gives the role of the jobs its rights on the project's tables.

    For the jobs of the settings, and for what every installation does: the record, the mirror, the
    alerts. Prints only; run it as the owner of the tables, after `filejobs migrate`. The tables of
    your own that sources and rules name are yours to grant: SELECT for a source.

    [bold]Examples[/bold]
      filejobs grants
      filejobs grants --role collector | psql "$OWNER_URL"

    [bold]Exit codes[/bold]
      0  printed
      1  the settings are wrong
    """
    settings = Invocation.of(context).require()
    for statement in statements(settings, role):
        typer.echo(f"{statement.as_string()};")


def statements(settings: Settings, role: str) -> list[sql.Composed]:
    """Each GRANT, in the order of the tables."""
    needed = {table: list(privileges) for table, privileges in NEEDED}
    for job in settings.jobs:
        for table, privilege in BY_NAME[job].privileges:
            wanted = needed.setdefault(table, [])
            if privilege not in wanted:
                wanted.append(privilege)
    schema, grantee = settings.database.schema_name, sql.Identifier(role)
    usage = sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(sql.Identifier(schema), grantee)
    tables = [
        sql.SQL("GRANT {} ON {} TO {}").format(
            sql.SQL(", ").join(map(sql.SQL, privileges)), sql.Identifier(schema, table), grantee
        )
        for table, privileges in needed.items()
    ]
    sequences = [
        sql.SQL("GRANT USAGE ON SEQUENCE {} TO {}").format(sql.Identifier(schema, name), grantee)
        for name in SEQUENCES
    ]
    functions = [
        sql.SQL("GRANT EXECUTE ON FUNCTION {}.{} TO {}").format(
            sql.Identifier(schema), sql.SQL(name), grantee
        )
        for name in FUNCTIONS
    ]
    return [usage, *tables, *sequences, *functions]
