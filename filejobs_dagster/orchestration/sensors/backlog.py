"""The early start of `upload_reservations` when it has a backlog."""

from datetime import timedelta

import dagster as dg

from filejobs_dagster.jobs.upload_reservations import opened_source
from filejobs_dagster.ledger.runs import newest_runs
from filejobs_dagster.orchestration.requests import active_run, request_run
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.settings import (
    Settings,
    UploadReservationsSettings,
)

NO_USE_IN_TRYING_SOONER = timedelta(minutes=15)
"""After a run that collected nothing, the backlog alone is no reason to start another."""


def backlog_sensor(
    settings: Settings, configured: UploadReservationsSettings, definition: dg.JobDefinition
) -> dg.SensorDefinition:
    """The sensor; `configured.backlog_over` says from how many on."""
    job = definition.name
    backlog_over = configured.backlog_over or 0

    @dg.sensor(
        name=f"{job}_backlog",
        job=definition,
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Starts {job} early when more than {backlog_over:,} reservations are due. "
        "Only for a live job, and not when its last run made no difference.",
    )
    def backlog(context: dg.SensorEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        if configured.mode != "live" or not settings.allow_live:
            return dg.SkipReason("A dry run would leave the backlog as it is.")
        database = Database.of(settings.database)
        with database.connect(f"{job} backlog") as connection:
            with opened_source(configured.source, database, connection) as source:
                due = source.count_due(configured.grace, most=backlog_over + 1)
            with database.transaction(connection, read_only=True) as cursor:
                recent = newest_runs(
                    cursor, settings.installation, job=job, limit=1, since=NO_USE_IN_TRYING_SOONER
                )
        if due <= backlog_over:
            return dg.SkipReason(f"{due:,} reservations are due, not more than {backlog_over:,}.")
        if recent and not recent[0].acted:
            return dg.SkipReason(f"Run {recent[0].run_id} of {job} has just made no difference.")
        active = active_run(context.instance, settings, job)
        if active is not None:
            return dg.SkipReason(f"Run {active} of {job} is queued or running.")
        return request_run(settings, job)

    return backlog
