"""All definitions, made from the settings or from their mistakes."""

import warnings

import dagster as dg

from filejobs_dagster.orchestration.jobs import all_jobs
from filejobs_dagster.orchestration.resources import bucket_resources
from filejobs_dagster.orchestration.schedules import all_schedules
from filejobs_dagster.orchestration.sensors import all_sensors
from filejobs_dagster.orchestration.shown import catalog_assets
from filejobs_dagster.orchestration.standing_checks import standing_checks
from filejobs_dagster.settings import Loaded


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
