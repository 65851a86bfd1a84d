"""Each job of the registry as a Dagster job with one op."""

from datetime import timedelta

import dagster as dg

from filejobs_dagster.orchestration import tags
from filejobs_dagster.orchestration.config import CollectorConfig
from filejobs_dagster.orchestration.descriptions import job_description, owners_of
from filejobs_dagster.orchestration.execution import settings_for
from filejobs_dagster.orchestration.ops import OPS
from filejobs_dagster.registry import JOBS, RegisteredJob
from filejobs_dagster.settings import Loaded

WITHOUT_SETTINGS = timedelta(hours=24)


def all_jobs(loaded: Loaded) -> list[dg.JobDefinition]:
    """Every job of the registry; those that are not built yet say so when they are started."""
    return [_job(loaded, registered) for registered in JOBS]


def _job(loaded: Loaded, registered: RegisteredJob) -> dg.JobDefinition:
    op = OPS.get(registered.name, _not_built)(loaded, registered)

    # Job and op share their name, so the graph between them needs another one.
    graph = dg.GraphDefinition(name=f"{registered.name}_graph", node_defs=[op])
    return graph.to_job(
        name=registered.name,
        description=job_description(loaded, registered),
        tags=job_tags(loaded, registered.name),
        partitions_def=_days(loaded) if registered.partitioned and registered.built else None,
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


def _not_built(loaded: Loaded, registered: RegisteredJob) -> dg.OpDefinition:
    @dg.op(name=registered.name, description=job_description(loaded, registered))
    def op(context: dg.OpExecutionContext, config: CollectorConfig) -> None:
        context.log.info("%s was asked for with dry_run: %s.", registered.name, config.dry_run)
        settings_for(loaded, registered.name)
        raise dg.Failure(
            f"{registered.name} is not built in this version of filejobs_dagster: it did nothing. "
            "Take it out of `jobs:` in filejobs.yaml until it is.",
            allow_retries=False,
        )

    return op
