"""Sensors: the mirrors, the watchdog, and the early start of a job with a backlog."""

from datetime import timedelta

import dagster as dg
import psycopg

from filejobs_dagster.expectations import expectations
from filejobs_dagster.jobs.upload_reservations import opened_source
from filejobs_dagster.ledger.report import alarm_text
from filejobs_dagster.ledger.runs import newest_runs
from filejobs_dagster.ledger.sanitize import sanitize_exception
from filejobs_dagster.ledger.standing import standings
from filejobs_dagster.orchestration.reconcile import (
    BUDGET,
    CouldNotRecord,
    Reconciled,
    reconcile,
)
from filejobs_dagster.orchestration.requests import active_run, request_run
from filejobs_dagster.orchestration.runs import OVER, is_ours
from filejobs_dagster.postgres.connect import Database, DatabaseUnavailable
from filejobs_dagster.settings import (
    Loaded,
    Settings,
    SettingsError,
    UploadReservationsSettings,
    known_secrets,
)

WAKE_UP_BUDGET = timedelta(seconds=20)

NO_USE_IN_TRYING_SOONER = timedelta(minutes=15)
"""After a run that collected nothing, the backlog alone is no reason to start another."""


class JobsNeedAttention(Exception):
    """A job is failed, stale, behind, or has never run. The message is the whole report."""


class StandingUnknown(Exception):
    """The standing of the jobs could not be determined, which is itself an alarm."""


def all_sensors(loaded: Loaded, jobs: dict[str, dg.JobDefinition]) -> list[dg.SensorDefinition]:
    """Every sensor; with broken settings, the watchdog that raises their mistakes."""
    sensors: list[dg.SensorDefinition] = [_job_freshness(loaded)]
    if loaded.settings is None:
        return sensors
    settings = loaded.settings
    sensors += [_job_run_reconciler(settings)]
    sensors += [_job_run_mirror(settings, status) for status in OVER]
    configured = settings.jobs.get("upload_reservations")
    if isinstance(configured, UploadReservationsSettings) and configured.backlog_over is not None:
        sensors.append(_backlog(settings, configured, jobs["upload_reservations"]))
    return sensors


def _told(done: Reconciled) -> dg.SkipReason:
    """What a mirror did, as the tick's reason; a run that could not be recorded raises.

    Raises:
        CouldNotRecord: At least one run has no record yet; it is tried again.
    """
    if done.failed:
        reasons = "\n".join(f"{run_id}: {reason}" for run_id, reason in done.failed.items())
        raise CouldNotRecord(
            f"{len(done.failed)} finished runs could not be recorded in job_run (the other "
            f"{len(done.recorded)} were). They are tried again.\n{reasons}"
        )
    more = "" if done.complete else "; more is left for the next tick"
    return dg.SkipReason(f"Recorded {len(done.recorded)} finished runs{more}.")


def _job_run_reconciler(settings: Settings) -> dg.SensorDefinition:
    @dg.sensor(
        name="job_run_reconciler",
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Gives every finished run its row in job_run, with a watermark in our own "
        "database; finds runs that were lost, and ends them.",
    )
    def job_run_reconciler(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        return _told(_reconcile(context.instance, settings))

    return job_run_reconciler


def _reconcile(
    instance: dg.DagsterInstance, settings: Settings, *, woken: bool = False
) -> Reconciled:
    try:
        return reconcile(
            instance, settings, budget=WAKE_UP_BUDGET if woken else BUDGET, woken=woken
        )
    except (psycopg.Error, DatabaseUnavailable) as error:
        said = sanitize_exception(error, known=known_secrets(settings))
        raise CouldNotRecord(
            f"Finished runs cannot be recorded in job_run: {said}\nNone is lost: the next tick "
            "goes on from the watermark."
        ) from None


def _job_run_mirror(settings: Settings, status: dg.DagsterRunStatus) -> dg.SensorDefinition:
    @dg.run_status_sensor(
        run_status=status,
        name=f"job_run_mirror_{OVER[status]}",
        # Without it the runs of `dagster job execute` are invisible: they have no code location.
        monitor_all_code_locations=True,
        minimum_interval_seconds=10,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Wakes the mirror as soon as a run has ended this way. It may fail or miss a "
        "run: job_run_reconciler looks for itself.",
    )
    def job_run_mirror(context: dg.RunStatusSensorContext) -> None:
        # Anything but None would end the tick after one run.
        if is_ours(context.dagster_run, settings.installation):
            _told(_reconcile(context.instance, settings, woken=True))

    return job_run_mirror


def _job_freshness(loaded: Loaded) -> dg.SensorDefinition:
    @dg.sensor(
        name="job_freshness",
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Fails whenever a job is failed, stale, behind or has never run, and says "
        "which and why. It dies with the daemon: let `filejobs status --check` look from "
        "outside.",
    )
    def job_freshness() -> dg.SkipReason:
        try:
            settings = loaded.require()
        except SettingsError as error:
            raise StandingUnknown(
                f"filejobs.yaml has mistakes; no job can run.\n{error}\nUntil it is mended there "
                "are no schedules, and runs that end are recorded afterwards. Mend it and reload "
                "the code location; `filejobs doctor` checks the file."
            ) from None
        report = _report(settings)
        if report is not None:
            raise JobsNeedAttention(report)
        return dg.SkipReason("Every job of filejobs.yaml stands as it should.")

    return job_freshness


def _report(settings: Settings) -> str | None:
    database = Database.of(settings.database)
    try:
        with (
            database.connect("job_freshness") as connection,
            database.transaction(connection, read_only=True) as cursor,
        ):
            return alarm_text(standings(cursor, settings.installation, expectations(settings)))
    except (psycopg.Error, DatabaseUnavailable) as error:
        said = sanitize_exception(error, known=known_secrets(settings))
        raise StandingUnknown(
            f"The standing of the jobs cannot be read: {said}\nCheck the database, and that "
            "`filejobs migrate` has been run."
        ) from None


def _backlog(
    settings: Settings, configured: UploadReservationsSettings, definition: dg.JobDefinition
) -> dg.SensorDefinition:
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
