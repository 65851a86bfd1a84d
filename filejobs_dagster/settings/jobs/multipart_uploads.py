"""What `multipart_uploads` can be told."""

# pydantic reads the annotations when the module runs, so nothing may move under TYPE_CHECKING.
from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import Field, StrictInt

from filejobs_dagster.settings.durations import Duration, Wait
from filejobs_dagster.settings.jobs.job import JobSettings
from filejobs_dagster.settings.values import Text, between

_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)


class MultipartUploadsSettings(JobSettings):
    """What `multipart_uploads` can be told."""

    limit: StrictInt = Field(
        default=10_000,
        ge=1,
        le=1_000_000,
        description="The most multipart uploads one run aborts. The rest waits for the next run.",
        examples=[10_000],
    )
    batch_size: StrictInt = Field(
        default=100,
        ge=1,
        le=1000,
        description="How many multipart uploads share one intent in the audit log.",
        examples=[100],
    )
    max_runtime: Annotated[Wait, between(_SECOND, _DAY)] = Field(
        default=timedelta(hours=2),
        description="How long one run may take before it stops and says so.",
        examples=["2h"],
    )
    bucket: Text | None = Field(
        default=None,
        description="The entry of buckets that is swept. May be left out when there is only one.",
        examples=["uploads"],
    )
    idle_for: Annotated[Duration, between(_DAY, timedelta(days=3650))] = Field(
        default=timedelta(days=7),
        description="How old the newest part of a multipart upload must be before it is aborted; "
        "without parts, its initiation. The floor is 24h.",
        examples=["7d"],
    )
    ask_again_for: Annotated[Duration, between(timedelta(0), timedelta(days=365))] = Field(
        default=timedelta(days=7),
        description="How long after a row of upload was cleaned its multipart upload is still "
        "asked for by its id, for parts that arrived late.",
        examples=["7d"],
    )
