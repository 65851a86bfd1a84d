"""Each job of the registry as a Dagster job with one op, made of its declaration."""

from datetime import timedelta
from typing import Any

import dagster as dg

from filejobs_dagster.collector import Collector
from filejobs_dagster.orchestration import tags
from filejobs_dagster.orchestration.config import CollectorConfig, config_of
from filejobs_dagster.orchestration.descriptions import (
    job_description,
    mode_in_words,
    owners_of,
)
from filejobs_dagster.orchestration.execution import execute, settings_for
from filejobs_dagster.orchestration.resources import resource_key
from filejobs_dagster.registry import JOBS
from filejobs_dagster.settings import Loaded

WITHOUT_SETTINGS = timedelta(hours=24)


def all_jobs(loaded: Loaded) -> list[dg.JobDefinition]:
    """Every job of the registry."""
    return [_job(loaded, collector) for collector in JOBS if not collector.watched]


def _job(loaded: Loaded, collector: Collector[Any, Any]) -> dg.JobDefinition:
    # Job and op share their name, so the graph between them needs another one.
    graph = dg.GraphDefinition(name=f"{collector.name}_graph", node_defs=[_op(loaded, collector)])
    return graph.to_job(
        name=collector.name,
        description=job_description(loaded, collector),
        tags=job_tags(loaded, collector.name),
        partitions_def=_days(loaded) if collector.partitioned else None,
        executor_def=dg.in_process_executor,
        owners=owners_of(loaded, collector.name),
    )


def _op(loaded: Loaded, collector: Collector[Any, Any]) -> dg.OpDefinition:
    """The op, with the operator's limits as the defaults of its config."""
    settings, needed = loaded.settings, set()
    if settings is not None and collector.name in settings.jobs and collector.deletes_bytes:
        needed = {resource_key(settings.bucket_of(collector.name)[0])}

    def op(context: dg.OpExecutionContext, config: CollectorConfig) -> None:
        execute(context, settings_for(loaded, collector.name), config, collector)

    mode = mode_in_words(loaded, collector.name)
    op.__annotations__["config"] = config_of(collector, settings, mode)
    decorate = dg.op(
        name=collector.name, description=collector.summary, required_resource_keys=needed
    )
    return decorate(op)


def job_tags(loaded: Loaded, job: str) -> dict[str, str]:
    """The tags that every run of a job carries, whatever its door."""
    configured = None if loaded.settings is None else loaded.settings.jobs.get(job)
    longest = WITHOUT_SETTINGS if configured is None else configured.max_runtime
    found = {
        tags.INSTALLATION: loaded.installation,
        tags.EXCLUSIVE: f"{loaded.installation}/{job}",
        tags.MAX_RUNTIME: tags.seconds_until_ended(longest),
    }
    if loaded.settings is not None and loaded.settings.digest:
        found[tags.SETTINGS] = loaded.settings.digest
    if loaded.settings is None or not loaded.settings.allow_live:
        # A run reads the file afresh. Whichever of the two forbids live runs counts, and a file
        # with mistakes allows nothing.
        found[tags.ALLOW_LIVE] = "false"
    return found


def _days(loaded: Loaded) -> dg.DailyPartitionsDefinition:
    """One partition a day, today included: it is what a scheduled run carries."""
    first = "2025-01-01" if loaded.settings is None else loaded.settings.backfill_from.isoformat()
    return dg.DailyPartitionsDefinition(start_date=first, end_offset=1, timezone="UTC")
