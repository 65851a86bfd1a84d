"""`filejobs bucket`: whose bucket it is, and taking one into use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.table import Table

from filejobs_dagster.cli import terminal
from filejobs_dagster.cli.lazy import help_when_alone
from filejobs_dagster.cli.terminal import (
    Invocation,
    console,
    operator_name,
    print_error,
    print_json,
    print_table,
)
from filejobs_dagster.runbook import of_refusal
from filejobs_dagster.text import sanitize

if TYPE_CHECKING:
    from filejobs_dagster.door.adoption import Adopted, AdoptionTarget, Inspection
    from filejobs_dagster.door.marker import Marker
    from filejobs_dagster.settings import Settings

app = typer.Typer(
    help="Says whose bucket it is: the marker in the bucket, and its other half in the database.",
    rich_markup_mode="rich",
    add_completion=False,
)

Entry = Annotated[
    str | None,
    typer.Argument(
        metavar="BUCKET",
        help="Its name under `buckets:` in the settings. May be left out where there is one.",
        show_default=False,
    ),
]


class Format(str, Enum):
    """How the two sides are printed."""

    TABLE = "table"
    JSON = "json"


@app.callback(invoke_without_command=True)
def _bucket(context: typer.Context) -> None:
    help_when_alone(context)


@app.command()
def adopt(
    context: typer.Context,
    bucket: Entry = None,
    again: Annotated[
        bool,
        typer.Option(
            "--again",
            help="The database was moved or restored on purpose, and takes its bucket over; or it "
            "is right although a pass of storage_orphans doubts it. Needs --reason.",
        ),
    ] = False,
    reason: Annotated[
        str | None,
        typer.Option(
            "--reason", metavar="TEXT", help="Why; goes into the audit log.", show_default=False
        ),
    ] = None,
) -> None:
    """Take a bucket into use: jobs that delete from it go live only then.

    Writes this installation's marker into the bucket, below filejobs-adopted/, and its other half
    into the table bucket_adoption: installation, environment, what it owns there, which database
    it is and on which timeline, and a counter that every live run raises. A wrong bucket, a wrong
    environment, a copied and a restored database and an old primary are told by it. Another
    installation that owns an overlapping part is refused, and shown. A bucket that is adopted
    already is left as it is, unless `owns` has changed or a standby was promoted: call it again
    then. Of databases of your own, which sources or reservations are in, it remembers the server
    and its timeline; with --again also of one that was moved, restored or left behind.

    [bold]Examples[/bold]
      filejobs bucket adopt uploads
      filejobs bucket adopt uploads --again --reason 'moved to the new server, nothing lost'

    [bold]Exit codes[/bold]
      0   the bucket belongs to this installation and this database
      1   refused or failed; the message says whose it is
      64  called wrongly
    """
    from filejobs_dagster.door.adoption import adopt as write  # noqa: PLC0415 (--help is fast)
    from filejobs_dagster.door.databases import take_over  # noqa: PLC0415
    from filejobs_dagster.door.guard import (  # noqa: PLC0415
        AdoptionRefused,
        Refusal,
    )

    _require_reason(again=again, reason=reason)
    invocation = Invocation.of(context)
    settings = invocation.require()
    entry = chosen_entry(settings, bucket)
    with opened_place(settings, entry, invocation) as place:
        try:
            adopted = write(place, by=operator_name(), again=reason if again else None)
            _tell(place, adopted)
            theirs = take_over(
                settings,
                entry,
                place.database,
                place.connection,
                by=operator_name(),
                again=reason if again else None,
            )
        except (AdoptionRefused, Refusal) as error:
            print_error(sanitize(str(error), known=invocation.secrets))
            print_error(_how_far(place))
            print_error(f"See {error.see or of_refusal('databases')}")
            raise typer.Exit(terminal.FAILED) from None
    for line in theirs:
        typer.echo(f"Your own database: {line}.")


@app.command()
def inspect(
    context: typer.Context,
    bucket: Entry = None,
    output: Annotated[
        Format, typer.Option("--format", help="table for people, json for programs.")
    ] = Format.TABLE,
) -> None:
    """Show what the bucket, the database and the settings say, side by side, and the verdict.

    Reads; changes nothing.

    [bold]Examples[/bold]
      filejobs bucket inspect uploads
      filejobs bucket inspect --format json

    [bold]Exit codes[/bold]
      0   they belong together
      1   they do not, or could not be asked
    """
    from filejobs_dagster.door import adoption  # noqa: PLC0415 (--help stays fast)
    from filejobs_dagster.door.guard import AdoptionRefused  # noqa: PLC0415

    invocation = Invocation.of(context)
    settings = invocation.require()
    entry = chosen_entry(settings, bucket)
    with opened_place(settings, entry, invocation) as place:
        found = adoption.inspect(place)
        refusal = None
        try:
            adoption.judge(place, found)
        except AdoptionRefused as error:
            refusal = f"{sanitize(str(error), known=invocation.secrets)} See {error.see}"
    rows = _rows(place, found)
    if output is Format.JSON:
        print_json(
            {
                "bucket": place.bucket,
                "marker": place.marker_key,
                "verdict": "refused" if refusal else "adopted",
                "reason": refusal,
                "others": [
                    {
                        "marker": other.key,
                        "installation": other.installation,
                        "environment": other.environment,
                        "owns": _owns(other.owns),
                    }
                    for other in found.others
                ],
                "sides": {
                    side: {name: values[place_of_side] for name, *values in rows}
                    for place_of_side, side in enumerate(("bucket", "database", "settings"))
                },
            }
        )
    else:
        _print(place, rows, refusal, found.others)
    if refusal:
        raise typer.Exit(terminal.FAILED)


@app.command("policy")
def print_policy(
    context: typer.Context,
    bucket: Entry = None,
    principal: Annotated[
        str | None,
        typer.Option(
            "--principal",
            metavar="ARN",
            help="Make it a policy of the bucket, about this account: arn:aws:iam::123456789012:"
            "role/filejobs. Without it, one to be given to an account.",
            show_default=False,
        ),
    ] = None,
    dry: Annotated[
        bool, typer.Option("--dry", help="Only what dry runs, scan and doctor need.")
    ] = False,
) -> None:
    """Print what the jobs' account may do on a bucket, as a policy of S3, and nothing else.

    It follows from the jobs of the settings, from `owns`, `protect` and `purge_versions`, and
    denies deletions everywhere else, whatever other policies allow. Prints JSON; asks nobody.

    [bold]Examples[/bold]
      filejobs bucket policy uploads > policy.json
      filejobs bucket policy uploads --principal arn:aws:iam::123456789012:role/filejobs

    [bold]Exit codes[/bold]
      0   printed
      1   the settings are wrong
      64  called wrongly
    """
    from filejobs_dagster.doctor.policy import policy  # noqa: PLC0415 (--help stays fast)

    settings = Invocation.of(context).require()
    print_json(policy(settings, chosen_entry(settings, bucket), principal, dry=dry))


def _tell(place: AdoptionTarget, adopted: Adopted) -> None:
    marker = adopted.marker
    environment = marker.environment or "none"
    typer.echo(
        f"The bucket {place.bucket} belongs to {marker.installation}, environment {environment}, "
        f"database {marker.database}; adopted by {marker.adopted_by} at {marker.adopted_at}, "
        f"counter {marker.counter}.\n"
        "Live runs may delete in it from now on: begin with a dry one."
    )
    if adopted.searched is not None:
        typer.echo(str(adopted.searched))


def _require_reason(*, again: bool, reason: str | None) -> None:
    if again and not (reason or "").strip():
        raise typer.BadParameter("say why, for the audit log", param_hint="--reason")
    if reason is not None and not again:
        raise typer.BadParameter("it goes with --again only", param_hint="--reason")


def chosen_entry(settings: Settings, asked: str | None) -> str:
    """The entry that is asked for, or the only one that owns anything."""
    if asked is None:
        meant = settings.entries_meant
        if len(meant) == 1:
            return meant[0]
        said = ", ".join(meant) or "none"
        raise typer.BadParameter(f"say which; the settings have: {said}", param_hint="BUCKET")
    names = ", ".join(settings.buckets) or "none"
    if asked not in settings.buckets:
        raise typer.BadParameter(
            f"there is no {asked!r} under `buckets:`; the settings have: {names}",
            param_hint="BUCKET",
        )
    return asked


@contextmanager
def opened_place(
    settings: Settings, entry: str, invocation: Invocation
) -> Iterator[AdoptionTarget]:
    """A bucket and the database, opened for a command."""
    from filejobs_dagster.door.adoption import AdoptionTarget  # noqa: PLC0415 (--help stays fast)
    from filejobs_dagster.objects.client import BucketUnavailable, make_client  # noqa: PLC0415
    from filejobs_dagster.postgres.connect import Database  # noqa: PLC0415

    bucket = settings.buckets[entry]
    try:
        client = make_client(bucket)
    except BucketUnavailable as error:
        _refuse(error, invocation)
    database = Database.of(settings.database)
    with database.connect("bucket") as connection:
        yield AdoptionTarget.of(settings, bucket, client, database, connection)


def _how_far(place: AdoptionTarget) -> str:
    """What stands after an adoption that did not come to its end; calling again is always safe."""
    from filejobs_dagster.door.adoption import inspect as look  # noqa: PLC0415 (boto3)

    again = "Mend that, and call `filejobs bucket adopt` again: nothing has to be undone."
    found = look(place)
    if found.row is None:
        return "Nothing was written."
    if found.marker is None and found.unreadable is None:
        return (
            "Half of it is done: the database's half is written, the marker in the bucket is not, "
            f"and no live run deletes from it. {again}"
        )
    return f"Both halves of the adoption are written; what is said above is left. {again}"


def _refuse(error: Exception, invocation: Invocation) -> NoReturn:
    print_error(sanitize(str(error), known=invocation.secrets))
    raise typer.Exit(terminal.FAILED) from None


def _rows(place: AdoptionTarget, found: Inspection) -> list[tuple[str, Any, Any, Any]]:
    """Name, and what the bucket, the database and the settings say; None for nothing."""
    from filejobs_dagster.door.server import NOT_TRIED  # noqa: PLC0415 (boto3)

    marker, row, identity = found.marker, found.row, found.identity
    return [
        (
            "installation",
            marker and marker.installation,
            row and row.installation,
            place.installation,
        ),
        ("environment", marker and marker.environment, row and row.environment, place.environment),
        ("database", marker and marker.database.name, identity.name, None),
        ("schema", marker and marker.database.schema, identity.schema, place.database.schema),
        ("server", marker and marker.database.system_identifier, identity.system_identifier, None),
        ("timeline", marker and marker.timeline, row and row.timeline, None),
        ("connected to", None, str(found.server), None),
        ("owns", marker and _owns(marker.owns), None, _owns(place.owns)),
        ("marker", marker and marker.key, None, place.marker_key),
        ("counter", marker and marker.counter, row and row.counter, None),
        (
            "adopted at",
            marker and marker.adopted_at,
            row and row.adopted_at.isoformat(timespec="seconds"),
            None,
        ),
        ("adopted by", marker and marker.adopted_by, row and row.adopted_by, None),
        (
            "conditional delete",
            None,
            row and (row.conditional_delete or NOT_TRIED),
            None,
        ),
        (
            "probed at",
            None,
            row and row.probed_at and row.probed_at.isoformat(timespec="seconds"),
            None,
        ),
    ]


def _owns(prefixes: tuple[str, ...] | None) -> str:
    if prefixes is None:
        return "not said (an older version wrote it)"
    return ", ".join(prefix or "the whole bucket" for prefix in prefixes) or "nothing"


def _print(
    place: AdoptionTarget,
    rows: list[tuple[str, Any, Any, Any]],
    refusal: str | None,
    others: tuple[Marker, ...],
) -> None:
    out = console()
    table = Table(title=place.bucket, title_justify="left")
    for heading in ("", "bucket", "database", "settings"):
        table.add_column(heading)
    for name, *values in rows:
        table.add_row(name, *("-" if value is None else str(value) for value in values))
    print_table(out, table)
    for other in others:
        out.print(f"Also here: {other.installation}, which owns {_owns(other.owns)} ({other.key}).")
    out.print(f"refused: {refusal}" if refusal else "They belong together.")
