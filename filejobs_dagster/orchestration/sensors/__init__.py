"""Sensors: the mirrors, the watchdog, and the early starts that jobs declare."""

import dagster as dg

from filejobs_dagster.orchestration.runs import OVER
from filejobs_dagster.orchestration.sensors.early import early_start_sensor
from filejobs_dagster.orchestration.sensors.freshness import job_freshness_sensor
from filejobs_dagster.orchestration.sensors.mirror import (
    job_run_mirror_sensor,
    job_run_reconciler_sensor,
)
from filejobs_dagster.orchestration.sensors.standing import job_standing_sensor
from filejobs_dagster.registry import BY_NAME
from filejobs_dagster.settings import Loaded


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
    for name, configured in settings.jobs.items():
        due = BY_NAME[name].due
        early = None if due is None else due(settings, configured)
        if early is not None:
            sensors.append(early_start_sensor(settings, early, jobs[name]))
    return sensors
