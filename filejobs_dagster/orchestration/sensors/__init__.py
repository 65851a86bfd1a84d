"""Sensors: the mirrors, the watchdog, and the early start of a job. Add a sensor here."""

import dagster as dg

from filejobs_dagster.orchestration.runs import OVER
from filejobs_dagster.orchestration.sensors.backlog import backlog_sensor
from filejobs_dagster.orchestration.sensors.freshness import job_freshness_sensor
from filejobs_dagster.orchestration.sensors.mirror import (
    job_run_mirror_sensor,
    job_run_reconciler_sensor,
)
from filejobs_dagster.orchestration.sensors.standing import job_standing_sensor
from filejobs_dagster.orchestration.sensors.upload_cleanup_due import upload_cleanup_due_sensor
from filejobs_dagster.settings import Loaded, UploadCleanupSettings, UploadReservationsSettings


def all_sensors(loaded: Loaded, jobs: dict[str, dg.JobDefinition]) -> list[dg.SensorDefinition]:
    """Every sensor; with broken settings, the watchdog that raises their mistakes."""
    sensors: list[dg.SensorDefinition] = [
        job_freshness_sensor(loaded),
        job_standing_sensor(loaded),
    ]
    if loaded.settings is None:
        return sensors
    settings = loaded.settings
    sensors += [job_run_reconciler_sensor(settings)]
    sensors += [job_run_mirror_sensor(settings, status) for status in OVER]
    configured = settings.jobs.get("upload_reservations")
    if isinstance(configured, UploadReservationsSettings) and configured.backlog_over is not None:
        sensors.append(backlog_sensor(settings, configured, jobs["upload_reservations"]))
    cleanup = settings.jobs.get("upload_cleanup")
    if isinstance(cleanup, UploadCleanupSettings):
        sensors.append(upload_cleanup_due_sensor(settings, cleanup, jobs["upload_cleanup"]))
    return sensors
