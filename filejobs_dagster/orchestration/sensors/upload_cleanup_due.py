"""The start of `upload_cleanup` as soon as there is something for it to do."""

from datetime import timedelta

import dagster as dg

from filejobs_dagster.jobs.upload_cleanup import count_due
from filejobs_dagster.ledger.runs import newest_runs
from filejobs_dagster.orchestration.requests import active_run, request_run
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.settings import Settings, UploadCleanupSettings

NO_USE_IN_TRYING_SOONER = timedelta(minutes=5)
"""After a run that failed, more of the same is no reason to start another; the schedule is."""


def upload_cleanup_due_sensor(
    settings: Settings, configured: UploadCleanupSettings, definition: dg.JobDefinition
) -> dg.SensorDefinition:
    """The sensor; what is due, the table `upload` says."""
    job = definition.name

    @dg.sensor(
        name=f"{job}_due",
        job=definition,
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Starts {job} as soon as an upload is due: cancelled, uncertain, silent for "
        "too long, or retained until now. Only for a live job; never beside a run of it that is "
        "queued or running, and not within five minutes of a run that failed.",
    )
    def upload_cleanup_due(
        context: dg.SensorEvaluationContext,
    ) -> dg.RunRequest | dg.SkipReason:
        if configured.mode != "live" or not settings.allow_live:
            return dg.SkipReason("A dry run would leave what is due as it is.")
        database = Database.of(settings.database)
        with (
            database.connect(f"{job} due") as connection,
            database.transaction(connection, read_only=True) as cursor,
        ):
            due = count_due(cursor, configured.writing_limit)
            recent = newest_runs(
                cursor, settings.installation, job=job, limit=1, since=NO_USE_IN_TRYING_SOONER
            )
        if not due.anything:
            return dg.SkipReason("Nothing is due.")
        active = active_run(context.instance, settings, job)
        if active is not None:
            return dg.SkipReason(f"Run {active} of {job} is queued or running.")
        if recent and recent[0].outcome == "failed":
            return dg.SkipReason(
                f"Run {recent[0].run_id} of {job} has just failed; {due} wait for a moment."
            )
        context.log.info("Due now: %s.", due)
        return request_run(settings, job)

    return upload_cleanup_due
