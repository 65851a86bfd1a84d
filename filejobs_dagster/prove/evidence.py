"""What a claim is, and what its demonstration measured."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from filejobs_dagster.prove.stage import Stage

FactValue = str | int | bool | None


class NotShown(Exception):
    """The demonstration did not get to where the claim is decided; the message says why."""


@dataclass(frozen=True)
class Side:
    """One of the two versions, and what it did.

    Attributes:
        title: What this version does differently, in a few words.
        statement: The SQL that was executed, or the calls.
        facts: What was measured afterwards: label and value. None is SQL's NULL.
        lost: True when what the claim protects was lost.
    """

    title: str
    statement: str
    facts: tuple[tuple[str, FactValue], ...]
    lost: bool


@dataclass(frozen=True)
class Evidence:
    """Both versions, each really executed."""

    careless: Side
    guarded: Side


@dataclass(frozen=True)
class Claim:
    """A sentence about the project that can be tried.

    Attributes:
        name: For `--only`.
        sentence: The claim.
        demonstrate: Executes both versions and measures. Raises `NotShown` when it could not.
    """

    name: str
    sentence: str
    demonstrate: Callable[[Stage], Evidence]


@dataclass(frozen=True)
class Observation:
    """A claim and what became of it.

    Attributes:
        claim: The claim.
        evidence: What was measured, or None when the demonstration broke.
        error: Why it broke, or None.
        seconds: How long it took.
    """

    claim: Claim
    evidence: Evidence | None
    error: str | None
    seconds: float

    @property
    def held(self) -> bool:
        """True when the careless version lost and the guarded one did not."""
        return (
            self.evidence is not None
            and self.evidence.careless.lost
            and not (self.evidence.guarded.lost)
        )

    @property
    def verdict(self) -> str:
        """The finding in one sentence."""
        if self.evidence is None:
            return f"not proven: {self.error}"
        if self.evidence.guarded.lost:
            return "not proven: the guarded version lost"
        if not self.evidence.careless.lost:
            return "not proven: the careless version did not lose, so nothing was shown"
        return "held: the careless version lost, the guarded one did not"


def tidy(statement: str) -> str:
    """A statement without the indentation of the code that it stands in."""
    return dedent(statement).strip()
