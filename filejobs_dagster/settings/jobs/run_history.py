"""What `run_history` can be told."""

# pydantic reads the annotations when the module runs, so nothing may move under TYPE_CHECKING.
from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import Field, StrictInt

from filejobs_dagster.settings.durations import Duration
from filejobs_dagster.settings.jobs.job import JobSettings
from filejobs_dagster.settings.values import between

_WEEK = timedelta(days=7)


class RunHistorySettings(JobSettings):
    """What `run_history` can be told."""

    keep: Annotated[Duration, between(_WEEK)] = Field(
        description="How long Dagster keeps a run after its end, with its events and logs; the "
        "floor is 7d. A run without a record in job_run is kept whatever its age.",
        examples=["90d"],
    )
    limit: StrictInt = Field(
        default=10_000,
        ge=1,
        le=10_000_000,
        description="The most runs one run removes, the oldest first. The rest waits for the next "
        "run.",
        examples=[10_000],
    )
    batch_size: StrictInt = Field(
        default=100,
        ge=1,
        le=1000,
        description="How many runs go between two signs of life; each batch has its audit events.",
        examples=[100],
    )
