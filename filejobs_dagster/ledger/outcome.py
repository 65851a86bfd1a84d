"""How a run ended, as the run itself says it, in the ledger's words: mode, trigger, window."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, get_args

from filejobs_dagster.text import printable, sanitize

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

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


# The words of the ledger: modes, triggers, windows.

Mode = Literal["dry", "live"]

TriggerKind = Literal["schedule", "sensor", "ui", "cli", "backfill", "http", "retry"]


AHEAD = timedelta(minutes=5)
"""A record whose end lies further ahead than this is one of the future: some clock was wrong when
it was written. It is named wherever records are judged, and hides none that came after it."""

INTERRUPTED = "Cancelled while it worked."
"""The final word of a run that was told to stop. It cannot know by whom; the scheduler may."""

LIMITED_TO = "limited_to"
"""In the detail of a run that was to act on fewer items than the settings say. Where it left some
for that, it has not swept."""

STARTED_AGAIN = "started_again"
"""In the detail of a run that left no final word and that the scheduler repeats by itself."""


@dataclass(frozen=True)
class Trigger:
    """Through which door a run came.

    Attributes:
        kind: The door.
        name: Which one: the schedule, the sensor, the backfill, the run that is retried.
    """

    kind: TriggerKind
    name: str | None = None


How = Literal["proxy header", "process", "tag"]
"""How it is known who started a run: a proxy that knows its users named one; the process that asked
for the run said whose it is; or only a tag says so, which anybody can type."""


@dataclass(frozen=True)
class StartedBy:
    """Who started a run, and how that is known.

    Attributes:
        user: As whoever names them spells it.
        host: The machine of the process that asked, or None.
        how: `tag` is a claim; the other two are not the starter's to choose.
    """

    user: str
    host: str | None
    how: How

    @classmethod
    def in_detail(cls, detail: Mapping[str, Any]) -> StartedBy | None:
        """The starter that a run's detail names, or None."""
        said = detail.get("started_by")
        if not isinstance(said, Mapping):
            return None
        user, host = said.get("user"), said.get("host")
        how: How | None = next((how for how in get_args(How) if how == said.get("how")), None)
        if not isinstance(user, str) or how is None:
            return None
        return cls(user, host if isinstance(host, str) else None, how)

    def as_detail(self) -> dict[str, str | None]:
        """The starter as `job_run.detail` holds it."""
        return {"user": self.user, "host": self.host, "how": self.how}

    def __str__(self) -> str:
        name = self.user if self.host is None else f"{self.user}@{self.host}"
        return f"{name} (claimed)" if self.how == "tag" else name


@dataclass(frozen=True)
class Window:
    """What a run set out to cover.

    Attributes:
        begins: Inclusive; None means from the beginning of time.
        ends: Exclusive; None means up to the cutoff.
        label: The day of a backfill as `YYYY-MM-DD`, or in words what it leaves out; None for
            everything that is due.
    """

    begins: datetime | None = None
    ends: datetime | None = None
    label: str | None = None

    @property
    def everything(self) -> bool:
        """True when the run covers all that is due."""
        return self.begins is None and self.ends is None and self.label is None

    def as_detail(self) -> dict[str, Any]:
        """The window as `job_run.detail` holds it."""
        if self.everything:
            return {"covers": "everything"}
        return {
            "covers": self.label or "part",
            "from": None if self.begins is None else self.begins.isoformat(),
            "to": None if self.ends is None else self.ends.isoformat(),
        }


EVERYTHING = Window()
