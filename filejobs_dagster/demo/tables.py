"""The demo's findings as tables and sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from filejobs_dagster.jobs.collecting.detail import HELD, WON_BY_OTHERS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from filejobs_dagster.demo.record import AuditTrail, RunRow
    from filejobs_dagster.ledger.standing import Standing

COLOUR_OF_WORD = {
    "ok": "green",
    "ok (dry)": "green",
    "behind": "yellow",
    "never run": "magenta",
    "failed": "red",
    "stale": "red",
    "unknown": "red",
}

BYTES_IN_A_UNIT = 1024


def run_table(rows: Sequence[RunRow]) -> Table:
    """The rows of `job_run`; what matters most of `detail` goes into lines of its own.

    A column for it would leave no room in a terminal of 80 columns.
    """
    table = Table(
        title="job_run",
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for heading in ("id", "job", "outcome", "mode", "trigger", "scanned", "acted", "window"):
        number = heading in {"id", "scanned", "acted"}
        table.add_column(heading, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        table.add_row(
            str(row.id),
            row.job,
            Text(row.outcome, style="green" if row.outcome == "ok" else "red"),
            row.mode,
            str(row.detail.get("trigger", {}).get("kind", "?")),
            _count(row.scanned),
            _count(row.acted),
            str(row.detail.get("window", {}).get("covers", "?")),
        )
    return table


def run_details(rows: Sequence[RunRow]) -> list[str]:
    """What matters most of the `detail` of each row, a line a run."""
    return [f"{row.id} ({row.mode}): {highlights(row.mode, row.detail)}" for row in rows]


def highlights(mode: str, detail: Mapping[str, Any]) -> str:
    """What a run found, in a line."""
    if mode == "dry":
        return (
            f"would collect {_count(detail.get('would_collect'))}, "
            f"would free {_size(detail.get('would_free_bytes'))}"
        )
    classes = detail.get("classes", {})
    return (
        f"freed {_size(detail.get('bytes_freed'))}, "
        f"never arrived {_count(detail.get('never_arrived'))}, "
        f"won by others {_count(classes.get(WON_BY_OTHERS, 0))}, "
        f"held {_count(classes.get(HELD, 0))}, "
        f"objects left {_count(detail.get('objects_left'))}"
    )


def standing_table(standings: Sequence[Standing]) -> Table:
    """Every job's standing; what was never run is as visible as what was."""
    table = Table(
        title="standing of every job", title_justify="left", title_style="bold", box=SIMPLE_HEAD
    )
    for heading in ("job", "standing", "mode", "last success"):
        table.add_column(heading, no_wrap=True)
    table.add_column("why", ratio=1)
    for standing in standings:
        success = standing.last_success
        table.add_row(
            standing.job,
            Text(standing.word.upper(), style=COLOUR_OF_WORD[standing.word]),
            standing.mode if standing.configured else "-",
            "never" if success is None else f"{success.finished_at:%Y-%m-%d %H:%M} UTC",
            standing.reason if standing.configured else "",
        )
    return table


def audit_sentences(trail: AuditTrail) -> list[str]:
    """What the audit log now says."""
    example = trail.example
    event = example.event
    written = (
        f"{trail.events:,} events stand on the chain `collectors`, number {trail.first:,} to "
        f"{trail.last:,}: one for each of the {trail.collected:,} reservations that were "
        "collected, written in the transaction that removed its row, and for each batch of "
        "objects the intent before and the result after."
    )
    for_example = (
        f"For example number {example.seq:,}: at {example.recorded_at:%Y-%m-%d %H:%M:%S} UTC run "
        f"{str(event['run_id'])[:8]} of {event['job']} collected file {event['file_id']}, whose "
        f"reservation had expired at {str(event['upload_expires_at'])[:16]}; hash "
        f"{example.hash.hex()[:16]}…"
    )
    return [written, for_example]


def _count(number: object) -> str:
    return f"{number:,}" if isinstance(number, int) else "unknown"


def _size(number: object) -> str:
    if not isinstance(number, int):
        return "unknown"
    size, unit = float(number), "bytes"
    for larger in ("KiB", "MiB", "GiB"):
        if size < BYTES_IN_A_UNIT:
            break
        size, unit = size / BYTES_IN_A_UNIT, larger
    return f"{number:,} bytes" if unit == "bytes" else f"{size:,.1f} {unit}"
