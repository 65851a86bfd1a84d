"""What the jobs of the audit chain can be told; the rest stands in the section `audit`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import Field, StrictInt

from filejobs_dagster.settings.jobs.job import JobSettings
from filejobs_dagster.settings.problems import mistake
from filejobs_dagster.settings.section import Found


class AuditSealSettings(JobSettings):
    """What `audit_seal` can be told; what it signs with and where pins go stands in `audit`."""

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Refuse a limit: a chain left out would look sealed."""
        yield from super().across(said)
        yield from _every_chain(said)


class AuditTrimSettings(JobSettings):
    """What `audit_trim` can be told; how long events are kept stands in `audit`."""

    limit: StrictInt = Field(
        default=1_000_000,
        ge=1,
        le=100_000_000,
        description="The most events one run removes, over all chains. The rest waits for the "
        "next run.",
        examples=[1_000_000],
    )
    batch_size: StrictInt = Field(
        default=10_000,
        ge=1,
        le=1_000_000,
        description="How many events one transaction removes; each has a receipt of its own.",
        examples=[10_000],
    )


class AuditVerifySettings(JobSettings):
    """What `audit_verify` can be told; whom it believes stands in `audit`."""

    mode: Literal["dry"] = Field(
        default="dry",
        description="Always dry: verifying changes nothing, so there is no live mode.",
        examples=["dry"],
    )
    check: Literal["full", "incremental", "rolling"] = Field(
        default="full",
        description="Which events are computed again: all, those behind the newest pin, or those "
        "and the part of the day.",
        examples=["rolling"],
    )

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Refuse a limit: a chain left out would look verified."""
        yield from super().across(said)
        yield from _every_chain(said)


def _every_chain(said: Mapping[str, Any]) -> Iterator[Found]:
    if said.get("limit") is not None:
        yield ("limit",), mistake("it takes every chain, whole", "leave limit out")
