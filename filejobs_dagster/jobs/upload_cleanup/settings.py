"""What `upload_cleanup` can be told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, ClassVar

from pydantic import Field, StrictInt

from filejobs_dagster.settings.durations import Duration, Wait, duration_in, format_duration
from filejobs_dagster.settings.job import JobSettings, OneRun, Run
from filejobs_dagster.settings.problems import mistake
from filejobs_dagster.settings.section import Found
from filejobs_dagster.settings.values import Text, between

JOB = "upload_cleanup"

_SECOND = timedelta(seconds=1)
_MINUTE = timedelta(minutes=1)
_HOUR = timedelta(hours=1)
_DAY = timedelta(days=1)


class UploadCleanupSettings(JobSettings):
    """What `upload_cleanup` can be told."""

    limit: Annotated[
        StrictInt,
        Run(
            "Most cancelled uploads to take in this run, {least} to {most}, those first that are "
            "due the longest. What is left is reported as truncated."
        ),
    ] = Field(
        default=10_000,
        ge=1,
        le=1_000_000,
        description="The most cancelled uploads one run takes, and the most uncertain ones that it "
        "asks about. The rest waits for the next run.",
        examples=[10_000],
    )
    batch_size: Annotated[
        StrictInt,
        Run("Uploads in one transaction and objects in one delete request, {least} to {most}."),
    ] = Field(
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
    writing_limit: Annotated[
        Duration,
        between(_DAY, timedelta(days=365)),
        Run(
            "A writer that gave no sign of life for longer is uncertain, and storage is asked "
            "about its object, with a unit: 24h, 7d; at least {least}, at most {most}."
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

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Look at whether the first pause fits under the longest."""
        yield from super().across(said)
        first = duration_in(said.get("retry_after", "1m"))
        longest = duration_in(said.get("retry_at_most", "6h"))
        if first is not None and longest is not None and first > longest:
            found = f"it is {format_duration(longest)}, and retry_after {format_duration(first)}"
            yield ("retry_at_most",), mistake(found, "write a pause that is not the shorter one")


@dataclass(frozen=True)
class BackOff:
    """The pause before a row is tried again.

    Up to half of it is left out by chance, so that rows do not move in step.

    Attributes:
        first: After the first attempt; each further one doubles it.
        longest: The cap.
        max_attempts: So many attempts make a dead letter.
    """

    first: timedelta
    longest: timedelta
    max_attempts: int


class Request(OneRun, UploadCleanupSettings):
    """What one run does.

    Attributes:
        lease: How long a claim keeps other workers away; a longer pause loses it.
        look_again: Between two looks at a legal hold, and at what stays uncertain.
    """

    lease: ClassVar[timedelta] = timedelta(minutes=10)
    look_again: ClassVar[timedelta] = _DAY

    @property
    def back_off(self) -> BackOff:
        """When a row is tried again, and how often."""
        return BackOff(self.retry_after, self.retry_at_most, self.max_attempts)
