"""What `run_history` can be told, and Dagster's storage as far as the job needs it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Protocol

from pydantic import Field, StrictInt

from filejobs_dagster.settings.section import JobSettings, OneRun, Run
from filejobs_dagster.settings.values import Duration, between

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

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
            "is reported as truncated.",
            safer="less",
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
        Run(
            "Runs between two signs of life, {least} to {most}. Each batch has its audit events.",
            safer="less",
        ),
    ] = Field(
        default=100,
        ge=1,
        le=1000,
        description="How many runs go between two signs of life; each batch has its audit events.",
        examples=[100],
    )


class RunHistoryRun(OneRun, RunHistorySettings):
    """What one run does. How long runs are kept is not its choice."""


# Dagster's storage, as far as this job needs it.


@dataclass(frozen=True)
class OldRun:
    """A run that is over.

    Attributes:
        run_id: The Dagster run.
        job: A name of the registry.
        ended_at: When Dagster saw it end.
        backfill: The backfill that it belongs to, or None.
        awaits_retry: True when it failed, is to be started again, and was not yet.
    """

    run_id: str
    job: str
    ended_at: datetime
    backfill: str | None = None
    awaits_retry: bool = False


class History(Protocol):
    """What the storage of one Dagster instance is asked."""

    @property
    def lasting(self) -> bool:
        """False when the instance, and everything in it, goes with this process."""
        ...

    def over(self, before: datetime) -> Iterator[Sequence[OldRun]]:
        """Pages of this installation's runs that are over and did not change since `before`.

        In the order in which they were created. The next page is read before one is handed out, so
        that its runs may be removed.
        """
        ...

    def leaned_on(self, run_ids: Sequence[str], since: datetime) -> set[str]:
        """Those of the runs that another repeats which is not over or changed after `since`."""
        ...

    def open_backfills(self, backfills: Iterable[str]) -> set[str]:
        """Those of the backfills that are not over."""
        ...

    def not_over(self, run_ids: Sequence[str]) -> set[str]:
        """Those of the runs that the storage knows and does not call over."""
        ...

    def remove_all(self, run_ids: Sequence[str]) -> Mapping[str, str]:
        """Remove runs with all that is kept of them; what is gone already is fine.

        Returns:
            Why a run could not be removed, wholly, for each such run. The next pass finds it again.
        """
        ...
