"""`filejobs retention`: every rule, and what is due by it now."""

from __future__ import annotations

import sys
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from filejobs_dagster.cli import terminal
from filejobs_dagster.cli.arguments import NOTHING, instant, moment
from filejobs_dagster.cli.terminal import (
    Invocation,
    console,
    one_line,
    print_error,
    print_json,
    print_table,
)
from filejobs_dagster.text import format_duration, sanitize

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from filejobs_dagster.jobs.table_retention.retention import Examined
    from filejobs_dagster.jobs.table_retention.settings import RetentionRuleSettings


class Format(str, Enum):
    """How the rules are printed."""

    TABLE = "table"
    JSON = "json"
    MARKDOWN = "markdown"


_HEADINGS = (
    "rule", "table", "counted from", "scrubbed after", "deleted after", "only where", "never where",
    "due now", "oldest",
)  # fmt: skip


def retention(
    context: typer.Context,
    most: Annotated[
        int,
        typer.Option("--most", min=1, max=10_000_000, help="Count due rows of a rule up to this."),
    ] = 10_000,
    output: Annotated[
        Format,
        typer.Option(
            "--format", help="table for people, json for programs, markdown to be published."
        ),
    ] = Format.TABLE,
) -> None:
    """Print every rule of table_retention, with the rows that are due now.

    Reads filejobs.yaml, and counts in read-only transactions; a role that may only read the tables
    can print it as well, and nothing is changed. Printed as Markdown, it is a
    retention policy for everybody to read.

    A count has a bound: behind it stands `or more`.

    [bold]Examples[/bold]
      filejobs retention
      filejobs retention --format markdown > retention-policy.md
      filejobs retention --format json --most 1000000

    [bold]Exit codes[/bold]
      0   shown
      1   a rule cannot be carried out, the settings are wrong, or the database
          does not answer
      64  called wrongly
    """
    from filejobs_dagster.jobs.table_retention.retention import examined  # noqa: PLC0415
    from filejobs_dagster.jobs.table_retention.settings import JOB, TableRetentionSettings  # noqa: PLC0415
    from filejobs_dagster.postgres.connect import (  # noqa: PLC0415
        Database,
        database_now,
    )

    invocation = Invocation.of(context)
    settings = invocation.require()
    job = settings.jobs.get(JOB)
    if not isinstance(job, TableRetentionSettings):
        print_error("table_retention does not stand under `jobs:`; there are no rules to print.")
        raise typer.Exit(terminal.FAILED)
    database = Database.of(settings.database)
    with database.connect("retention") as connection:
        with database.transaction(connection, read_only=True) as cursor:
            now = database_now(cursor)
        found = list(examined(job.rules, database, connection, most))
    if output is Format.JSON:
        print_json(_document(settings.installation, found, now, invocation.secrets))
    elif output is Format.MARKDOWN:
        sys.stdout.write(_markdown(settings.installation, found, now, invocation.secrets))
    else:
        _print(found, now, invocation.secrets)
    if any(one.refused or one.missing for one in found):
        raise typer.Exit(terminal.FAILED)


def _due(one: Examined) -> str:
    if one.look is None:
        return "not carried out" if one.refused else "not counted"
    due = str(one.look.deletes)
    if one.plan is not None and one.plan.scrub is not None:
        due += f", {one.look.scrubs} to scrub"
    return due


def _only_where(rule: RetentionRuleSettings) -> str:
    found = [rule.where] if rule.where else []
    if rule.dangling is not None:
        tables = ", ".join(other.table for other in rule.dangling.nowhere_in)
        found.append(f"{rule.dangling.column} is not in {tables}")
    return " and ".join(found) or NOTHING


def _cells(one: Examined) -> tuple[str, ...]:
    rule, plan = one.rule, one.plan
    zone = f" ({rule.time_zone})" if rule.time_zone else ""
    scrubbed = NOTHING
    if rule.scrub_after is not None:
        scrubbed = f"{format_duration(rule.scrub_after)}: {', '.join(rule.scrub)}"
    oldest = None if one.look is None else one.look.oldest
    return (
        rule.name,
        rule.table if plan is None else str(plan.target.table),
        f"{rule.time}{zone}",
        scrubbed,
        format_duration(rule.delete_after),
        one_line(_only_where(rule)),
        one_line(rule.except_ or NOTHING),
        _due(one),
        NOTHING if oldest is None else moment(oldest),
    )


def _troubles(one: Examined, secrets: Sequence[str]) -> list[str]:
    """What is wrong with a rule, or worth knowing, a sentence each."""
    found = list(one.warnings)
    if one.refused is not None:
        found.append(f"cannot be carried out: {one.refused}. {one.advice}")
    unprivileged = None if one.plan is None else one.plan.target.privileges()
    if unprivileged is not None:
        found.append(f"asked by a role that may not carry it out: {unprivileged.found}")
    found += [f"live runs refuse it: {each.why}. Run: {each.statement}" for each in one.missing]
    return [sanitize(words, known=secrets) for words in found]


def _print(found: Sequence[Examined], now: datetime, secrets: Sequence[str]) -> None:
    out = console()
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    for heading in _HEADINGS:
        table.add_column(heading, overflow="fold")
    for one in found:
        style = "bold red" if one.refused or one.missing else None
        table.add_row(*(Text(cell) for cell in _cells(one)), style=style)
    print_table(out, table)
    for one in found:
        for words in _troubles(one, secrets):
            out.print(Text(f"{one.rule.name}: {words}", style="yellow"))
    out.print(Text(f"As of {moment(now)} UTC. A row is taken once it is older.", style="dim"))


def _markdown(
    installation: str, found: Sequence[Examined], now: datetime, secrets: Sequence[str]
) -> str:
    about = (
        f"As of {moment(now)} UTC. A row is deleted once it is older than *deleted after*, counted "
        "from the column in *counted from*; a row without a time there is kept."
    )
    rows = [_HEADINGS, *(tuple(_escaped(cell) for cell in _cells(one)) for one in found)]
    heading, *body = [f"| {' | '.join(row)} |" for row in rows]
    rule = f"|{'---|' * len(_HEADINGS)}"
    lines = [f"# Retention of {installation}", "", about, "", heading, rule, *body]
    notes = [
        f"- {_escaped(one.rule.name)}: {_escaped(words)}"
        for one in found
        for words in _troubles(one, secrets)
    ]
    if notes:
        lines += ["", "Notes:", "", *notes]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    """A cell of a Markdown table that reads as it stands."""
    for character in "\\`*_<>|[]":
        text = text.replace(character, f"\\{character}")
    return one_line(text)


def _document(
    installation: str, found: Sequence[Examined], now: datetime, secrets: Sequence[str]
) -> dict[str, Any]:
    return {
        "installation": installation,
        "as_of": instant(now),
        "rules": [
            {
                "name": one.rule.name,
                "table": one.rule.table if one.plan is None else str(one.plan.target.table),
                "time": one.rule.time,
                "time_zone": one.rule.time_zone,
                "delete_after": format_duration(one.rule.delete_after),
                "scrub_after": None
                if one.rule.scrub_after is None
                else format_duration(one.rule.scrub_after),
                "scrub": one.rule.scrub,
                "where": one.rule.where,
                "except": one.rule.except_,
                "dangling": None
                if one.rule.dangling is None
                else one.rule.dangling.model_dump(mode="json"),
                "children": [child.table for child in one.rule.children],
                "due": _look(one),
                "carried_out": one.refused is None and not one.missing,
                "notes": _troubles(one, secrets),
            }
            for one in found
        ],
    }


def _look(one: Examined) -> dict[str, Any] | None:
    look = one.look
    if look is None:
        return None
    return {
        "delete": look.deletes.rows,
        "delete_is_floor": look.deletes.more,
        "scrub": look.scrubs.rows,
        "scrub_is_floor": look.scrubs.more,
        "without_time": None if look.without_time is None else look.without_time.rows,
        "oldest": instant(look.oldest),
        "partitions": [str(each.relation) for each in look.partitions],
        "size_bytes": look.size_bytes,
    }
