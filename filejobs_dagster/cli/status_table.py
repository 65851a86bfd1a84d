"""Standings as a table for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from filejobs_dagster.alerts.words import ADVICE
from filejobs_dagster.cli.output import print_table
from filejobs_dagster.cli.words import NOTHING, acted_on, moment, number, span
from filejobs_dagster.ledger.runs import ended_in_words
from filejobs_dagster.ledger.words import StartedBy

if TYPE_CHECKING:
    from rich.console import Console

    from filejobs_dagster.alerts.conditions import Condition
    from filejobs_dagster.ledger.standing import RunSummary, Standing

ROOM_FOR_EVERYTHING = 170
"""Columns from which everything fits into one table."""

_NOBODY_ASKED = "not in the settings"

_COLOURS = {
    "ok": "green",
    "warning": "yellow",
    "critical": "bold red",
    "unknown": "magenta",
    "silent": "dim",
}


def print_standings(out: Console, standings: Sequence[Standing], now: datetime) -> None:
    """Print one line for each job; a narrow terminal gets fewer columns, and the rest below.

    Args:
        out: Where to print.
        standings: The jobs, in the order to show.
        now: The database's time.
    """
    if out.width >= ROOM_FOR_EVERYTHING:
        print_table(out, _wide(standings, now))
        out.print(Text("Times are UTC.", style="dim"))
        return
    print_table(out, _narrow(standings, now))
    out.print()
    for standing in standings:
        if standing.configured:
            out.print(
                Text(f"{standing.job}: ", style=_COLOURS[standing.severity])
                + Text(_more(standing, now), style="default")
            )


def print_besides(out: Console, besides: Sequence[Condition]) -> None:
    """Print what is wrong and no standing says, each on a line of its own, with what to do."""
    for each in besides:
        out.print()
        line = f"{each.severity.upper()}  {each.title}: {each.reason}"
        out.print(Text(line, style=_COLOURS[each.severity]))
        out.print(Text(f"{ADVICE[each.kind]} See {each.see}"))


def _wide(standings: Sequence[Standing], now: datetime) -> Table:
    table = _table(
        "job", "standing", "mode", "last run", "last success", "age", "threshold",
        "scanned / acted", "running now",
    )  # fmt: skip
    table.add_column("reason", overflow="fold")
    for standing in standings:
        last, success = standing.last_run, standing.last_success
        table.add_row(
            *_beginning(standing),
            "never" if last is None else _last(last),
            "never" if success is None else moment(success.finished_at),
            _span(standing.age),
            _span(standing.stale_after),
            NOTHING if last is None else f"{number(last.scanned)} / {acted_on(last)}",
            _running(standing, now),
            Text(_reason(standing).removeprefix(f"{_NOBODY_ASKED}, and ")),
            style=None if standing.configured else "dim",
        )
    return table


def _narrow(standings: Sequence[Standing], now: datetime) -> Table:
    table = _table("job", "standing", "mode", "last run", "success", "threshold")
    for standing in standings:
        last = standing.last_run
        table.add_row(
            *_beginning(standing),
            "never"
            if last is None
            else f"{span(now - last.finished_at)} ago, {last.mode.upper()} "
            f"{ended_in_words(last.outcome, last.detail)}",
            "never" if standing.age is None else f"{span(standing.age)} ago",
            _span(standing.stale_after),
            style=None if standing.configured else "dim",
        )
    return table


def _table(*headings: str) -> Table:
    table = Table(
        box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold", show_edge=False
    )
    for heading in headings:
        table.add_column(heading, overflow="fold", no_wrap=heading in ("job", "standing", "mode"))
    return table


def _beginning(standing: Standing) -> tuple[Text, Text, Text]:
    return (
        Text(standing.job),
        Text(
            standing.word if standing.configured else _NOBODY_ASKED,
            style=_COLOURS[standing.severity],
        ),
        Text(standing.mode if standing.configured else NOTHING),
    )


def _span(duration: timedelta | None) -> str:
    return NOTHING if duration is None else span(duration)


def _more(standing: Standing, now: datetime) -> str:
    """What a narrow table has no room for."""
    last = standing.last_run
    parts = [_reason(standing)]
    if last is not None:
        by = StartedBy.in_detail(last.detail)
        counts = f"scanned {number(last.scanned)}, acted on {acted_on(last)}"
        parts.append(f"last run{'' if by is None else f' by {by}'} {counts}")
    if standing.running is not None:
        parts.append(f"running now: {_running(standing, now)}")
    return "; ".join(parts)


def _reason(standing: Standing) -> str:
    return f"{standing.reason} (see {standing.see})" if standing.see else standing.reason


def _last(last: RunSummary) -> str:
    by = StartedBy.in_detail(last.detail)
    ended = ended_in_words(last.outcome, last.detail)
    said = f"{moment(last.finished_at)} {last.mode.upper()} {ended}"
    return said if by is None else f"{said} by {by}"


def _running(standing: Standing, now: datetime) -> str:
    running = standing.running
    if running is None:
        return "no"
    by = "" if running.started_by is None else f" by {running.started_by}"
    return (
        f"{running.mode}{by}, for {span(now - running.started_at)}, "
        f"last sign of life {span(now - running.heartbeat_at)} ago"
    )
