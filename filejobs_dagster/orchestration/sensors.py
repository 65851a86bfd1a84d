"""Sensors: mirrors, the watchdog, standings in the catalog, and early starts that jobs declare.

The watchdog fails while a job does not stand as it should, and tells somebody; what alerts need of
Dagster is here for that.
"""

import json
import os
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from typing import Any

import dagster as dg
import psycopg

from filejobs_dagster.alerts.conditions import Looked, QueuedRun, look
from filejobs_dagster.alerts.outbox import parsed
from filejobs_dagster.alerts.rounds import (
    Round,
    Teller,
    conduct_round,
    limits_of,
    patient,
    tell_of_broken_settings,
    tell_of_trouble,
    teller_of,
)
from filejobs_dagster.alerts.sending import beat, complain
from filejobs_dagster.collector import EarlyStart
from filejobs_dagster.expectations import expectations
from filejobs_dagster.ledger.standing import Standing, standings
from filejobs_dagster.orchestration import tags
from filejobs_dagster.orchestration.draining import pause_of
from filejobs_dagster.orchestration.reconcile import (
    BUDGET,
    CouldNotRecord,
    Reconciled,
    reconcile,
)
from filejobs_dagster.orchestration.runs import OVER, active_run, is_ours, request_run
from filejobs_dagster.orchestration.standing_checks import newest_runs_of, verdicts, words
from filejobs_dagster.postgres.connect import Connection, Database, DatabaseUnavailable
from filejobs_dagster.registry import BY_NAME
from filejobs_dagster.settings import (
    Loaded,
    Salvaged,
    Settings,
    SettingsError,
    known_secrets,
    last_good,
    read_settings,
    recalled,
    salvage,
)
from filejobs_dagster.text import sanitize_exception

# The early start of a job, as it declares it.


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


# The mirrors: they give every finished run its row in `job_run`.

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


# Reports each job's standing to the catalog, so that the overview of the web UI shows it.

REPEATED_AFTER = timedelta(minutes=10)
"""An unchanged verdict is reported again after this, so that its time tells that somebody looks.

Each report is an event of about a kilobyte that Dagster keeps: every minute would be too much.
"""


def job_standing_sensor(loaded: Loaded) -> dg.SensorDefinition:
    """The sensor; it reports and never raises, which `job_freshness` does."""

    @dg.sensor(
        name="job_standing",
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Shows in the catalog where each job stands: a check that is red for a job "
        "that never ran, is stale, behind or failed. It reports what `filejobs status` says.",
    )
    def job_standing(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        found = verdicts(loaded)
        now = datetime.now(timezone.utc)
        known: dict[str, Any] = json.loads(context.cursor) if context.cursor else {}
        said, runs = words(found), newest_runs_of(found)
        news = [
            evaluation
            for evaluation in found
            if _is_news(
                known.get(job := evaluation.asset_key.to_user_string()), said[job], runs[job], now
            )
        ]
        for evaluation in news:
            job = evaluation.asset_key.to_user_string()
            known[job] = {"word": said[job], "run": runs[job], "at": now.isoformat()}
        remembered = {job: known[job] for job in said}
        return dg.SensorResult(
            asset_events=news,
            cursor=json.dumps(remembered),
            skip_reason=None if news else dg.SkipReason("No standing has changed."),
        )

    return job_standing


def _is_news(before: dict[str, str] | None, word: str, run: str, now: datetime) -> bool:
    """Tell whether a verdict is to be reported.

    A newer run is news whatever the word: Dagster greys a verdict that is older than it.
    """
    return (
        before is None
        or before["word"] != word
        or before.get("run") != run
        or now - datetime.fromisoformat(before["at"]) >= REPEATED_AFTER
    )


# Alerts as far as they need Dagster: the runs that wait, and a memory beside our own database.

ROUND_BUDGET = timedelta(seconds=20)
"""For sending. A tick has 60 seconds; the rest is for the database."""

LONGEST_WAIT = timedelta(seconds=5)
"""For the database to connect, to answer, and to give a lock."""

MOST_WAITING = 500

_LAST_GOOD = "last_good"
_WAITING = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
]


class InstanceMemory:
    """A memory in Dagster's own storage, which is there whenever a sensor is evaluated."""

    def __init__(self, instance: dg.DagsterInstance, installation: str) -> None:
        """Remember for one installation."""
        self._instance = instance
        self._key = f"filejobs/alerts/{installation}"

    def read(self) -> dict[str, Any]:
        """What was written last."""
        values = self._instance.daemon_cursor_storage.get_cursor_values({self._key})
        return parsed(values.get(self._key))

    def write(self, value: Mapping[str, Any]) -> None:
        """Replace it."""
        try:
            self._instance.daemon_cursor_storage.set_cursor_values({self._key: json.dumps(value)})
        except Exception as error:  # noqa: BLE001 (Dagster's storage, of whatever kind)
            complain(f"Dagster's storage remembers nothing of alerts ({type(error).__name__})")


def queued_runs_if_readable(
    instance: dg.DagsterInstance, installation: str
) -> list[QueuedRun] | None:
    """The installation's runs that have not begun; None when Dagster's storage does not say."""
    try:
        return queued_runs(instance, installation)
    except Exception as error:  # noqa: BLE001 (whatever Dagster's storage does)
        complain(f"Dagster's queue could not be read ({type(error).__name__})")
        return None


def queued_runs(instance: dg.DagsterInstance, installation: str) -> list[QueuedRun]:
    """The installation's runs that have not begun, the oldest first."""
    records = instance.get_run_records(
        dg.RunsFilter(statuses=_WAITING, tags={tags.INSTALLATION: installation}),
        limit=MOST_WAITING,
        ascending=True,
    )
    return [
        QueuedRun(
            record.dagster_run.run_id,
            record.dagster_run.job_name,
            record.create_timestamp
            if record.create_timestamp.tzinfo
            else record.create_timestamp.replace(tzinfo=timezone.utc),
        )
        for record in records
        if record.dagster_run.job_name in BY_NAME
    ]


def teller(instance: dg.DagsterInstance, settings: Settings) -> Teller:
    """Who tells whom, with settings that are right; they are remembered for when they are not."""
    memory = InstanceMemory(instance, settings.installation)
    try:
        kept, good = memory.read(), last_good(settings)
        if kept.get(_LAST_GOOD) != good:
            memory.write({**kept, _LAST_GOOD: good})
    except Exception as error:  # noqa: BLE001 (whatever Dagster's storage does)
        complain(f"Dagster's storage remembers nothing of alerts ({type(error).__name__})")
    return teller_of(settings.installation, settings.alerts, memory, known_secrets(settings))


def tell_of_broken(instance: dg.DagsterInstance, loaded: Loaded) -> Round:
    """Tell whom the file still names, or named when it was right. Never raises an `Exception`.

    The section `alerts` of a broken file counts where it is right by itself; otherwise the last
    good one, of which Dagster's storage keeps the names of its variables.
    """
    memory = InstanceMemory(instance, loaded.installation)
    try:
        found = _what_is_known(loaded, memory)
    except Exception as error:  # noqa: BLE001 (whatever Dagster's storage does)
        complain(f"Dagster's storage remembers nothing of alerts ({type(error).__name__})")
        found = salvage(loaded.path, os.environ)
    return tell_of_broken_settings(loaded, found, memory, budget=ROUND_BUDGET)


def _what_is_known(loaded: Loaded, memory: InstanceMemory) -> Salvaged:
    now = salvage(loaded.path, os.environ)
    kept = recalled(memory.read().get(_LAST_GOOD, {}), os.environ)
    alerts = now.alerts if now.complete else kept.alerts or now.alerts
    return Salvaged(now.database or kept.database, alerts, complete=now.complete)


# Standings as text that a person can act on.

MOST_OF_A_REASON = 300

_COLUMNS = ("job", "standing", "last success", "why")


def alarm_text(standings: Sequence[Standing]) -> str | None:
    """A short report of the jobs that need somebody, or None when none does.

    The first line is complete in itself: it is what a list of failed ticks shows.
    """
    alarming = [standing for standing in standings if standing.alarming]
    if not alarming:
        return None
    summary = ", ".join(f"{standing.job} ({standing.word})" for standing in alarming)
    many = "1 job needs" if len(alarming) == 1 else f"{len(alarming)} jobs need"
    return f"{many} attention: {summary}\n\n" + "\n\n".join(map(_entry, alarming))


def _entry(standing: Standing) -> str:
    """One job in lines of its own: Dagster shows a tick's error in a proportional font."""
    threshold = standing.stale_after
    lines = [
        f"{standing.job}: {standing.word}",
        f"    why: {_short(standing.reason)}",
        f"    last success that counts ({standing.mode}): {_when(standing)}",
        f"    threshold: {'none in the settings' if threshold is None else threshold}",
    ]
    if standing.consecutive_failures:
        lines.append(f"    failures since: {standing.consecutive_failures}")
    lines.append(f"    what now: {standing.see}")
    return "\n".join(lines)


def _short(text: str) -> str:
    return text if len(text) <= MOST_OF_A_REASON else text[:MOST_OF_A_REASON].rstrip() + " …"


def _when(standing: Standing) -> str:
    success = standing.last_success
    return "never" if success is None else f"{success.finished_at:%Y-%m-%d %H:%M} UTC"


def table(standings: Sequence[Standing]) -> str:
    """The standings as an aligned table of plain text."""
    rows = [_COLUMNS, *(_row(standing) for standing in standings)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS) - 1)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]])
        for row in rows
    )


def _row(standing: Standing) -> tuple[str, str, str, str]:
    return standing.job, standing.word, _when(standing), standing.reason


# The watchdog: it fails whenever a job does not stand as it should, and tells somebody.


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
    return "" if pause is None else f"\n{pause.and_how_to_end_it()}"


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
        told = tell_of_trouble(who, error, deadline=time.monotonic() + ROUND_BUDGET.total_seconds())
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

    return conduct_round(who, database, connection, what_is_wrong, budget=ROUND_BUDGET)


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
