"""What every job of `filejobs.yaml` can be told: when it runs, how far it goes, when it is late."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictInt

from filejobs_dagster.settings.cron import Cron, shortest_pause
from filejobs_dagster.settings.durations import Wait, duration_in, format_duration
from filejobs_dagster.settings.problems import mistake
from filejobs_dagster.settings.section import Found, Section
from filejobs_dagster.settings.values import Owner, between

_SECOND = timedelta(seconds=1)
_SAY_WHEN = "say when: give `schedule` or `by_hand: true`"


class JobSettings(Section):
    """What every job can be told."""

    schedule: Cron | None = Field(
        default=None,
        description="When it runs: five cron fields or a macro such as @daily, in UTC. Either "
        "this or by_hand: true.",
        examples=["*/15 * * * *"],
    )
    by_hand: StrictBool = Field(
        default=False,
        description="True says that only people start this job. Stands instead of schedule.",
        examples=[True],
    )
    mode: Literal["dry", "live"] = Field(
        default="dry",
        description="Whether scheduled runs only report (dry) or delete (live). allow_live: false "
        "wins over it.",
        examples=["live"],
    )
    limit: StrictInt | None = Field(
        default=None,
        ge=1,
        le=10_000_000,
        description="The most items one run acts on. The rest waits for the next run.",
        examples=[10_000],
    )
    max_runtime: Annotated[Wait, between(_SECOND, timedelta(hours=24))] = Field(
        default=timedelta(minutes=30),
        description="How long one run may take before it stops and says so.",
        examples=["30m"],
    )
    stale_after: Annotated[Wait, between(_SECOND)] | None = Field(
        default=None,
        description="The age of the last success from which the job is stale and is raised. "
        "Without it nobody is told that the job stopped.",
        examples=["2h"],
    )

    owners: tuple[Owner, ...] = Field(
        default=(),
        description="Who answers for the job: shown beside it in the web UI.",
        examples=[["team:storage"]],
    )

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Look at whether exactly one of `schedule` and `by_hand` is given."""
        scheduled = said.get("schedule") is not None
        by_hand = said.get("by_hand", False) is not False
        if scheduled and by_hand:
            both = "it has both `schedule` and `by_hand: true`"
            yield (), mistake(both, f"{_SAY_WHEN}, not both")
        if not scheduled and not by_hand:
            yield (), mistake("nothing says when it runs", _SAY_WHEN)
        yield from _always_stale(said)


def _always_stale(said: Mapping[str, Any]) -> Iterator[Found]:
    """Find a threshold that passes before the next run can begin: an alarm that always rings."""
    stale, pause = duration_in(said.get("stale_after")), shortest_pause(said.get("schedule"))
    if stale is not None and pause is not None and stale < pause:
        longer = format_duration(pause)
        yield (
            ("stale_after",),
            mistake(
                f"it is {format_duration(stale)}, and the schedule runs every {longer} at most: "
                "the job would be stale between any two runs, also when all is well",
                f"write more than {longer}, by what the longest run takes",
            ),
        )
