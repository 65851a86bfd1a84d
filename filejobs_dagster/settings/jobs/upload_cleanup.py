"""What `upload_cleanup` can be told."""

# pydantic reads the annotations when the module runs, so nothing may move under TYPE_CHECKING.
from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any

from pydantic import Field, StrictInt

from filejobs_dagster.settings.durations import Duration, Wait, duration_in, format_duration
from filejobs_dagster.settings.jobs.job import JobSettings
from filejobs_dagster.settings.problems import mistake
from filejobs_dagster.settings.section import Found
from filejobs_dagster.settings.values import Text, between

_SECOND = timedelta(seconds=1)
_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)


class UploadCleanupSettings(JobSettings):
    """What `upload_cleanup` can be told."""

    limit: StrictInt = Field(
        default=10_000,
        ge=1,
        le=1_000_000,
        description="The most cancelled uploads one run takes, and the most uncertain ones that it "
        "asks about. The rest waits for the next run.",
        examples=[10_000],
    )
    batch_size: StrictInt = Field(
        default=100,
        ge=1,
        le=1000,
        description="How many uploads one transaction claims.",
        examples=[100],
    )
    bucket: Text | None = Field(
        default=None,
        description="The entry of buckets that holds the bytes. May be left out when there is "
        "only one.",
        examples=["uploads"],
    )
    max_attempts: StrictInt = Field(
        default=12,
        ge=1,
        le=1000,
        description="So many failed attempts make an upload a dead letter: nobody tries any more, "
        "and the job reads behind until somebody looks.",
        examples=[12],
    )
    retry_after: Annotated[Wait, between(_SECOND, _DAY)] = Field(
        default=_MINUTE,
        description="The pause after the first failed attempt; each further one doubles it. Up to "
        "half of it is left out by chance.",
        examples=["1m"],
    )
    retry_at_most: Annotated[Wait, between(_SECOND, timedelta(days=7))] = Field(
        default=timedelta(hours=6),
        description="The longest pause between two attempts.",
        examples=["6h"],
    )
    writing_limit: Annotated[Duration, between(_DAY, timedelta(days=365))] = Field(
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

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Look at whether the first pause fits under the longest."""
        yield from super().across(said)
        first = duration_in(said.get("retry_after", "1m"))
        longest = duration_in(said.get("retry_at_most", "6h"))
        if first is not None and longest is not None and first > longest:
            found = f"it is {format_duration(longest)}, and retry_after {format_duration(first)}"
            yield ("retry_at_most",), mistake(found, "write a pause that is not the shorter one")
