"""What `multipart_uploads` can be told."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import Field, StrictInt

from filejobs_dagster.settings.section import MaxRuntime, OneBucketSettings, OneRun, Run
from filejobs_dagster.settings.values import Duration, between

JOB = "multipart_uploads"

_DAY = timedelta(days=1)


class MultipartUploadsSettings(OneBucketSettings):
    """What `multipart_uploads` can be told."""

    limit: Annotated[
        StrictInt,
        Run(
            "Most multipart uploads to abort in this run, {least} to {most}. What is left is "
            "reported as truncated.",
            safer="less",
        ),
    ] = Field(
        default=10_000,
        ge=1,
        le=1_000_000,
        description="The most multipart uploads one run aborts. The rest waits for the next run.",
        examples=[10_000],
    )
    batch_size: Annotated[
        StrictInt,
        Run(
            "Multipart uploads that share one intent in the audit log, {least} to {most}.",
            safer="less",
        ),
    ] = Field(
        default=100,
        ge=1,
        le=1000,
        description="How many multipart uploads share one intent in the audit log.",
        examples=[100],
    )
    idle_for: Annotated[
        Duration,
        between(_DAY, timedelta(days=3650)),
        Run(
            "How old the newest part of an upload must be before it is aborted, and without parts "
            "its initiation, with a unit: 24h, 7d; at least {least}.",
            safer="more",
        ),
    ] = Field(
        default=timedelta(days=7),
        description="How old the newest part of a multipart upload must be before it is aborted; "
        "without parts, its initiation. The floor is 24h.",
        examples=["7d"],
    )
    ask_again_for: Annotated[
        Duration,
        between(timedelta(0), timedelta(days=365)),
        Run(
            "How long after a row of `upload` was cleaned its multipart upload is still asked for "
            "by its id, with a unit: 0s, 7d; at most {most}.",
            safer="less",
        ),
    ] = Field(
        default=timedelta(days=7),
        description="How long after a row of upload was cleaned its multipart upload is still "
        "asked for by its id, for parts that arrived late.",
        examples=["7d"],
    )
    max_runtime: Annotated[
        MaxRuntime,
        Run(
            "No further upload is aborted after this time, with a unit: 30m, 2h; at most {most}.",
            safer="less",
        ),
    ] = Field(
        default=timedelta(hours=2),
        description="How long one run may take before it stops and says so.",
        examples=["2h"],
    )


class MultipartUploadsRun(OneRun, MultipartUploadsSettings):
    """What one run does."""
