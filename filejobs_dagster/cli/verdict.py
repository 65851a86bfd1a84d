"""One verdict over standings and what is wrong beside them, as monitoring plugins give it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from filejobs_dagster.alerts.conditions import kind_of
from filejobs_dagster.alerts.mutes import covering
from filejobs_dagster.cli import exits
from filejobs_dagster.cli.output import one_line

if TYPE_CHECKING:
    from filejobs_dagster.alerts.conditions import Condition
    from filejobs_dagster.alerts.mutes import Mute
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
        word: The worst of the jobs that somebody asked for, and of what is wrong beside them.
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


def verdict_on(
    standings: Sequence[Standing], besides: Sequence[Condition] = (), mutes: Sequence[Mute] = ()
) -> Verdict:
    """The worst decides; critical is worse than unknown, unknown worse than warning.

    Jobs that nobody asked for do not count. When none is left there is nothing to be sure of: that
    is unknown, because settings that lost their jobs must not look healthy.

    Args:
        standings: Of the jobs.
        besides: What is wrong and no standing says.
        mutes: Said beside what they silence, and counted for nothing: whoever asks for the exit
            code decides for themselves whom they tell.
    """
    asked = [standing for standing in standings if standing.severity != "silent"]
    wrong = [
        (
            _judged(each.severity),
            f"{each.job} {each.word}: {each.reason} (see {each.see})"
            + _silenced(mutes, each.job, kind_of(each)),
        )
        for each in asked
        if each.alarming
    ]
    wrong += [
        (
            each.severity,
            f"{each.title}: {each.reason} (see {each.see})" + _silenced(mutes, each.job, each.kind),
        )
        for each in besides
    ]
    if not asked:
        named = ", ".join(standing.job for standing in standings)
        few = len(standings) == 1
        none = f"{named} is not in the settings" if few else "the settings name no job to check"
        wrong.append(("unknown", none))
    if not wrong:
        return Verdict("ok", ", ".join(f"{standing.job} {standing.word}" for standing in asked))
    wrong.sort(key=lambda each: _WORST_FIRST.index(each[0]))
    return Verdict(wrong[0][0], "; ".join(said for _, said in wrong))


def _silenced(mutes: Sequence[Mute], job: str | None, kind: str | None) -> str:
    found = covering(mutes, job, kind)
    return "" if found is None else f" [told to nobody: muted {found.told}]"


def _judged(severity: str) -> VerdictWord:
    return next((word for word in _WORST_FIRST if word == severity), "unknown")
