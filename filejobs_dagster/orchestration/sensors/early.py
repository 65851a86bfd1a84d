"""The early start of a job, as it declares it."""

import dagster as dg

from filejobs_dagster.collector import EarlyStart
from filejobs_dagster.orchestration.requests import active_run, request_run
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.settings import Settings


def early_start_sensor(
    settings: Settings, early: EarlyStart, definition: dg.JobDefinition
) -> dg.SensorDefinition:
    """The sensor: it starts a live job, never beside a run of it that is queued or running."""
    job = definition.name

    @dg.sensor(
        name=f"{job}_{early.suffix}",
        job=definition,
        minimum_interval_seconds=int(early.every.total_seconds()),
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=early.description,
    )
    def early_start(context: dg.SensorEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        if settings.jobs[job].mode != "live" or not settings.allow_live:
            return dg.SkipReason(early.if_dry)
        database = Database.of(settings.database)
        with database.connect(f"{job} {early.suffix}") as connection:
            why_not = early.why_not(database, connection)
        if why_not is not None:
            return dg.SkipReason(why_not)
        active = active_run(context.instance, settings, job)
        if active is not None:
            return dg.SkipReason(f"Run {active} of {job} is queued or running.")
        return request_run(settings, job)

    return early_start
