"""What the settings ask of the jobs, in the words of the ledger."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from filejobs_dagster.ledger.standing import Expectation
from filejobs_dagster.registry import BY_NAME
from filejobs_dagster.settings.cron import MACROS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from filejobs_dagster.settings import Settings


def expectations(
    settings: Settings, thresholds: Mapping[str, timedelta] | None = None
) -> list[Expectation]:
    """One expectation for each job of the settings.

    Args:
        settings: The operator's file. `allow_live: false` does not turn a live job into a dry one:
            what was asked for is still missing.
        thresholds: Given with the call; each wins over the settings. A job that the settings do
            not have is expected to sweep: only live runs count for it, where it has any.
    """
    given = dict(thresholds or {})
    asked = [
        Expectation(
            job=name,
            configured=True,
            mode=job.mode,
            stale_after=job.stale_after,
            by_hand=job.by_hand,
            time_zone=job.time_zone,
            alert_after=job.alert_after,
            schedule=None if job.schedule is None else MACROS.get(job.schedule, job.schedule),
        )
        for name, job in settings.jobs.items()
    ]
    asked = [
        replace(expectation, stale_after=given.pop(expectation.job, expectation.stale_after))
        for expectation in asked
    ]
    return asked + [
        Expectation(
            job=name,
            configured=True,
            mode="dry" if BY_NAME[name].read_only else "live",
            stale_after=threshold,
        )
        for name, threshold in given.items()
    ]
