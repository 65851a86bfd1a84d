"""One verdict over several standings, as monitoring plugins give it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from filejobs_dagster.cli import exits
from filejobs_dagster.cli.output import one_line

if TYPE_CHECKING:
    from filejobs_dagster.ledger.standing import Standing

VerdictWord = Literal["ok", "warning", "critical", "unknown"]

_WORST_FIRST: tuple[VerdictWord, ...] = ("critical", "unknown", "warning", "ok")

_EXIT_CODES: dict[VerdictWord, int] = {
    "ok": exits.OK,
    "warning": exits.WARNING,
    "critical": exits.CRITICAL,
    "unknown": exits.UNKNOWN,
}


@dataclass(frozen=True)
class Verdict:
    """What `status --check` says.

    Attributes:
        word: The worst of the jobs that somebody asked for.
        reason: Why, on one line.
    """

    word: VerdictWord
    reason: str

    @property
    def exit_code(self) -> int:
        """0 ok, 1 warning, 2 critical, 3 unknown."""
        return _EXIT_CODES[self.word]

    @property
    def line(self) -> str:
        """The first line of a monitoring plugin. `|` would begin its performance data."""
        return f"{self.word.upper()} - {one_line(self.reason).replace('|', '/')}"


def verdict_on(standings: Sequence[Standing]) -> Verdict:
    """The worst standing decides; critical is worse than unknown, unknown worse than warning.

    Jobs that nobody asked for do not count. When none is left there is nothing to be sure of: that
    is unknown, because settings that lost their jobs must not look healthy.
    """
    asked = [standing for standing in standings if standing.severity != "silent"]
    if not asked:
        named = ", ".join(standing.job for standing in standings)
        few = len(standings) == 1
        return Verdict(
            "unknown",
            f"{named} is not in the settings" if few else "the settings name no job to check",
        )
    word = _worst(standing.severity for standing in asked)
    if word == "ok":
        return Verdict("ok", ", ".join(f"{standing.job} {standing.word}" for standing in asked))
    wrong = [standing for standing in asked if standing.alarming]
    wrong.sort(key=lambda standing: _WORST_FIRST.index(_judged(standing.severity)))
    return Verdict(word, "; ".join(f"{each.job} {each.word}: {each.reason}" for each in wrong))


def _worst(severities: Iterable[str]) -> VerdictWord:
    found = {_judged(severity) for severity in severities}
    return next(word for word in _WORST_FIRST if word in found)


def _judged(severity: str) -> VerdictWord:
    return next((word for word in _WORST_FIRST if word == severity), "unknown")
