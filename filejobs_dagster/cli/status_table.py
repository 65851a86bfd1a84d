"""Standings as a table for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from filejobs_dagster.cli.output import print_table
from filejobs_dagster.cli.words import NOTHING, moment, number, span

if TYPE_CHECKING:
    from rich.console import Console

    from filejobs_dagster.ledger.standing import Standing

ROOM_FOR_REASONS = 175
"""Columns from which the reasons fit into the table; else they follow below it."""

_COLOURS = {
    "ok": "green",
    "warning": "yellow",
    "critical": "bold red",
    "unknown": "magenta",
    "silent": "dim",
}


def print_standings(out: Console, standings: Sequence[Standing], now: datetime) -> None:
    """Print one line for each job, with its reason beside it or, where that is too wide, below.

    Args:
        out: Where to print.
        standings: The jobs, in the order to show.
        now: The database's time, for what is running.
    """
    beside = out.width >= ROOM_FOR_REASONS
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold", show_edge=False)
    for heading in ("job", "standing", "mode", "last run", "last success", "age", "threshold"):
        table.add_column(heading, overflow="fold", no_wrap=beside)
    table.add_column("scanned / acted", overflow="fold", no_wrap=beside)
    table.add_column("running now", overflow="fold", no_wrap=beside)
    if beside:
        table.add_column("reason", overflow="fold")
    for standing in standings:
        cells = _cells(standing, now)
        if beside:
            cells.append(Text(_reason(standing)))
        table.add_row(*cells, style="dim" if not standing.configured else None)
    print_table(out, table)
    if not beside:
        _print_reasons(out, standings)
    if any(standing.last_run is not None for standing in standings):
        out.print(Text("Times are UTC.", style="dim"))


def _print_reasons(out: Console, standings: Sequence[Standing]) -> None:
    out.print()
    for standing in standings:
        if standing.configured:
            out.print(
                Text(f"{standing.job}: ", style=_COLOURS[standing.severity])
                + Text(standing.reason, style="default")
            )


def _cells(standing: Standing, now: datetime) -> list[Text]:
    last, success = standing.last_run, standing.last_success
    return [
        Text(standing.job),
        Text(standing.word, style=_COLOURS[standing.severity]),
        Text(standing.mode if standing.configured else NOTHING),
        Text("never" if last is None else f"{moment(last.finished_at)} {last.mode} {last.outcome}"),
        Text("never" if success is None else moment(success.finished_at)),
        Text(NOTHING if standing.age is None else span(standing.age)),
        Text(NOTHING if standing.stale_after is None else span(standing.stale_after)),
        Text(NOTHING if last is None else f"{number(last.scanned)} / {number(last.acted)}"),
        Text(_running(standing, now)),
    ]


def _running(standing: Standing, now: datetime) -> str:
    running = standing.running
    if running is None:
        return "no"
    return (
        f"{running.mode}, for {span(now - running.started_at)}, "
        f"last sign of life {span(now - running.heartbeat_at)} ago"
    )


def _reason(standing: Standing) -> str:
    return standing.reason if standing.configured else f"not in the settings; {standing.reason}"
