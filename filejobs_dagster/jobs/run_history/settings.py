"""What `run_history` can be told."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import Field, StrictInt

from filejobs_dagster.settings.durations import Duration
from filejobs_dagster.settings.job import JobSettings, OneRun, Run
from filejobs_dagster.settings.values import between

JOB = "run_history"

LEAST_KEPT = timedelta(days=7)
"""The floor of `keep`: the reconciler looks back further than this for runs without a record."""


class RunHistorySettings(JobSettings):
    """What `run_history` can be told."""

    keep: Annotated[Duration, between(LEAST_KEPT)] = Field(
        description="How long Dagster keeps a run after its end, with its events and logs; the "
        "floor is 7d. A run without a record in job_run is kept whatever its age.",
        examples=["90d"],
    )
    limit: Annotated[
        StrictInt,
        Run(
            "Most runs to remove in this run, {least} to {most}; the oldest first. What is left "
            "is reported as truncated."
        ),
    ] = Field(
        default=10_000,
        ge=1,
        le=10_000_000,
        description="The most runs one run removes, the oldest first. The rest waits for the next "
        "run.",
        examples=[10_000],
    )
    batch_size: Annotated[
        StrictInt,
        Run("Runs between two signs of life, {least} to {most}. Each batch has its audit events."),
    ] = Field(
        default=100,
        ge=1,
        le=1000,
        description="How many runs go between two signs of life; each batch has its audit events.",
        examples=[100],
    )


class Request(OneRun, RunHistorySettings):
    """What one run does. How long runs are kept is not its choice."""
