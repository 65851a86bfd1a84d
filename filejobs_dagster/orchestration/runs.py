"""Dagster's run records as the ledger's plain FinishedRun."""

from collections.abc import Iterator
from datetime import datetime, timezone

import dagster as dg

from filejobs_dagster.ledger.mirror import Ended, FinishedRun
from filejobs_dagster.orchestration import tags
from filejobs_dagster.registry import BY_NAME

OVER: dict[dg.DagsterRunStatus, Ended] = {
    dg.DagsterRunStatus.SUCCESS: "success",
    dg.DagsterRunStatus.FAILURE: "failure",
    dg.DagsterRunStatus.CANCELED: "canceled",
}

PAGE = 1000

_REASONS = {
    dg.DagsterEventType.STEP_FAILURE,
    dg.DagsterEventType.RUN_FAILURE,
    dg.DagsterEventType.RUN_CANCELED,
}


def is_ours(run: dg.DagsterRun, installation: str) -> bool:
    """Tell whether a run belongs to this installation and is one of the registry's jobs."""
    return run.job_name in BY_NAME and run.tags.get(tags.INSTALLATION) == installation


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
        started_at=_moment(record.start_time),
        finished_at=_moment(record.end_time) or _utc(record.update_timestamp),
        error=None if ended == "success" else _reason(instance, run.run_id),
        known_secrets=secrets,
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


def records_of(instance: dg.DagsterInstance, run_ids: list[str]) -> list[dg.RunRecord]:
    """The records of some runs, oldest first."""
    if not run_ids:
        return []
    records = instance.get_run_records(dg.RunsFilter(run_ids=run_ids))
    return sorted(records, key=lambda record: (record.end_time or 0.0, record.storage_id))


def _reason(instance: dg.DagsterInstance, run_id: str) -> str | None:
    """What Dagster's event log says of a failure: the step's own words before the run's."""
    entries = instance.all_logs(run_id, of_type=_REASONS)
    best: str | None = None
    for entry in entries:
        event = entry.dagster_event
        if event is None:
            continue
        if event.event_type_value == dg.DagsterEventType.STEP_FAILURE.value:
            failure = event.step_failure_data
            said = failure.user_failure_data
            if said is not None and said.description:
                return said.description
            if failure.error is not None:
                return failure.error.message.strip()
        best = event.message or best
    return best


def _moment(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, timezone.utc)


def _utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
