"""`filejobs rehearse`: the real sweep on a copy, before it is let into the bucket."""

from __future__ import annotations

import signal
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from filejobs_dagster.cli import terminal
from filejobs_dagster.cli.arguments import number
from filejobs_dagster.cli.terminal import Invocation, console, print_error, print_json
from filejobs_dagster.rehearse.page import (
    all_canaries,
    by_hash,
    not_rehearsed,
    other_in_words,
    page,
)
from filejobs_dagster.text import bounded, sanitize

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MOST_LINES = 15
LONGEST = 160
"""Characters of what stopped a rule's loss; --json has it all."""


class Format(str, Enum):
    """How the report is printed."""

    TABLE = "table"
    JSON = "json"


def rehearse(  # noqa: PLR0917 (each is an option)
    context: typer.Context,
    most_objects: Annotated[
        int,
        typer.Option(
            "--most-objects",
            metavar="N",
            min=1,
            help="Refuse a bucket with more: the store keeps about 0.4 KB of each in memory.",
        ),
    ] = 250_000,
    all_tables: Annotated[
        bool,
        typer.Option(
            "--all-tables",
            help="Copy every table that the role may read, whole. The search for names elsewhere "
            "then finds what it finds in the real database.",
        ),
    ] = False,
    mutations: Annotated[
        bool, typer.Option("--mutations/--no-mutations", help="Leave out each rule in turn.")
    ] = True,
    without: Annotated[
        list[str] | None,
        typer.Option(
            "--without",
            metavar="RULE",
            help="Leave out this rule alone, as the report names it; may be given several times.",
            show_default=False,
        ),
    ] = None,
    scratch: Annotated[
        Path | None,
        typer.Option(
            "--scratch-dir",
            metavar="FOLDER",
            help="Where the listing is kept meanwhile. Without it, the system's temporary folder.",
            show_default=False,
        ),
    ] = None,
    dump: Annotated[
        Path | None,
        typer.Option(
            "--dump",
            metavar="FILE",
            help="Take the rows from a dump of the database (pg_dump: custom, directory, tar or "
            "plain) instead of the database itself.",
            show_default=False,
        ),
    ] = None,
    listing: Annotated[
        Path | None,
        typer.Option(
            "--listing",
            metavar="FILE",
            help="Take the objects from a CSV with the columns key (or key_percent_encoded), size "
            "and last_modified, or from the manifest.json of an S3 Inventory in CSV or Parquet, "
            "instead of the bucket itself.",
            show_default=False,
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", metavar="FILE", help="Write the report as a page, too.", show_default=False
        ),
    ] = None,
    output: Annotated[
        Format, typer.Option("--format", help="table for people, json for programs.")
    ] = Format.TABLE,
) -> None:
    """Run the real storage_orphans on a copy: dry, a day later, live there.

    The columns that the sources read are copied from one read-only snapshot of your database, and
    their sizes are said before; the listing becomes empty objects of the same keys, sizes and
    times. Both are kept by servers on this machine, made for it and removed at the end. A role
    with SELECT, and s3:ListBucket, are enough. The sweep works in a process that knows no address
    and no credentials of yours.

    Then files are planted: an orphan of each prefix and rewrite must go, a live file of each
    source must stay. Then each source, transform, rewrite and protection is left out in turn: how
    many objects would have gone by exact names alone, how many went, and what stopped the rest.
    What nothing stopped stands first, in red.

    Where all went as it must, a hash stands at the end: `filejobs run storage_orphans --live
    --rehearsed HASH` is let in by it, for two weeks, while installation, bucket, database, sources
    and rules are those that were rehearsed. All runs by it remove no more objects than went here.
    A dump is known by the moment at which its database adopted the bucket: take it after that, or
    there is no hash. Another installation's is refused. A copy of the database that went its own
    way since is not noticed, but for its size: where the real sources name twice or half as many
    keys, the run is refused. The hash is all that has to come from this machine to that of the run.

    [bold]What this version does not do[/bold]
      Of the other jobs it rehearses those that take rows and what they name, each by itself; it
      names the rest. Rows are planted for them as copies of rows that are there; the report says
      for which table that was not possible. It deletes at once, where the real one may keep copies
      first (two requests more for each). Versions, locks and metadata of objects are not copied;
      nor are functions, extensions (their types become text), triggers and checks of tables.
      Without --all-tables only what the sources read is there: what something else names goes in
      the rehearsal, and is kept by the real one. There is no rehearsal of a sample: what is left
      out of a listing looks missing, so that no breaker would say what the real one says.

    [bold]Examples[/bold]
      filejobs rehearse
      filejobs rehearse --all-tables --html rehearsal.html
      filejobs rehearse --dump app.dump --listing inventory/manifest.json

    [bold]Exit codes[/bold]
      0   the runs succeeded, and every planted file fared as it must
      1   they did not, or it could not be tried; rules left out change no exit code
      64  called wrongly
    """
    from filejobs_dagster.embedded import EmbeddedPostgresError, EmbeddedS3Error  # noqa: PLC0415
    from filejobs_dagster.rehearse.taking import CannotRehearse, Options, held  # noqa: PLC0415
    from filejobs_dagster.rehearse.taking import rehearse as play  # noqa: PLC0415 (--help is fast)

    invocation = Invocation.of(context)
    settings = invocation.require()
    if scratch is not None and not scratch.is_dir():
        raise typer.BadParameter(f"there is no folder {scratch}", param_hint="--scratch-dir")
    for option, path in (("--dump", dump), ("--listing", listing)):
        if path is not None and not path.exists():
            raise typer.BadParameter(f"there is no {path}", param_hint=option)
    # Told to end, it removes the copy first, as after Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    told = Console(stderr=True, markup=False, highlight=False)
    try:
        found = play(
            settings,
            Options(
                most_objects, all_tables, mutations, tuple(without or ()), scratch, dump, listing
            ),
            told.print,
        )
    except (CannotRehearse, EmbeddedPostgresError, EmbeddedS3Error) as error:
        print_error(sanitize(str(error), known=invocation.secrets))
        raise typer.Exit(terminal.FAILED) from None
    if html is not None:
        _write(html, page(found))
    if output is Format.JSON:
        print_json(found)
    else:
        _print(console(), found)
    if not (held(found) and all(it["held"] for it in all_canaries(found))):
        raise typer.Exit(terminal.FAILED)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        print_error(f"The page could not be written to {path}: {error.strerror}.")
        raise typer.Exit(terminal.FAILED) from None


def _print(out: Console, found: Mapping[str, Any]) -> None:
    unstopped = [it for it in found["mutations"] if it["gone"]]
    if unstopped:
        out.print(Text("Nothing would have stopped it", style="bold red"))
        for it in unstopped:
            line = (
                f"  without the {it['kind']} {it['name']}: {it['gone']:,} of "
                f"{it['would_have_gone']:,} objects gone"
            )
            out.print(Text(f"{line}, such as {', '.join(it['sample'][:2])}", style="red"))
        out.print()
    gone = found["gone"]
    out.print(
        f"Gone in the rehearsal: {gone['objects']:,} objects, {gone['bytes']:,} bytes", style="bold"
    )
    _list(out, (f"{it['age']}: {it['objects']:,}, {it['bytes']:,} bytes" for it in gone["by_age"]))
    _list(out, (f"for instance {key}" for key in gone["sample"]))
    out.print("Runs", style="bold")
    _list(
        out,
        (
            f"{it['mode']}: looked at {number(it['scanned'])}, "
            f"acted on {number(it['acted'])}" + ("" if it["ok"] else f"; FAILED: {it['error']}")
            for it in found["runs"]
        ),
    )
    _list(out, (f"{it['job']}: {other_in_words(it)}" for it in found["others"]))
    requests = ", ".join(f"{count:,} {name}" for name, count in sorted(found["requests"].items()))
    seconds = found["estimated_seconds"]
    takes = "" if seconds is None else f"about {seconds:,} seconds; "
    out.print(f"The real live run: {takes}{requests or 'nothing'}")
    out.print("Classes by prefix", style="bold")
    _list(
        out,
        (
            f"{it['class']} below {it['prefix']}: {it['objects']:,}, {it['bytes']:,} bytes"
            for it in found["by_prefix"]
        ),
    )
    out.print("Planted files", style="bold")
    for it in all_canaries(found):
        line = f"  {it['what']}: {it['expected']}, as it must" if it["held"] else (
            f"  {it['what']}: DID NOT; {it['expected']} was expected of {it['key']}. {it['why']}"
        )  # fmt: skip
        out.print(Text(line, style="" if it["held"] else "bold red"))
    for it in found["unplanted"]:
        out.print(f"  {it}: nothing could be planted, by no object or row that is there")
    out.print("Rules left out", style="bold")
    _list(
        out,
        (
            f"{it['kind']} {it['name']}: "
            + ("" if it["would_have_gone"] is None else f"{it['would_have_gone']:,} would go; ")
            + (bounded(it["stopped_by"].partition("\n")[0], LONGEST) or "NOTHING stopped it")
            for it in found["mutations"]
        ),
    )
    out.print("Not rehearsed", style="bold")
    _list(out, not_rehearsed(found) or ["nothing of the settings"])
    out.print(Text(by_hash(found), style="bold"))


def _list(out: Console, lines: Iterable[str]) -> None:
    every = list(lines)
    for line in every[:MOST_LINES]:
        out.print(f"  {line}")
    if len(every) > MOST_LINES:
        out.print(f"  and {len(every) - MOST_LINES} more; --json has them all")
