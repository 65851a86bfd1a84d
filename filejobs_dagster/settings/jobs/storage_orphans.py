"""What `storage_orphans` can be told."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import Field, StrictInt

from filejobs_dagster.settings.durations import Duration, Wait
from filejobs_dagster.settings.jobs.job import JobSettings
from filejobs_dagster.settings.orphans import BreakersSettings, ReportSettings
from filejobs_dagster.settings.values import Text, between

_SECOND = timedelta(seconds=1)
_HOUR = timedelta(hours=1)


class StorageOrphansSettings(JobSettings):
    """What `storage_orphans` can be told."""

    limit: StrictInt = Field(
        default=100_000,
        ge=1,
        le=10_000_000,
        description="The most orphans one run removes, the oldest first. The rest is reported and "
        "waits for the next run.",
        examples=[100_000],
    )
    batch_size: StrictInt = Field(
        default=1000,
        ge=1,
        le=1000,
        description="How many orphans one delete request names.",
        examples=[1000],
    )
    max_runtime: Annotated[Wait, between(_SECOND, timedelta(hours=24))] = Field(
        default=timedelta(hours=6),
        description="How long one run may take before it stops and says so.",
        examples=["6h"],
    )
    bucket: Text | None = Field(
        default=None,
        description="The entry of buckets that is swept. May be left out when there is only one.",
        examples=["uploads"],
    )
    confirm_after: Annotated[Duration, between(_HOUR)] = Field(
        default=timedelta(hours=24),
        description="How long ago an earlier run must have seen an object as an orphan before a "
        "run removes it; the floor is 1h.",
        examples=["24h"],
    )
    parts: StrictInt = Field(
        default=8,
        ge=1,
        le=64,
        description="How many parts of the bucket are listed side by side.",
        examples=[8],
    )
    wait_for_transactions: Annotated[Wait, between(_SECOND, _HOUR)] = Field(
        default=timedelta(seconds=60),
        description="How long a batch waits for older transactions, which could still reference "
        "its objects. Then it is left for the next run.",
        examples=["60s"],
    )
    breakers: BreakersSettings = Field(
        default_factory=BreakersSettings,
        description="From which numbers on a pass is not believed.",
        examples=[{"max_orphan_fraction": 0.1}],
    )
    report_to: ReportSettings | None = Field(
        default=None,
        description="Where each run writes its list of orphans, for a person to review and for "
        "`filejobs apply`.",
        examples=[{"folder": "/var/lib/filejobs/reports"}],
    )
