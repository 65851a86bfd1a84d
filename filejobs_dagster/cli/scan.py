"""`filejobs scan`: what a bucket holds and which columns name it, before anything is installed."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from filejobs_dagster.cli import terminal
from filejobs_dagster.cli.terminal import Invocation, console, print_error, print_json, print_table
from filejobs_dagster.scan.page import (
    headline,
    how,
    missing_lines,
    require_plots,
    share,
    size_of,
    unsure_lines,
    uploads_in_words,
    write_page,
)
from filejobs_dagster.scan.result import CLASSES, Scan, Slice

if TYPE_CHECKING:
    from typing_extensions import Self

DATABASE_VARIABLE = "FILEJOBS_DATABASE_URL"
MOST_ROWS = 12
SECONDS_BETWEEN_LINES = 10.0
SECONDS_BETWEEN_LOOKS = 0.2


class Format(str, Enum):
    """How the result is printed."""

    TABLE = "table"
    JSON = "json"


def scan(  # noqa: PLR0917 (each is an option)
    context: typer.Context,
    bucket: Annotated[str, typer.Option("--bucket", metavar="NAME", help="The bucket's name.")],
    database_url: Annotated[
        str | None,
        typer.Option(
            "--database-url",
            metavar="URL",
            envvar=DATABASE_VARIABLE,
            show_envvar=False,
            help="The application's database, best given as FILEJOBS_DATABASE_URL: others on this "
            "machine can read what stands on a command line.",
            show_default=False,
        ),
    ] = None,
    endpoint_url: Annotated[
        str | None,
        typer.Option(
            "--endpoint-url",
            metavar="URL",
            help="The object store's address, for anything but AWS.",
            show_default=False,
        ),
    ] = None,
    region: Annotated[
        str | None,
        typer.Option("--region", metavar="NAME", help="Its region.", show_default=False),
    ] = None,
    prefix: Annotated[
        str, typer.Option("--prefix", metavar="PREFIX", help="Look below this prefix only.")
    ] = "",
    sample: Annotated[
        int | None,
        typer.Option(
            "--sample",
            metavar="N",
            min=1000,
            help="Look at about N objects, at places here and there, instead of listing all. "
            "Finds the columns in a bucket of any size; the amounts are then the sample's.",
            show_default=False,
        ),
    ] = None,
    max_minutes: Annotated[
        int,
        typer.Option(
            "--max-minutes",
            metavar="MINUTES",
            min=1,
            help="How long the database is read at most. What was not reached is named.",
        ),
    ] = 15,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html",
            metavar="FILE",
            help="Write the report as one page with plots, too. Needs the extra `scan`.",
            show_default=False,
        ),
    ] = None,
    scratch: Annotated[
        Path | None,
        typer.Option(
            "--scratch-dir",
            metavar="FOLDER",
            help="Where keys are sorted: about 0.5 KB for each object. Without it, the system's "
            "temporary folder.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Format, typer.Option("--format", help="table for people, json for programs.")
    ] = Format.TABLE,
) -> None:
    """Find which columns of a database name a bucket's objects, and what nothing names.

    Needs nothing but a database and a bucket: no settings file, no table of this project, no
    Dagster. Nothing is written to either side; a role with SELECT alone, and the rights
    s3:ListBucket and s3:ListBucketMultipartUploads, are enough.

    The bucket is listed; samples of every text, JSON, array, uuid, bytea and XML column are
    compared with its keys: as they are, with something before or behind, in URLs, decoded, by
    folder, by stem. Each column that names keys is then read to its end, in statements of a few
    seconds, and compared with the listing on disk. What nothing names is looked for once more, by
    its name, in all columns.

    [bold]What the classes mean[/bold]
      referenced    a row names the object
      derived       it is made from one that a row names: a thumbnail, a variant
      unsure        something weak speaks for it; the reasons are listed
      unreferenced  nothing that was looked at names it. Look at *not looked at*
                    before you believe it; a scan deletes nothing, and no list of
                    it is fit to delete by

    Ctrl-C ends early, with a report of what is known by then.

    [bold]Examples[/bold]
      export FILEJOBS_DATABASE_URL=postgresql://reader:…@db.example.com/app
      filejobs scan --bucket acme-uploads --html report.html
      filejobs scan --bucket acme-uploads --endpoint-url https://s3.example.com
      filejobs scan --bucket acme-uploads --sample 200000 --json > scan.json

    Keys for the bucket come from FILEJOBS_S3_ACCESS_KEY_ID and
    FILEJOBS_S3_SECRET_ACCESS_KEY, else from botocore's own search.

    [bold]Exit codes[/bold]
      0    scanned
      1    refused or failed; the message says what to do
      64   called wrongly
      130  interrupted; the report says how far it came
    """
    from filejobs_dagster.scan.scanning import Options  # noqa: PLC0415 (--help is fast)
    from filejobs_dagster.scan.scanning import scan as look  # noqa: PLC0415

    if not database_url:
        raise typer.BadParameter(
            f"no database: set {DATABASE_VARIABLE}, for instance to "
            "postgresql://reader:password@host:5432/name",
            param_hint="--database-url",
        )
    Invocation.of(context).hide(database_url)
    if html is not None:
        require_plots()
        if not html.parent.is_dir():
            raise typer.BadParameter(f"there is no folder {html.parent}", param_hint="--html")
    options = Options(
        database_url,
        bucket,
        prefix,
        endpoint_url,
        region,
        sample,
        timedelta(minutes=max_minutes),
        scratch,
    )
    with _Progress() as progress:
        found = look(options, progress.say)
    if html is not None:
        write_page(found, html)
    if output is Format.JSON:
        print_json(found.model_dump(mode="json"))
    else:
        _print(console(), found)
        if html is not None:
            typer.echo(f"The page is in {html}.")
    if found.stopped:
        print_error(found.stopped)
        raise typer.Exit(terminal.INTERRUPTED)


def _print(out: Console, found: Scan) -> None:
    """The report for people."""
    out.print(headline(found), style="bold")
    out.print()
    _print_rows(
        out,
        ("class", "objects", "size", "share"),
        [
            (what, f"{amount.objects:,}", size_of(amount.bytes), share(amount.bytes, found))
            for what in CLASSES
            for amount in [found.total.of(what)]
        ],
    )
    believed = [each for each in found.sources if not each.redundant]
    _print_rows(
        out,
        ("column that names objects", "objects", "size", "values", "no object", "how"),
        [
            (
                f"{each.column} {each.path}".rstrip(),
                f"{each.objects.objects:,}",
                size_of(each.objects.bytes),
                f"{each.values:,}",
                "" if each.missing is None else f"{each.missing:,}",
                how(each),
            )
            for each in believed
        ],
    )
    also = ", ".join(each.column for each in found.sources if each.redundant)
    if also:
        out.print(f"Also named, and by the columns above, too: {also}.\n")
    _print_rows(
        out,
        ("made from another object", "objects", "size", "of", "for instance"),
        [
            (
                f"{each.match}{' (unsure)' if each.unsure else ''}",
                f"{each.objects.objects:,}",
                size_of(each.objects.bytes),
                f"{each.owners:,}",
                each.sample,
            )
            for each in found.shapes
        ],
    )
    for heading, slices in (("prefix", found.prefixes), ("age", found.ages)):
        _print_slices(out, heading, slices)
    _print_uploads(out, found)
    for title, lines in (
        ("Rows whose object is missing", missing_lines(found)),
        ("Unsure", unsure_lines(found)),
        ("Not looked at", [f"{each.what}: {each.why}" for each in found.unseen]),
    ):
        _print_list(out, title, lines)
    _print_list(out, "Unreferenced, for instance", found.unreferenced_sample)


def _print_rows(out: Console, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if not rows:
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    for heading in headings:
        is_number = heading in _NUMBERS
        table.add_column(heading, overflow="fold", justify="right" if is_number else "left")
    for row in rows:
        table.add_row(*row)
    print_table(out, table)
    out.print()


_NUMBERS = ("objects", "size", "share", "values", "no object", "of", *CLASSES)


def _print_slices(out: Console, heading: str, slices: Sequence[Slice]) -> None:
    rows = [
        (each.label, *(size_of(each.of(what).bytes) for what in CLASSES))
        for each in slices[:MOST_ROWS]
    ]
    if len(slices) > MOST_ROWS:
        rows.append((f"and {len(slices) - MOST_ROWS} more", "", "", "", ""))
    _print_rows(out, (heading, *CLASSES), rows)


def _print_uploads(out: Console, found: Scan) -> None:
    it = found.uploads
    if it is not None:
        out.print(f"Half-sent multipart uploads: {uploads_in_words(it)}\n")


def _print_list(out: Console, title: str, lines: Sequence[str]) -> None:
    if not lines:
        return
    out.print(title, style="bold")
    for line in lines[:MOST_ROWS]:
        out.print(f"  {line}")
    if len(lines) > MOST_ROWS:
        out.print(f"  and {len(lines) - MOST_ROWS} more; --json has them all")
    out.print()


class _Progress:
    """One line on standard error: in place on a terminal, else a new one now and then."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._next = 0.0
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_said: object) -> None:
        if self._shown and self._is_terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def say(self, line: str) -> None:
        """Show where the scan is."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + (SECONDS_BETWEEN_LOOKS if self._is_terminal else SECONDS_BETWEEN_LINES)
        self._shown = True
        width = max(20, shutil.get_terminal_size().columns - 1)
        sys.stderr.write(f"\r\x1b[K{line[:width]}" if self._is_terminal else f"{line}\n")
        sys.stderr.flush()
