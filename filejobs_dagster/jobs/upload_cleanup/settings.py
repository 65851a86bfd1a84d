"""What `upload_cleanup` can be told."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, ClassVar

from pydantic import Field, StrictInt

from filejobs_dagster.settings.section import OneBucketSettings, OneRun, Run
from filejobs_dagster.settings.values import Duration, between

JOB = "upload_cleanup"

_SECOND = timedelta(seconds=1)
_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)


class UploadCleanupSettings(OneBucketSettings):
    """What `upload_cleanup` can be told."""

    not_here: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("table", "tables", "source", "states", "where", "set"),
        "this job knows the states of the table upload alone. Cancelled uploads of a table of your "
        "own go by upload_reservations: tables: [{…, where: \"state = 'cancelled'\", set: {state: "
        "cleaned}}]",
    )

    limit: Annotated[
        StrictInt,
        Run(
            "Most cancelled uploads to clean up in this run, {least} to {most}, those first that "
            "are due the longest. What is left is reported as truncated.",
            safer="less",
        ),
    ] = Field(
        default=10_000,
        ge=1,
        le=1_000_000,
        description="The most cancelled uploads one run cleans up, those that failed not counted, "
        "and the most uncertain ones that it asks about. The rest waits for the next run.",
        examples=[10_000],
    )
    batch_size: Annotated[
        StrictInt,
        Run(
            "Uploads in one transaction and objects in one delete request, {least} to {most}.",
            safer="less",
        ),
    ] = Field(
        default=100,
        ge=1,
        le=1000,
        description="How many uploads one transaction claims.",
        examples=[100],
    )
    max_attempts: StrictInt = Field(
        default=12,
        ge=1,
        le=1000,
        description="So many failed attempts make an upload a dead letter: nobody tries any more, "
        "and the job reads behind until somebody looks.",
        examples=[12],
    )
    writing_limit: Annotated[
        Duration,
        between(_DAY, timedelta(days=365)),
        Run(
            "A writer that gave no sign of life for longer is uncertain, and storage is asked "
            "about its object, with a unit: 24h, 7d; at least {least}, at most {most}.",
            safer="more",
        ),
    ] = Field(
        default=timedelta(days=7),
        description="A writer that gave no sign of life for longer is uncertain, and storage is "
        "asked about its object. The floor is 24h: longer than your longest upload.",
        examples=["7d"],
    )
    settle_after: Annotated[Duration, between(_MINUTE, timedelta(days=30))] = Field(
        default=_HOUR,
        description="How long an uncertain upload whose object is not there is still given, since "
        "a server may yet finish what it was asked for.",
        examples=["1h"],
    )


class UploadCleanupRun(OneRun, UploadCleanupSettings):
    """What one run does.

    Attributes:
        lease: How long a claim keeps other workers away; a longer pause loses it.
        look_again: Between two looks at a legal hold, and at what stays uncertain.
    """

    lease: ClassVar[timedelta] = timedelta(minutes=10)
    look_again: ClassVar[timedelta] = _DAY
