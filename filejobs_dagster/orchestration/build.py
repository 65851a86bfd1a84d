"""All definitions, made from the settings or their mistakes: each job with one op, schedules."""

import os
import sys
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg

from filejobs_dagster.collector import Collector
from filejobs_dagster.orchestration import tags
from filejobs_dagster.orchestration.config import CollectorConfig, config_of
from filejobs_dagster.orchestration.execution import execute, settings_for
from filejobs_dagster.orchestration.metadata import (
    catalog_assets,
    job_description,
    mode_in_words,
    owners_of,
)
from filejobs_dagster.orchestration.resources import bucket_resources, resource_key
from filejobs_dagster.orchestration.runs import active_run, request_run
from filejobs_dagster.orchestration.sensors import all_sensors
from filejobs_dagster.orchestration.standing_checks import standing_checks
from filejobs_dagster.registry import BY_NAME, JOBS
from filejobs_dagster.settings import Loaded, Settings

# Each job of the registry as a Dagster job with one op, made of its declaration.

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


# Schedules, for the jobs whose settings give one.


def all_schedules(loaded: Loaded, jobs: dict[str, dg.JobDefinition]) -> list[dg.ScheduleDefinition]:
    """One schedule for each job of the settings that has one; none when they are broken."""
    if loaded.settings is None:
        return []
    settings = loaded.settings
    return [
        _schedule(settings, job, configured.schedule, jobs[job])
        for job, configured in settings.jobs.items()
        if configured.schedule is not None and job in jobs
    ]


def _schedule(
    settings: Settings, job: str, cron: str, definition: dg.JobDefinition
) -> dg.ScheduleDefinition:
    @dg.schedule(
        name=f"{job}_schedule",
        job=definition,
        cron_schedule=cron,
        execution_timezone=settings.jobs[job].time_zone,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=(
            f"{BY_NAME[job].summary} Runs {settings.jobs[job].mode} over everything that is due; "
            "a tick that was missed is not repeated, the next one covers it."
        ),
    )
    def schedule(
        context: dg.ScheduleEvaluationContext,
    ) -> dg.RunRequest | dg.SkipReason:
        active = active_run(context.instance, settings, job)
        if active is not None:
            return dg.SkipReason(f"Run {active} of {job} is queued or running.")
        return request_run(settings, job)

    return schedule


def end_in_a_sentence(loaded: Loaded) -> None:
    """End `dagster job execute` where nothing is set: nobody's instance would keep the run.

    Raises:
        SystemExit: The settings have mistakes. Dagster would bury them in a traceback.
    """
    typed = [Path(sys.argv[0]).name, *sys.argv[1:3]] == ["dagster", "job", "execute"]
    if loaded.settings is None and typed and not os.environ.get("DAGSTER_HOME"):
        sys.exit(
            f"Nothing was run: {'; '.join(map(str, loaded.problems))}. Without a database and a "
            "bucket type `filejobs demo`, which brings its own and runs the same jobs through "
            "Dagster; for your own, `filejobs init` and docs/first-hour.md."
        )


def build_definitions(loaded: Loaded) -> dg.Definitions:
    """Jobs, schedules, sensors and resources; never raises because of the settings."""
    with warnings.catch_warnings():
        # Owners are a beta of Dagster's, and its own sensor decorator passes them always: one
        # warning for each job and sensor in the log of every process that loads this location.
        warnings.filterwarnings("ignore", message="Parameter `owners`", category=dg.BetaWarning)
        jobs = all_jobs(loaded)
        by_name = {job.name: job for job in jobs}
        sensors = all_sensors(loaded, by_name)
    return dg.Definitions(
        assets=catalog_assets(loaded),
        asset_checks=standing_checks(loaded),
        jobs=jobs,
        schedules=all_schedules(loaded, by_name),
        sensors=sensors,
        resources={} if loaded.settings is None else bucket_resources(loaded.settings),
    )
