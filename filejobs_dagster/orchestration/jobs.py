"""Each job of the registry as a Dagster job with one op."""

from datetime import timedelta

import dagster as dg

from filejobs_dagster.orchestration import tags
from filejobs_dagster.orchestration.descriptions import job_description, owners_of
from filejobs_dagster.orchestration.ops import OPS
from filejobs_dagster.registry import JOBS, RegisteredJob
from filejobs_dagster.settings import Loaded

WITHOUT_SETTINGS = timedelta(hours=24)


def all_jobs(loaded: Loaded) -> list[dg.JobDefinition]:
    """Every job of the registry."""
    return [_job(loaded, registered) for registered in JOBS]


def _job(loaded: Loaded, registered: RegisteredJob) -> dg.JobDefinition:
    op = OPS[registered.name](loaded, registered)

    # Job and op share their name, so the graph between them needs another one.
    graph = dg.GraphDefinition(name=f"{registered.name}_graph", node_defs=[op])
    return graph.to_job(
        name=registered.name,
        description=job_description(loaded, registered),
        tags=job_tags(loaded, registered.name),
        partitions_def=_days(loaded) if registered.partitioned else None,
        executor_def=dg.in_process_executor,
        owners=owners_of(loaded, registered.name),
    )


def job_tags(loaded: Loaded, job: str) -> dict[str, str]:
    """The tags that every run of a job carries, whatever its door."""
    configured = None if loaded.settings is None else loaded.settings.jobs.get(job)
    longest = WITHOUT_SETTINGS if configured is None else configured.max_runtime
    return {
        tags.INSTALLATION: loaded.installation,
        tags.EXCLUSIVE: f"{loaded.installation}/{job}",
        tags.MAX_RUNTIME: tags.seconds_until_ended(longest),
    }


def _days(loaded: Loaded) -> dg.DailyPartitionsDefinition:
    """One partition a day, today included: it is what a scheduled run carries."""
    first = "2025-01-01" if loaded.settings is None else loaded.settings.backfill_from.isoformat()
    return dg.DailyPartitionsDefinition(start_date=first, end_offset=1, timezone="UTC")
