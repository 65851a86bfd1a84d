"""`filejobs backup check`: would a dump come back whole, and is this database a restored one?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from filejobs_dagster.cli.doctor import Format, report
from filejobs_dagster.cli.lazy import help_when_alone
from filejobs_dagster.cli.terminal import Invocation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.doctor.finding import Finding
    from filejobs_dagster.postgres.connect import Connection, Database
    from filejobs_dagster.settings import Settings

PAGE = "docs/backup.md"

app = typer.Typer(
    help="Looks whether a dump of the database and a copy of the bucket belong together.",
    rich_markup_mode="rich",
    add_completion=False,
)

_NOT_READABLE = """
SELECT format('%I.%I', n.nspname, c.relname)
  FROM pg_class AS c
  JOIN pg_namespace AS n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p', 'm', 'S')
   AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
   AND (NOT CASE c.relkind WHEN 'S' THEN has_sequence_privilege(c.oid, 'SELECT')
                           ELSE has_table_privilege(c.oid, 'SELECT') END
        OR row_security_active(c.oid))
 ORDER BY 1
"""

SHOWN = 5


@app.callback(invoke_without_command=True)
def _backup(context: typer.Context) -> None:
    help_when_alone(context)


@app.command()
def check(
    context: typer.Context,
    output: Annotated[
        Format, typer.Option("--format", help="text for people, json for programs.")
    ] = Format.TEXT,
) -> None:
    """Look at what a backup must hold, and whether what is connected is a restored one.

    Says which databases belong together, whether this account could dump all of this one, whether
    each bucket's marker and the database count alike, what can be brought back of what is deleted
    after the dump, whether live runs are held meanwhile, and whether the audit chains reach as far
    as their pins. Reads; changes nothing. Call it before a backup, and after a restore.

    [bold]Examples[/bold]
      filejobs backup check
      filejobs backup check --format json

    [bold]Exit codes[/bold]
      0   nothing failed; warnings are allowed
      1   something does not belong together, or could not be asked
    """
    invocation = Invocation.of(context)
    settings = invocation.require()
    report(_findings(settings, invocation), output)


def _findings(settings: Settings, invocation: Invocation) -> Iterator[Finding]:
    from filejobs_dagster.postgres.connect import Database  # noqa: PLC0415 (--help stays fast)
    from filejobs_dagster.text import sanitize  # noqa: PLC0415

    database = Database.of(settings.database)
    with database.connect("backup") as connection:
        for look in (_database, _buckets, _holds, _audit):
            for finding in look(settings, database, connection):
                yield replace(
                    finding, found=sanitize(finding.found, known=invocation.secrets), page=PAGE
                )


def _database(settings: Settings, database: Database, connection: Connection) -> Iterator[Finding]:
    from filejobs_dagster.doctor.finding import ok, warning  # noqa: PLC0415 (--help stays fast)
    from filejobs_dagster.door.databases import operators  # noqa: PLC0415
    from filejobs_dagster.postgres.connect import one  # noqa: PLC0415

    with database.transaction(connection, read_only=True) as cursor:
        name, size = one(
            cursor.execute(
                "SELECT current_database(), pg_size_pretty(pg_database_size(current_database()))"
            )
        )
        refused = [row[0] for row in cursor.execute(_NOT_READABLE)]
    if refused:
        more = f" and {len(refused) - SHOWN} more" if len(refused) > SHOWN else ""
        yield warning(
            "dump",
            f"this account cannot dump all of {name}: {', '.join(refused[:SHOWN])}{more}",
            "dump with the account that owns the tables, or a member of pg_read_all_data",
        )
    else:
        yield ok("dump", f"{name}, {size}: this account may dump all of it")
    others = operators(settings, settings.buckets, database)
    if others:
        yield warning(
            "other databases",
            f"rows in {', '.join(sorted(others))} name objects, too",
            "dump them in the same hold; each is recognised after a restore by itself",
        )


def _buckets(settings: Settings, database: Database, connection: Connection) -> Iterator[Finding]:
    from filejobs_dagster.doctor.finding import failed, ok, warning  # noqa: PLC0415
    from filejobs_dagster.door import adoption  # noqa: PLC0415 (boto3)
    from filejobs_dagster.door.guard import AdoptionRefused  # noqa: PLC0415
    from filejobs_dagster.objects.client import make_client, read_versioning  # noqa: PLC0415
    from filejobs_dagster.objects.errors import BucketUnavailable  # noqa: PLC0415

    for entry, bucket in settings.buckets.items():
        if bucket.owns_nothing:
            continue
        name = f"bucket {entry}"
        try:
            client = make_client(bucket)
            place = adoption.AdoptionTarget.of(settings, bucket, client, database, connection)
            adopted = adoption.check(place)
            versioning = read_versioning(client, bucket.bucket)
        except AdoptionRefused as error:
            yield failed(name, str(error), "no live run begins until then")
            continue
        except BucketUnavailable as error:
            yield failed(name, str(error), "a backup needs the bucket, too")
            continue
        counts = f"its marker counts {adopted.marker.counter}, the database {adopted.row.counter}"
        if versioning == "enabled" and not bucket.purge_versions:
            yield ok(name, f"{counts}; it keeps versions, so a deletion can be undone")
        else:
            yield warning(
                name,
                f"{counts}; it keeps no versions, so what a live run deletes after the dump is "
                "missing once the dump is back",
                "hold live runs, dump, copy the bucket, release; or switch versioning on",
            )


def _holds(settings: Settings, database: Database, connection: Connection) -> Iterator[Finding]:
    from filejobs_dagster.doctor.finding import ok, warning  # noqa: PLC0415 (--help stays fast)
    from filejobs_dagster.door.hold import open_holds  # noqa: PLC0415

    with database.transaction(connection, read_only=True) as cursor:
        every = [it for it in open_holds(cursor, settings.installation) if it.job is None]
    if every:
        yield ok("hold", str(every[0]))
    else:
        yield warning(
            "hold",
            "live runs are not held, and may delete between the dump and the copy of the bucket",
            "filejobs hold --why backup; filejobs release once both are complete",
        )


def _audit(settings: Settings, database: Database, connection: Connection) -> Iterator[Finding]:
    from filejobs_dagster.audit.origin import Origin  # noqa: PLC0415 (--help stays fast)
    from filejobs_dagster.audit.pins.read import read_pins  # noqa: PLC0415
    from filejobs_dagster.audit.pins.store import PinStoreUnusable  # noqa: PLC0415
    from filejobs_dagster.audit.tables import (  # noqa: PLC0415
        chain_names,
        read_chain,
        read_seals,
    )
    from filejobs_dagster.doctor.finding import failed, ok, warning  # noqa: PLC0415
    from filejobs_dagster.jobs.audit_setup import origin_of, store_of  # noqa: PLC0415
    from filejobs_dagster.objects.errors import BucketUnavailable  # noqa: PLC0415

    place = settings.audit.pins
    if place is None:
        yield warning(
            "audit pins",
            "there is no place outside of the database, so an audit log that was restored looks "
            "whole",
            "write audit.pins; a backup must not hold the only copy of them",
        )
        return
    with database.transaction(connection, read_only=True) as cursor:
        chains = {
            name: (read_chain(cursor, database, name), read_seals(cursor, database, name))
            for name in chain_names(cursor, database)
        }
    try:
        store = store_of(settings, place)
        for name, (row, seals) in chains.items():
            newest = max((seal.seal_no for seal in seals), default=0)
            incarnation = 1 if row is None else row.incarnation
            pinned = read_pins(store, Origin(origin_of(settings), name), lambda _: False)
            there = max((key[1] for key in pinned.seals if key[0] >= incarnation), default=0)
            if there > newest or pinned.incarnation > incarnation:
                yield failed(
                    f"audit pins {name}",
                    f"seal {there} is pinned and the database has {newest}: it is older than its "
                    "pins",
                    "filejobs verify says what is lost; filejobs audit restore --reason '…' goes "
                    "on from here",
                )
            else:
                yield ok(f"audit pins {name}", f"the database has every pinned seal, to {newest}")
    except (PinStoreUnusable, BucketUnavailable) as error:
        yield failed("audit pins", str(error), "until they are read, a restored log looks whole")
