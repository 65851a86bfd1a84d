"""The checks: each one is a function from the evidence to what it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from filejobs_dagster.audit.verify.evidence import Evidence

Severity = Literal["finding", "warning"]


@dataclass(frozen=True)
class Finding:
    """One thing that does not match.

    Attributes:
        code: Which kind, such as `EV_BODY`.
        message: In words: where, and what was expected.
        seq: The first event that it concerns, or None.
        count: How often.
        severity: A warning is told and does not make the verdict.
    """

    code: str
    message: str
    seq: int | None = None
    count: int = 1
    severity: Severity = "finding"


Check = Callable[[Evidence], Iterable[Finding]]

CHECKS: dict[str, Check] = {}
"""All checks by their names, in the order in which they were defined."""


def check(function: Check) -> Check:
    """Make a function one of the checks."""
    CHECKS[function.__name__] = function
    return function


def first_of(code: str, messages: Iterable[tuple[int | None, str]]) -> Iterable[Finding]:
    """One finding for everything of one kind: the first in words, and how many there are."""
    found = list(messages)
    if found:
        seq, message = found[0]
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        yield Finding(code, message + more, seq, len(found))
