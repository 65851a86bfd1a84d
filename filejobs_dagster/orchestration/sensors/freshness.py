"""The watchdog: it fails whenever a job does not stand as it should, and tells somebody."""

import time

import dagster as dg
import psycopg

from filejobs_dagster.alerts.conditions import Looked, look
from filejobs_dagster.alerts.heartbeat import beat
from filejobs_dagster.alerts.rounds import (
    Round,
    Teller,
    conduct_round,
    limits_of,
    patient,
    tell_of_trouble,
)
from filejobs_dagster.expectations import expectations
from filejobs_dagster.ledger.report import alarm_text
from filejobs_dagster.ledger.sanitize import sanitize_exception
from filejobs_dagster.ledger.standing import Standing, standings
from filejobs_dagster.orchestration.alerting import (
    BUDGET,
    LONGEST_WAIT,
    queued_runs_if_readable,
    tell_of_broken,
    teller,
)
from filejobs_dagster.orchestration.draining import pause_of
from filejobs_dagster.postgres.connect import Connection, Database, DatabaseUnavailable
from filejobs_dagster.settings import (
    Loaded,
    Settings,
    SettingsError,
    known_secrets,
    read_settings,
)


class JobsNeedAttention(Exception):
    """A job is failed, stale, behind, or has never run. The message is the whole report."""


class StandingUnknown(Exception):
    """The standing of the jobs could not be determined, which is itself an alarm."""


class AlertsNotHeard(Exception):
    """Somebody cannot be told. A watchdog that nobody hears is no watchdog."""


def job_freshness_sensor(loaded: Loaded) -> dg.SensorDefinition:
    """The sensor; with broken settings it raises their mistakes."""

    @dg.sensor(
        name="job_freshness",
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Fails whenever a job is failed, stale, behind or has never run, says which "
        "and why, and tells those whom the settings name under `alerts`. It dies with the daemon: "
        "let the heartbeat be missed, or `filejobs status --check` look from outside.",
    )
    def job_freshness(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        # A file that was broken since is told here, once, and not by each job that then fails.
        now = loaded
        if loaded.settings is not None and loaded.settings.digest:
            now = read_settings(loaded.path)
        try:
            settings, current = loaded.require(), now.require()
        except SettingsError as error:
            told = tell_of_broken(context.instance, now)
            raise StandingUnknown(
                f"filejobs.yaml has mistakes; no job can run.\n{error}\nUntil it is mended there "
                "are no schedules, and runs that end are recorded afterwards. Mend it and reload "
                f"the code location; `filejobs doctor` checks the file.{_not_heard(told)}"
            ) from None
        return _tick(
            context.instance, settings, _in_force(settings, current) + _held(context.instance)
        )

    return job_freshness


def _in_force(loaded: Settings, now: Settings) -> str:
    """Which settings the code server has, and whether the file is another one by now."""
    if not loaded.digest:
        return ""
    said = f"\nThe code server has read the settings {loaded.digest}"
    if now.digest == loaded.digest:
        return f"{said}, as they stand in the file."
    return (
        f"{said}; the file has changed since, to {now.digest}. Runs read it anew. Schedules, "
        "sensors, jobs and thresholds follow when the code server is started again."
    )


def _held(instance: dg.DagsterInstance) -> str:
    pause = pause_of(instance)
    return "" if pause is None else f"\nNo run begins: {pause}. `filejobs drain --resume` ends it."


def _tick(instance: dg.DagsterInstance, settings: Settings, in_force: str) -> dg.SkipReason:
    found, told = _look_and_tell(instance, settings)
    report = alarm_text(found)
    if report is not None:
        raise JobsNeedAttention(report + in_force + _not_heard(told))
    if told.unheard or (told.trouble is not None and settings.alerts.to):
        raise AlertsNotHeard(
            "Every job stands as it should, but nobody would hear of it otherwise."
            + _not_heard(told)
        )
    if told.seen or told.trouble is not None:
        # Who is told was told. The dead man's switch stays silent: this is not health.
        wrong = "".join(f"\n{each.title}: {each.reason}" for each in told.seen)
        return dg.SkipReason(
            "Every job of filejobs.yaml stands as it should, but no heartbeat was sent:"
            f"{wrong}{in_force}{_not_heard(told)}"
        )
    return dg.SkipReason(
        f"Every job of filejobs.yaml stands as it should.{_heartbeat(settings)}{in_force}"
    )


def _look_and_tell(
    instance: dg.DagsterInstance, settings: Settings
) -> tuple[list[Standing], Round]:
    """The standings, after what they mean was committed to the outbox and what is due was said.

    Raises:
        StandingUnknown: They cannot be read; that was told without the outbox.
    """
    who = teller(instance, settings)
    database = patient(Database.of(settings.database), LONGEST_WAIT)
    try:
        with database.connect("job_freshness") as connection:
            with database.transaction(connection, read_only=True) as cursor:
                found = standings(cursor, settings.installation, expectations(settings))
            return found, _round(instance, settings, who, database, connection, found)
    except (psycopg.Error, DatabaseUnavailable) as error:
        told = tell_of_trouble(who, error, deadline=time.monotonic() + BUDGET.total_seconds())
        said = sanitize_exception(error, known=known_secrets(settings))
        raise StandingUnknown(
            f"The standing of the jobs cannot be read: {said}\nCheck the database, and that "
            f"`filejobs migrate` has been run.{_who_was_not_told(told)}"
        ) from None


def _round(
    instance: dg.DagsterInstance,
    settings: Settings,
    who: Teller,
    database: Database,
    connection: Connection,
    found: list[Standing],
) -> Round:
    queued = queued_runs_if_readable(instance, settings.installation)

    def what_is_wrong(cursor: "psycopg.Cursor[psycopg.rows.TupleRow]") -> Looked:
        return look(
            cursor,
            settings.installation,
            found,
            limits_of(settings),
            queued=queued,
            known=who.known,
        )

    return conduct_round(who, database, connection, what_is_wrong, budget=BUDGET)


def _not_heard(told: Round) -> str:
    """What a tick adds to its own words when somebody could not be told."""
    lines = []
    if told.trouble is not None:
        lines.append(f"Alerts could not be written down: {told.trouble}")
    lines += [
        f"{each.destination} has not been told {each.notices} things since "
        f"{each.since:%Y-%m-%d %H:%M} UTC, after {each.attempts} attempts: {each.error}"
        for each in told.unheard
    ]
    return "".join(f"\n\n{line}" for line in lines) + _who_was_not_told(told)


def _who_was_not_told(told: Round) -> str:
    if told.trouble is None:
        return ""
    failed = [each for each in told.delivered if each.error is not None]
    return "".join(f"\n\n{each.destination} could not be told: {each.error}" for each in failed)


def _heartbeat(settings: Settings) -> str:
    heartbeat = settings.alerts.heartbeat
    if heartbeat is None:
        return ""
    error = beat(heartbeat.url.reveal().strip())
    return " The heartbeat was sent." if error is None else f" But {error}."
