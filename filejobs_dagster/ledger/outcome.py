"""How a run ended, as the run itself says it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from filejobs_dagster.ledger.sanitize import printable, sanitize

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

REFUSALS = "would_be_refused"
"""In the detail of a dry run: why a live one would not be let in, or would delete nothing."""


@dataclass(frozen=True)
class Outcome:
    """A run's final word.

    Attributes:
        scanned: Items looked at; None when the run decided nothing.
        acted: Items collected; None when the run decided nothing.
        detail: What `job_run.detail` holds: JSON values only.
        error: Why it failed, or None for success.
    """

    scanned: int | None = None
    acted: int | None = None
    detail: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None

    @property
    def ok(self) -> bool:
        """True for success."""
        return self.error is None

    def sanitized(self, known: Iterable[str] = ()) -> Outcome:
        """The same outcome, as it may be stored and shown.

        Args:
            known: Values of secrets that must not appear in any spelling.
        """
        secrets = tuple(known)
        return replace(
            self,
            detail=sanitized_detail(self.detail, secrets),
            error=None if self.error is None else sanitize(self.error, known=secrets),
        )


def none_went(acted: int, dropped: Mapping[str, int]) -> str | None:
    """The finding of a pass in which every candidate dropped out, for its record; else None.

    Where a comparison can never come out equal, every pass ends so, and none of them is a sweep.

    Args:
        acted: Candidates that went.
        dropped: Those that did not, by the reason for which they stay.
    """
    reasons = {reason: count for reason, count in dropped.items() if count}
    if acted or not reasons:
        return None
    many = sum(reasons.values())
    said = ", ".join(f"{count:,} {reason}" for reason, count in sorted(reasons.items()))
    return f"of {many:,} candidate{'s' if many > 1 else ''} none went ({said}): see the samples"


def readable_detail(text: str) -> dict[str, Any]:
    """A record's detail, whoever wrote it: no record may keep the others from being read.

    Args:
        text: JSON, as the database has it.

    Returns:
        What it holds; `{"unreadable": WHY}` when it is no mapping, or is nested too deeply.
    """
    try:
        found = json.loads(text)
    except RecursionError:
        return {"unreadable": "it is nested too deeply"}
    return found if isinstance(found, dict) else {"unreadable": "it is no mapping"}


def sanitized_detail(detail: Mapping[str, Any], known: Iterable[str] = ()) -> dict[str, Any]:
    """The detail without secrets and without what jsonb refuses (NUL, NaN, infinity).

    Args:
        detail: JSON values; its texts may quote a server's answer.
        known: Values of secrets that must not appear in any spelling.
    """
    secrets = tuple(known)
    return {printable(name): _sanitized_value(value, secrets) for name, value in detail.items()}


def _sanitized_value(value: Any, secrets: tuple[str, ...]) -> Any:
    if isinstance(value, str):
        return sanitize(value, known=secrets)
    if isinstance(value, dict):
        return sanitized_detail(value, secrets)
    if isinstance(value, (list, tuple)):
        return [_sanitized_value(item, secrets) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
