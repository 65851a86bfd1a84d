"""One message about everything that there is to say: short, and with what to do.

The words of alerts are here too: what can be wrong, how loudly to say it, and what to do about it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from filejobs_dagster.runbook import of_condition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from filejobs_dagster.alerts.mutes import Mute

# The words of alerts: what can be wrong, how loudly to say it, and what to do about it.

Severity = Literal["warning", "critical"]

Kind = Literal[
    "never run",
    "first run awaited",
    "failed",
    "started again",
    "stale",
    "not swept",
    "behind",
    "dead letters",
    "missing",
    "breaker",
    "findings",
    "stuck",
    "queued",
    "unrecorded",
    "held",
    "silent",
    "settings",
    "database",
]

What = Literal["raised", "reminder", "recovered"]

SEVERITY: Mapping[Kind, Severity] = {
    "never run": "critical",
    "first run awaited": "warning",
    "failed": "critical",
    "started again": "warning",
    "stale": "critical",
    "not swept": "critical",
    "behind": "warning",
    "dead letters": "warning",
    "missing": "warning",
    "breaker": "critical",
    "findings": "critical",
    "stuck": "warning",
    "queued": "warning",
    "unrecorded": "warning",
    "held": "warning",
    "silent": "critical",
    "settings": "critical",
    "database": "critical",
}

TITLE: Mapping[Kind, str] = {
    "never run": "has never run",
    "first run awaited": "has not run yet",
    "failed": "fails",
    "started again": "lost a run, which is started again",
    "stale": "is stale",
    "not swept": "runs, and has never swept",
    "behind": "is behind",
    "dead letters": "has given up on items",
    "missing": "found references without an object",
    "breaker": "was stopped by a breaker",
    "findings": "found something wrong with the audit log",
    "stuck": "has a run that is stuck",
    "queued": "has a run that does not start",
    "unrecorded": "has a run that ended without its record",
    "held": "is held",
    "silent": "Nobody records what ran",
    "settings": "filejobs.yaml has mistakes, so no job can run",
    "database": "The standing of the jobs cannot be read",
}
"""What is wrong; behind the name of a job, where it concerns one."""

ADVICE: Mapping[Kind, str] = {
    "never run": "Look whether its schedule is on (Automation in the web UI), and start the job "
    "once by hand: `filejobs run JOB`.",
    "first run awaited": "Wait for its first tick, or start the job now: `filejobs run JOB`.",
    "failed": "Read the newest run's error (`filejobs runs --failed`), mend its cause, and let the "
    "job run again.",
    "started again": "Wait a minute: unless its repetition succeeds by then, it is a failure. If "
    "this comes often, look for what ends its processes (memory, restarts).",
    "stale": "Look whether its schedule is on and what its last runs say (`filejobs runs`).",
    "not swept": "Only a successful run in the configured mode over everything due counts: "
    "start one, or change `mode` in the settings.",
    "behind": "It leaves due items. Read the run's classes; raise `limit`, or let it run more "
    "often.",
    "dead letters": "Read why each was given up, mend the cause, and have them tried again.",
    "missing": "Look at the run's samples: whoever opens such a file gets none. Restore the "
    "objects from a backup or an older version, or mend the rows that name them.",
    "breaker": "Read the run's samples before anything else. If the numbers are right, let one run "
    "pass over the breaker.",
    "findings": "Treat it as an incident: run `filejobs verify`, and change nothing before you "
    "know why.",
    "stuck": "Look at the run's page. End it there if nothing moves: the next run goes on where it "
    "stopped.",
    "queued": "Look at the queue in the web UI: what holds its place, and does the code server "
    "answer?",
    "unrecorded": "Look at job_run_reconciler in the web UI, or run `filejobs mirror`.",
    "held": "Ask whoever holds it. When it may go on: `filejobs release`, with the job's name "
    "where one was held.",
    "silent": "Start Dagster's daemon and the code server again; until then nothing is scheduled.",
    "settings": "Mend the file and reload the code location; `filejobs settings check` names every "
    "mistake.",
    "database": "Check that PostgreSQL answers, and that `filejobs migrate` has been run.",
}


MOST_ENTRIES = 30
"""Services cut messages after a few thousand characters; the rest is one command away."""

_FLAPPING = 2
_LOUDEST_FIRST: tuple[Severity, ...] = ("critical", "warning")


@dataclass(frozen=True)
class Notice:
    """One thing to say.

    Attributes:
        what: That it began, that it lasts, or that it is over.
        kind: What is wrong.
        job: The job that it concerns, or None.
        severity: How loudly.
        reason: In a sentence.
        first_seen: Since when.
        resolved_at: When it was over, or None while it lasts.
        openings: How often it came within a day.
    """

    what: What
    kind: Kind
    job: str | None
    severity: Severity
    reason: str
    first_seen: datetime
    resolved_at: datetime | None = None
    openings: int = 1

    @property
    def title(self) -> str:
        """What is wrong with what."""
        return TITLE[self.kind] if self.job is None else f"{self.job} {TITLE[self.kind]}"


@dataclass(frozen=True)
class Digest:
    """A message.

    Attributes:
        subject: One line that is complete in itself.
        text: Plain text. Nothing in it can call people by name, as a quoted error might.
        markdown: The same for services that show it.
        severity: The loudest thing that lasts, or None when everything in it is over.
    """

    subject: str
    text: str
    markdown: str
    severity: Severity | None


def compose(installation: str, notices: Sequence[Notice], muted: Sequence[Mute] = ()) -> Digest:
    """Write one message.

    Args:
        installation: Whose jobs.
        notices: At least one; a condition that began and is over already is one entry.
        muted: What nobody is told of at the moment: said below, so that silence is no secret.

    Raises:
        ValueError: There is nothing to say.
    """
    if not notices:
        raise ValueError("A digest of nothing would be noise: compose one of at least one notice.")
    lasting, over = _sorted(notices)
    worst = next((each for each in _LOUDEST_FIRST if _any_of(lasting, each)), None)
    entries = [*lasting, *over]
    silent = [_harmless(f"Not told: {each}.") for each in muted]
    shown, left = entries[:MOST_ENTRIES], len(entries) - MOST_ENTRIES
    return Digest(
        subject=_subject(installation, lasting, over),
        text="\n\n".join([*map(_text, shown), *_more(left), *silent]),
        markdown="\n\n".join([*map(_markdown, shown), *_more(left), *silent]),
        severity=worst,
    )


def _sorted(notices: Sequence[Notice]) -> tuple[list[Notice], list[Notice]]:
    """What lasts, the loudest first, and what is over; each condition once."""
    newest: dict[tuple[str | None, str, datetime], Notice] = {}
    for notice in notices:
        key = (notice.job, notice.kind, notice.first_seen)
        if key not in newest or notice.what == "recovered":
            newest[key] = notice
    each = list(newest.values())
    lasting = [notice for notice in each if notice.resolved_at is None]
    lasting.sort(key=lambda notice: _LOUDEST_FIRST.index(notice.severity))
    return lasting, [notice for notice in each if notice.resolved_at is not None]


def _any_of(notices: Sequence[Notice], severity: Severity) -> bool:
    return any(notice.severity == severity for notice in notices)


def _subject(installation: str, lasting: Sequence[Notice], over: Sequence[Notice]) -> str:
    counts = [
        f"{count} {severity}"
        for severity in _LOUDEST_FIRST
        if (count := sum(notice.severity == severity for notice in lasting))
    ]
    if over:
        counts.append(f"{len(over)} over")
    entries = [*lasting, *over]
    first = f": {entries[0].title}" if len(entries) == 1 else ""
    return f"filejobs {installation}: {', '.join(counts)}{first}"


def _more(left: int) -> Iterator[str]:
    if left > 0:
        yield f"and {left} more: `filejobs alert --show` lists them all."


def _text(notice: Notice) -> str:
    head, lines = _said(notice)
    # Chats take plain text, too, and read calls to everybody in it.
    return _harmless("\n".join([head, *(f"  {line}" for line in lines)]))


def _markdown(notice: Notice) -> str:
    head, lines = _said(notice)
    return "\n".join([f"**{_harmless(head)}**", *(f"- {_harmless(line)}" for line in lines)])


def _said(notice: Notice) -> tuple[str, list[str]]:
    if notice.resolved_at is not None:
        over = _at(notice.resolved_at)
        came = f"It began at {_at(notice.first_seen)} and is over since {over}."
        return f"OVER  {notice.title}", [came, *_flapping(notice)]
    again = "STILL " if notice.what == "reminder" else ""
    return (
        f"{again}{notice.severity.upper()}  {notice.title}",
        [
            f"Why: {notice.reason}",
            f"Since: {_at(notice.first_seen)}",
            *_flapping(notice),
            f"Do: {ADVICE[notice.kind]} See {of_condition(notice.kind)}",
        ],
    )


def _flapping(notice: Notice) -> list[str]:
    if notice.openings < _FLAPPING:
        return []
    return [f"It comes and goes: {notice.openings} times within a day."]


def _at(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def _harmless(text: str) -> str:
    """Take away what a chat reads as a call to everybody, or as a tag: reasons quote errors."""
    return text.replace("<", "(").replace(">", ")").replace("@", "(at)")
