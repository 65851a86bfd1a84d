"""The watchdog: it fails whenever a job does not stand as it should."""

import dagster as dg
import psycopg

from filejobs_dagster.expectations import expectations
from filejobs_dagster.ledger.report import alarm_text
from filejobs_dagster.ledger.sanitize import sanitize_exception
from filejobs_dagster.ledger.standing import standings
from filejobs_dagster.postgres.connect import Database, DatabaseUnavailable
from filejobs_dagster.settings import (
    Loaded,
    Settings,
    SettingsError,
    known_secrets,
)


class JobsNeedAttention(Exception):
    """A job is failed, stale, behind, or has never run. The message is the whole report."""


class StandingUnknown(Exception):
    """The standing of the jobs could not be determined, which is itself an alarm."""


def job_freshness_sensor(loaded: Loaded) -> dg.SensorDefinition:
    """The sensor; with broken settings it raises their mistakes."""

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
