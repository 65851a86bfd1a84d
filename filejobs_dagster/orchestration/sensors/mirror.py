"""The mirrors: they give every finished run its row in `job_run`."""

from datetime import timedelta

import dagster as dg
import psycopg

from filejobs_dagster.ledger.sanitize import sanitize_exception
from filejobs_dagster.orchestration.reconcile import (
    BUDGET,
    CouldNotRecord,
    Reconciled,
    reconcile,
)
from filejobs_dagster.orchestration.runs import OVER, is_ours
from filejobs_dagster.postgres.connect import DatabaseUnavailable
from filejobs_dagster.settings import (
    Settings,
    known_secrets,
)

WAKE_UP_BUDGET = timedelta(seconds=20)


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


def job_run_reconciler_sensor(settings: Settings) -> dg.SensorDefinition:
    """The sensor that looks for itself."""

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


def job_run_mirror_sensor(settings: Settings, status: dg.DagsterRunStatus) -> dg.SensorDefinition:
    """The sensor that Dagster wakes when a run has ended with this status."""

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
