"""Standings as text that a person can act on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from filejobs_dagster.ledger.standing import Standing

MOST_OF_A_REASON = 300

_COLUMNS = ("job", "standing", "last success", "why")


def alarm_text(standings: Sequence[Standing]) -> str | None:
    """A short report of the jobs that need somebody, or None when none does.

    The first line is complete in itself: it is what a list of failed ticks shows.
    """
    alarming = [standing for standing in standings if standing.alarming]
    if not alarming:
        return None
    summary = ", ".join(f"{standing.job} ({standing.word})" for standing in alarming)
    many = "1 job needs" if len(alarming) == 1 else f"{len(alarming)} jobs need"
    return f"{many} attention: {summary}\n\n" + "\n\n".join(map(_entry, alarming))


def _entry(standing: Standing) -> str:
    """One job in lines of its own: Dagster shows a tick's error in a proportional font."""
    threshold = standing.stale_after
    lines = [
        f"{standing.job}: {standing.word}",
        f"    why: {_short(standing.reason)}",
        f"    last success that counts ({standing.mode}): {_when(standing)}",
        f"    threshold: {'none in the settings' if threshold is None else threshold}",
    ]
    if standing.consecutive_failures:
        lines.append(f"    failures since: {standing.consecutive_failures}")
    lines.append(f"    what now: {standing.see}")
    return "\n".join(lines)


def _short(text: str) -> str:
    return text if len(text) <= MOST_OF_A_REASON else text[:MOST_OF_A_REASON].rstrip() + " …"


def _when(standing: Standing) -> str:
    success = standing.last_success
    return "never" if success is None else f"{success.finished_at:%Y-%m-%d %H:%M} UTC"


def table(standings: Sequence[Standing]) -> str:
    """The standings as an aligned table of plain text."""
    rows = [_COLUMNS, *(_row(standing) for standing in standings)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS) - 1)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]])
        for row in rows
    )


def _row(standing: Standing) -> tuple[str, str, str, str]:
    return standing.job, standing.word, _when(standing), standing.reason
