"""Dagster's run records as the ledger's plain FinishedRun, and requests for a run of ours."""

from collections.abc import Iterator
from datetime import datetime, timezone
from typing import get_args

import dagster as dg
from dagster._core.execution.backfill import BulkActionStatus
from dagster._core.execution.plan.objects import StepFailureData
from dagster_shared.error import SerializableErrorInfo

from filejobs_dagster.ledger.mirror import Ended, FinishedRun
from filejobs_dagster.ledger.outcome import Mode
from filejobs_dagster.orchestration import tags
from filejobs_dagster.orchestration.attribution import cleaned, named_in_tags
from filejobs_dagster.registry import BY_NAME
from filejobs_dagster.settings import Settings

OVER: dict[dg.DagsterRunStatus, Ended] = {
    dg.DagsterRunStatus.SUCCESS: "success",
    dg.DagsterRunStatus.FAILURE: "failure",
    dg.DagsterRunStatus.CANCELED: "canceled",
}

AT_WORK = [
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]

PAGE = 1000

_REASONS = {
    dg.DagsterEventType.STEP_FAILURE,
    dg.DagsterEventType.RUN_FAILURE,
    # Why a run never began stands in the event beside its failure.
    dg.DagsterEventType.ENGINE_EVENT,
}

_STOPPED = (BulkActionStatus.CANCELING, BulkActionStatus.CANCELED)


def is_ours(run: dg.DagsterRun, installation: str) -> bool:
    """Tell whether a run belongs to this installation and is one of the registry's jobs."""
    return BY_NAME.may_name(run.job_name) and run.tags.get(tags.INSTALLATION) == installation


def finished_run(
    instance: dg.DagsterInstance,
    record: dg.RunRecord,
    installation: str,
    secrets: tuple[str, ...],
) -> FinishedRun | None:
    """Translate a run record; None while the run is not over."""
    run = record.dagster_run
    ended = OVER.get(run.status)
    if ended is None:
        return None
    return FinishedRun(
        run_id=run.run_id,
        installation=installation,
        job=run.job_name,
        ended=ended,
        trigger=tags.trigger_of(run.tags),
        created_at=_utc(record.create_timestamp),
        started_at=moment(record.start_time),
        finished_at=moment(record.end_time) or _utc(record.update_timestamp),
        error=None if ended == "success" else _reason_if_readable(instance, run),
        known_secrets=secrets,
        started_by=named_in_tags(instance, run),
        day=None
        if run.tags.get(tags.WINDOW) == tags.COVERS_EVERYTHING
        else run.tags.get(tags.PARTITION),
        asked_mode=_asked_mode(run),
        started_again=ended == "failure" and run.tags.get(tags.WILL_RETRY) == "true",
    )


def finished_run_ids(
    instance: dg.DagsterInstance, installation: str, updated_after: datetime | None
) -> Iterator[list[str]]:
    """Page through the ids of the installation's runs that are over, newest first."""
    wanted = dg.RunsFilter(
        statuses=list(OVER),
        tags={tags.INSTALLATION: installation},
        updated_after=updated_after,
    )
    cursor = None
    while True:
        page = list(instance.get_run_ids(wanted, cursor=cursor, limit=PAGE))
        if page:
            yield page
        if len(page) < PAGE:
            return
        cursor = page[-1]


def started_run_ids(instance: dg.DagsterInstance, installation: str) -> list[str]:
    """The ids of the installation's runs that Dagster believes to be at work, at most a page."""
    wanted = dg.RunsFilter(statuses=AT_WORK, tags={tags.INSTALLATION: installation})
    return list(instance.get_run_ids(wanted, limit=PAGE))


def watched_runs(
    instance: dg.DagsterInstance, job: str, location: str | None, updated_after: datetime | None
) -> Iterator[dg.RunRecord]:
    """The runs of somebody else's job that are over or at work, the oldest first.

    Args:
        instance: Where they are kept.
        job: Its name in its own code location.
        location: Which code location; None for any.
        updated_after: Those at work are looked at however old they are.
    """
    over = dg.RunsFilter(job_name=job, statuses=list(OVER), updated_after=updated_after)
    at_work = dg.RunsFilter(job_name=job, statuses=AT_WORK)
    for wanted in (at_work, over):
        for record in reversed(instance.get_run_records(wanted, limit=PAGE)):
            origin = record.dagster_run.remote_job_origin
            if location is None or (origin is not None and origin.location_name == location):
                yield record


def records_of(instance: dg.DagsterInstance, run_ids: list[str]) -> list[dg.RunRecord]:
    """The records of some runs, oldest first."""
    if not run_ids:
        return []
    records = instance.get_run_records(dg.RunsFilter(run_ids=run_ids))
    return sorted(records, key=lambda record: (record.end_time or 0.0, record.storage_id))


def last_change(record: dg.RunRecord) -> datetime:
    """When Dagster last changed a run's row, by the clock of whoever did."""
    return _utc(record.update_timestamp)


def _asked_mode(run: dg.DagsterRun) -> Mode | None:
    """What the run's tag asks for; a backfill has no other way to ask."""
    asked = run.tags.get(tags.MODE)
    return next((mode for mode in get_args(Mode) if mode == asked), None)


def _reason_if_readable(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str | None:
    """The reason, or that there is none to be read: a run without reason is a run all the same."""
    try:
        if run.status == dg.DagsterRunStatus.CANCELED:
            return _who_cancelled(instance, run)
        return _reason(instance, run.run_id)
    except Exception as error:  # noqa: BLE001 (whatever is wrong with one run's events)
        return f"(Dagster's event log of the run could not be read: {type(error).__name__})"


def _who_cancelled(instance: dg.DagsterInstance, run: dg.DagsterRun) -> str:
    """Who told a run to stop, as far as anybody knows: Dagster's own button names nobody."""
    backfill_id = run.tags.get(tags.BACKFILL)
    backfill = None if backfill_id is None else instance.get_backfill(backfill_id)
    if backfill is not None and backfill.status in _STOPPED:
        by = cleaned(backfill.tags.get(tags.CANCELLED_BY))
        return f"its backfill {backfill_id} was cancelled{_by(by)}."
    said = ""
    for entry in instance.all_logs(run.run_id, of_type=dg.DagsterEventType.RUN_CANCELED):
        event = entry.dagster_event
        said = "" if event is None or event.message is None else event.message
    by = cleaned(run.tags.get(tags.CANCELLED_BY))
    if by is None or by == tags.NOBODY_KNOWS:
        return f"somebody stopped it{_by(None)}. {said}".strip()
    return f"stopped{_by(by)}. {said}".strip()


def _by(name: str | None) -> str:
    return ", and Dagster does not say by whom" if name is None else f" by {name}"


def _reason(instance: dg.DagsterInstance, run_id: str) -> str | None:
    """What Dagster's event log says of a failure: the step's own words before the run's."""
    best: str | None = None
    beside: str | None = None
    for entry in instance.all_logs(run_id, of_type=_REASONS):
        event = entry.dagster_event
        if event is None:
            continue
        if event.event_type_value == dg.DagsterEventType.STEP_FAILURE.value:
            return _words_of(event.step_failure_data)
        if event.event_type_value == dg.DagsterEventType.ENGINE_EVENT.value:
            cause = _innermost(event.engine_event_data.error)
            beside = f"{event.message}: {cause}" if cause else beside
        else:
            best = event.message or best
    return " ".join(said for said in (best, beside) if said) or None


def _words_of(failure: StepFailureData) -> str | None:
    """The description of a dagster.Failure, or else the innermost cause's message."""
    said = failure.user_failure_data
    if said is not None and said.description:
        return said.description
    return _innermost(failure.error)


def _innermost(error: SerializableErrorInfo | None) -> str | None:
    while error is not None and error.cause is not None:
        error = error.cause
    return None if error is None else error.message.strip()


def moment(seconds: float | None) -> datetime | None:
    """A moment as Dagster keeps it, in seconds."""
    return None if seconds is None else datetime.fromtimestamp(seconds, timezone.utc)


def _utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


# What a schedule or a sensor asks for, and when it should not ask.

ACTIVE = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


def active_run(instance: dg.DagsterInstance, settings: Settings, job: str) -> str | None:
    """The id of a run of the job that is queued or running, of any window, or None."""
    runs = instance.get_runs(
        dg.RunsFilter(
            job_name=job,
            statuses=ACTIVE,
            tags={tags.INSTALLATION: settings.installation},
        ),
        limit=1,
    )
    return runs[0].run_id if runs else None


def request_run(settings: Settings, job: str, *, asked: Mode | None = None) -> dg.RunRequest:
    """One run over everything that is due, in the mode of the settings or the one asked for.

    A live run of a partitioned job carries today, so that the Partitions tab is a map of the days
    on which the job ran; a dry one carries no day, since it does not make a day done.
    """
    mode = asked or settings.jobs[job].mode
    carried = {tags.MODE: mode, tags.WINDOW: tags.COVERS_EVERYTHING}
    today = None
    if mode == "live" and BY_NAME[job].partitioned:
        today = datetime.now(timezone.utc).date().isoformat()
    return dg.RunRequest(run_key=None, tags=carried, partition_key=today)
