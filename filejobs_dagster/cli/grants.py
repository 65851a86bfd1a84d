"""`filejobs grants`: the SQL that gives each role what it needs, and no more."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer

from filejobs_dagster.cli.migrate import owners_url
from filejobs_dagster.cli.terminal import Invocation, one_line, print_json
from filejobs_dagster.doctor.rights import (
    Right,
    asked_of,
    lacking,
    own_rights,
    role_of,
    statements,
    their_rights,
)
from filejobs_dagster.postgres.connect import Database, DatabaseUnavailable
from filejobs_dagster.registry import BY_NAME
from filejobs_dagster.text import sanitize

if TYPE_CHECKING:
    from filejobs_dagster.settings import Settings
    from filejobs_dagster.settings.section import Asked


class For(str, Enum):
    """Whose rights are printed."""

    JOBS = "jobs"
    STATUS = "status"
    MIRROR = "mirror"
    APPLICATION = "application"


_ROLES = {
    For.JOBS: "filejobs_collector",
    For.STATUS: "filejobs_status",
    For.MIRROR: "filejobs_mirror",
    For.APPLICATION: "application",
}


@dataclass
class _Given:
    """Rights by role, in the order in which they are printed, and what could not be told."""

    by_role: dict[str, list[Right]] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)


def grants(
    context: typer.Context,
    role: Annotated[
        str | None,
        typer.Option(
            "--role",
            help="The role, which must exist already. Without it filejobs_collector, "
            "filejobs_status, filejobs_mirror or application.",
            show_default=False,
        ),
    ] = None,
    whose: Annotated[
        For,
        typer.Option(
            "--for",
            help="jobs: who runs the jobs of the settings, code server and daemon. status: who "
            "only asks `status --check`, `runs` and `metrics`. mirror: who only calls `mirror` and "
            "`alert`. application: yours, where it uses the project's tables.",
        ),
    ] = For.JOBS,
    database: Annotated[
        str | None,
        typer.Option(
            "--database",
            metavar="NAME",
            help="Print what is needed in another database of the settings: the variable that "
            "holds its URL. The role is the one of that URL.",
            show_default=False,
        ),
    ] = None,
    url_variable: Annotated[
        str | None,
        typer.Option(
            "--database-url-env",
            metavar="NAME",
            help="The variable with the URL by which to ask which tables your statements name. "
            "Without it, that of the settings.",
            show_default=False,
        ),
    ] = None,
    missing: Annotated[
        bool, typer.Option("--missing", help="Only what the role has not yet; asks the database.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Print the SQL that gives a role its rights, for the settings as they are now.

    On the project's tables, and on those of your own that sources, rules and tables of the
    settings name: the database itself says which those are, and nothing is run there. Prints only;
    what cannot be told stands there as a comment. Run it as the owner of the tables, after
    `filejobs migrate`, and again when the settings name another job or source.

    [bold]Examples[/bold]
      filejobs grants | psql "$OWNER_URL"
      filejobs grants --for status --role watcher
      filejobs grants --database FILEJOBS_APP_DATABASE_URL | psql "$APP_OWNER_URL"

    [bold]Exit codes[/bold]
      0   printed
      1   the settings are wrong, or the database does not say what is missing
      64  called wrongly
    """
    invocation = Invocation.of(context)
    settings = invocation.require()
    asked = [one for one in asked_of(settings) if _variable(one) == database]
    there = Database.of(settings.database)
    grantee = role or _ROLES[whose]
    given = _Given()
    if database is not None:
        url = _url_of(database, asked, settings)
        grantee, there = role or role_of(url) or grantee, Database(url)
    else:
        given.by_role[grantee] = list(own_rights(settings, whose.value))
    if url_variable is not None:
        there = Database(owners_url(url_variable, invocation), there.schema)
    if whose is For.JOBS:
        try:
            _take_theirs(there, asked, grantee, given)
        except DatabaseUnavailable as error:
            if missing:
                raise
            said = sanitize(str(error), known=invocation.secrets)
            given.remarks.append(f"which tables your statements name could not be asked: {said}")
        if database is None:
            given.remarks += _elsewhere(settings)
    if missing:
        with (
            there.connect("grants") as connection,
            there.transaction(connection, read_only=True) as cursor,
        ):
            given.by_role = {
                name: lacking(cursor, rights, name, columns=database is not None)
                for name, rights in given.by_role.items()
            }
    _print(whose, given, as_json=as_json)


def _print(whose: For, given: _Given, *, as_json: bool) -> None:
    found = [
        (name, f"{each.as_string()};")
        for name, rights in given.by_role.items()
        for each in statements(dict.fromkeys(rights), name)
    ]
    if as_json:
        lines = [{"role": name, "statement": statement} for name, statement in found]
        print_json({"for": whose.value, "statements": lines, "remarks": given.remarks})
        return
    for _, statement in found:
        typer.echo(statement)
    for remark in given.remarks:
        typer.echo(f"-- {one_line(remark)}")


def _variable(asked: Asked) -> str | None:
    return None if asked.database is None else asked.database.url.env


def _url_of(variable: str, asked: list[Asked], settings: Settings) -> str:
    for one in asked:
        if one.database is not None:
            return one.database.url.reveal()
    known = sorted({name for one in asked_of(settings) if (name := _variable(one))})
    raise typer.BadParameter(
        f"nothing is asked in a database of {variable}; the settings have: "
        f"{', '.join(known) or 'no other database'}",
        param_hint="--database",
    )


def _take_theirs(database: Database, asked: list[Asked], role: str, given: _Given) -> None:
    """Add the rights on the operator's own tables; a role that reads a replica needs them too."""
    if not asked:
        return
    with database.connect("grants") as connection:
        for one in asked:
            found = their_rights(database, connection, one)
            given.by_role.setdefault(role, []).extend(found.rights)
            if not found.rights:
                given.remarks.append(f"{found.by}: yours to grant, as {found.unknown}")
            reader = None if one.replica is None else role_of(one.replica.url.reveal())
            if reader not in (None, role):
                given.by_role.setdefault(str(reader), []).extend(found.rights)


def _elsewhere(settings: Settings) -> list[str]:
    """What this database's owner cannot give."""
    others = {name for one in asked_of(settings) if (name := _variable(one)) is not None}
    remarks = [f"in the other database: filejobs grants --database {name}" for name in others]
    searched = {
        other.url.env
        for bucket in settings.buckets.values()
        for other in bucket.named_elsewhere.databases
    }
    remarks += [
        f"the search for names reads every table behind {name}; the role there may have "
        "pg_read_all_data, or name what it cannot read in named_elsewhere.ignore"
        for name in searched
    ]
    jobs = [(BY_NAME[name].touches, said) for name, said in settings.jobs.items()]
    if any(
        "objects" in touches and ("rows" not in touches or getattr(said, "tables", ()))
        for touches, said in jobs
    ):
        remarks.append(
            "the search for names reads every other table of this database; GRANT SELECT on them "
            "or pg_read_all_data, or name what it cannot read in named_elsewhere.ignore"
        )
    return sorted(remarks)
