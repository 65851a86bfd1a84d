"""Who is told when a job needs somebody, and the heartbeat that stops when nobody looks."""

# pydantic reads the annotations when the module runs, so nothing may move under TYPE_CHECKING.
# ruff: noqa: TC001

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StrictStr, WithJsonSchema

from filejobs_dagster.settings.problems import mistake, shown
from filejobs_dagster.settings.secrets import Secret
from filejobs_dagster.settings.section import Found, Section
from filejobs_dagster.settings.values import Wait, between

_SECOND = timedelta(seconds=1)
_MINUTE = timedelta(minutes=1)
_NAME = r"[a-z][a-z0-9_-]{0,39}"

SeverityWord = Literal["warning", "critical"]


def _destination_name(value: str) -> str:
    if not re.fullmatch(_NAME, value):
        raise mistake(
            f"{shown(value)} cannot name a destination",
            "write lowercase letters, digits, - and _, beginning with a letter, at most 40",
        )
    return value


DestinationName = Annotated[
    StrictStr,
    AfterValidator(_destination_name),
    WithJsonSchema({"type": "string", "pattern": f"^{_NAME}$"}),
]
"""How a destination is called wherever it is shown: its URL never is."""


class DestinationSettings(Section):
    """Somebody who is told."""

    name: DestinationName = Field(
        description="How this destination is called in the outbox, in metrics and in errors, which "
        "never show its URL.",
        examples=["on-call"],
    )
    url: Secret = Field(
        description="One URL of apprise (slack://…, mailto://…, json://…), by the environment "
        "variable that holds it.",
        examples=[{"env": "FILEJOBS_ALERT_URL"}],
    )
    severities: list[SeverityWord] = Field(
        default_factory=lambda: list[SeverityWord](["warning", "critical"]),
        description="Which alerts it gets: warning, critical or both.",
        examples=[["critical"]],
        json_schema_extra={"minItems": 1},
    )

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Look at whether it would ever be told anything."""
        if said.get("severities") == []:
            yield (
                ("severities",),
                mistake("it names no severity", "write warning, critical or both"),
            )


class HeartbeatSettings(Section):
    """A dead man's switch: a URL that expects to be called."""

    url: Secret = Field(
        description="The http or https URL that is asked for after each healthy tick of "
        "job_freshness, by the environment variable that holds it.",
        examples=[{"env": "FILEJOBS_HEARTBEAT_URL"}],
    )


class AlertsSettings(Section):
    """Who is told, when again, and what is too long."""

    to: list[DestinationSettings] = Field(
        default_factory=list,
        description="Who is told. Without any, the failed tick of job_freshness and filejobs "
        "status --check are all there is.",
        examples=[[{"name": "on-call", "url": {"env": "FILEJOBS_ALERT_URL"}}]],
    )
    repeat_after: Annotated[Wait, between(_MINUTE)] | None = Field(
        default=None,
        description="How long after it was last told an alert that is still open is told again. "
        "Without it, it is told once, and when it is over.",
        examples=["24h"],
    )
    recovered_after: Annotated[Wait, between(timedelta())] = Field(
        default=timedelta(minutes=5),
        description="How long a condition must be gone before it is called over. It doubles each "
        "time that the condition comes back within a day.",
        examples=["5m"],
    )
    stuck_after: Annotated[Wait, between(_MINUTE)] | None = Field(
        default=None,
        description="How long a run may be at work before it is called stuck. Without it, its "
        "job's max_runtime and ten minutes.",
        examples=["2h"],
    )
    queued_longer_than: Annotated[Wait, between(_SECOND)] = Field(
        default=timedelta(hours=1),
        description="How long a run may wait in Dagster's queue, or for its process, before that "
        "is an alert.",
        examples=["1h"],
    )
    heartbeat: HeartbeatSettings | None = Field(
        default=None,
        description="A URL that is asked for after each healthy tick of job_freshness and at no "
        "other time. What waits for it notices when daemon, code server or network are gone.",
        examples=[{"url": {"env": "FILEJOBS_HEARTBEAT_URL"}}],
    )

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Look at whether two destinations have one name."""
        names = _names(said.get("to"))
        counts = Counter(names)
        for number, name in enumerate(names):
            if name is not None and counts[name] > 1:
                yield (
                    ("to", number, "name"),
                    mistake(
                        f"{counts[name]} destinations are called {shown(name)}",
                        "give each a name of its own: it tells apart what each was told",
                    ),
                )


def _names(said: Any) -> list[str | None]:
    """The name of each entry, None for one that has none or is a model built in Python."""
    entries = said if isinstance(said, list) else []
    names = [entry.get("name") if isinstance(entry, Mapping) else None for entry in entries]
    return [name if isinstance(name, str) else None for name in names]
