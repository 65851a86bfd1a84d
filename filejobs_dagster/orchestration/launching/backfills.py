"""Backfills: asked for, looked at, cancelled. The daemon creates their runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timezone
from typing import Literal

import dagster as dg
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill
from dagster._core.utils import make_new_backfill_id
from dagster._time import get_current_timestamp

from filejobs_dagster.orchestration import tags
from filejobs_dagster.orchestration.launching.place import CodeUnavailable, LaunchPlace
from filejobs_dagster.registry import JOBS

PARENT = "dagster/parent_backfill_id"
ROOT = "dagster/root_backfill_id"

PAGE = 100

BackfillState = Literal["at work", "cancelling", "cancelled", "done", "some days failed", "failed"]

_STATES: dict[BulkActionStatus, BackfillState] = {
    BulkActionStatus.REQUESTED: "at work",
    BulkActionStatus.CANCELING: "cancelling",
    BulkActionStatus.CANCELED: "cancelled",
    # `dagster job backfill` says so as soon as the runs are queued.
    BulkActionStatus.COMPLETED: "done",
    BulkActionStatus.COMPLETED_SUCCESS: "done",
    BulkActionStatus.COMPLETED_FAILED: "some days failed",
    BulkActionStatus.FAILING: "cancelling",
    BulkActionStatus.FAILED: "failed",
}

_OVER = ("success", "failure", "canceled")

OPEN = (BulkActionStatus.REQUESTED, BulkActionStatus.CANCELING, BulkActionStatus.FAILING)


class NoSuchBackfill(Exception):
    """No backfill of this installation has that id."""


@dataclass(frozen=True)
class Backfill:
    """A backfill of one of our jobs, whoever asked for it.

    Attributes:
        backfill_id: As the UI's page shows it.
        job: A job of the registry.
        state: How far it is.
        mode: What was asked by tag; `dry` where no tag asked.
        days: The days in the order in which they run.
        asked_at: When it was asked for.
        started_by: Who asked, where the tag `filejobs/started_by` names somebody.
        root: The backfill that this one resumes, or its own id.
        runs: The status of each day's newest run, where Dagster has one.
    """

    backfill_id: str
    job: str
    state: BackfillState
    mode: str
    days: tuple[date, ...]
    asked_at: datetime
    started_by: str | None
    root: str
    runs: Mapping[date, str]

    @property
    def ahead(self) -> tuple[date, ...]:
        """The days whose run is still to come or at work.

        The state alone does not tell: the daemon calls a backfill completed up to half a minute
        after its last run.
        """
        if self.state not in ("at work", "cancelling"):
            return ()
        return tuple(day for day in self.days if self.runs.get(day) not in _OVER)


def request_backfill(
    place: LaunchPlace,
    job: str,
    days: Sequence[date],
    backfill_tags: Mapping[str, str],
    *,
    title: str,
    resumes: Backfill | None = None,
) -> str:
    """Ask Dagster for one backfill over some days, and return its id.

    The daemon creates a run for each day, in this order; the queue lets one through at a time.

    Args:
        place: Where.
        job: A partitioned job.
        days: Each is a partition of the job.
        backfill_tags: What each run carries beside the job's own tags.
        title: What the UI calls it.
        resumes: The backfill whose rest this is.

    Raises:
        CodeUnavailable: The code location is not there, or lacks one of the days.
    """
    found = place.find(job)
    name = f"{job}_partition_set"
    if not found.repository.has_partition_set(name):
        raise CodeUnavailable(f"{job} has no days in its code location. Nothing was started.")
    partitions = found.repository.get_partition_set(name)
    names = [day.isoformat() for day in days]
    lacking = sorted(set(names) - set(partitions.get_partition_names(place.instance)))
    if lacking:
        raise CodeUnavailable(
            f"The code location knows no day {lacking[0]} of {job} ({len(lacking)} such days). "
            "Check backfill_from in filejobs.yaml, and reload the code location. Nothing was "
            "started."
        )
    family = {} if resumes is None else {PARENT: resumes.backfill_id, ROOT: resumes.root}
    backfill_id = make_new_backfill_id()
    place.instance.add_backfill(
        PartitionBackfill(
            backfill_id=backfill_id,
            partition_set_origin=partitions.get_remote_origin(),
            status=BulkActionStatus.REQUESTED,
            partition_names=names,
            from_failure=False,
            reexecution_steps=None,
            tags={tags.INSTALLATION: place.installation, **family, **backfill_tags},
            backfill_timestamp=get_current_timestamp(),
            title=title,
        )
    )
    return backfill_id


def newest_backfills(
    instance: dg.DagsterInstance, installation: str, *, limit: int, job: str | None = None
) -> list[Backfill]:
    """The backfills of our jobs, newest first.

    Args:
        instance: Where they are kept.
        installation: Whose. One that carries no tag of ours (asked for in the UI) is taken for
            this installation's too.
        limit: The most.
        job: Only those of this job.
    """
    kept: list[Backfill] = []
    cursor = None
    while len(kept) < limit:
        page = instance.get_backfills(cursor=cursor, limit=PAGE)
        for record in page:
            ours = _read(instance, record, installation)
            if ours is not None and job in (None, ours.job) and len(kept) < limit:
                kept.append(ours)
        if len(page) < PAGE:
            break
        cursor = page[-1].backfill_id
    return kept


def open_backfills(instance: dg.DagsterInstance, installation: str, job: str) -> list[Backfill]:
    """The backfills of a job that may still start a run."""
    found = []
    for status in OPEN:
        for record in instance.get_backfills(status=status):
            ours = _read(instance, record, installation)
            if ours is not None and ours.job == job:
                found.append(ours)
    return found


def backfill_named(instance: dg.DagsterInstance, installation: str, backfill_id: str) -> Backfill:
    """One backfill.

    Raises:
        NoSuchBackfill: There is none, or it is not of this installation's jobs.
    """
    record = instance.get_backfill(backfill_id)
    ours = None if record is None else _read(instance, record, installation)
    if ours is None:
        raise NoSuchBackfill(
            f"No backfill of this installation's jobs is called {backfill_id!r}. `filejobs "
            "backfill --list` shows which there are."
        )
    return ours


def cancel_backfill(instance: dg.DagsterInstance, backfill: Backfill, by: str) -> bool:
    """Ask the daemon to cancel what is left; False when nothing was left to cancel.

    Queued runs go at once, the one at work stops within its batch.

    Args:
        instance: Where the backfill is kept.
        backfill: As it was when it was found.
        by: Who cancels it; the records of its runs name them.
    """
    record = instance.get_backfill(backfill.backfill_id)
    if record is None or record.status != BulkActionStatus.REQUESTED:
        return False
    canceling = record.with_status(BulkActionStatus.CANCELING)  # type: ignore[no-untyped-call]
    instance.update_backfill(canceling._replace(tags={**record.tags, tags.CANCELLED_BY: by}))
    return True


def _read(
    instance: dg.DagsterInstance, record: PartitionBackfill, installation: str
) -> Backfill | None:
    """A backfill as ours, or None when it is of somebody else's job."""
    origin = record.partition_set_origin
    job = None if origin is None else _job_of_days(origin.partition_set_name)
    if job is None or record.tags.get(tags.INSTALLATION, installation) != installation:
        return None
    return Backfill(
        backfill_id=record.backfill_id,
        job=job,
        state=_STATES[record.status],
        mode=record.tags.get(tags.MODE, "dry"),
        days=tuple(date.fromisoformat(name) for name in record.partition_names or ()),
        asked_at=datetime.fromtimestamp(record.backfill_timestamp, timezone.utc),
        started_by=record.tags.get(tags.STARTED_BY),
        root=record.tags.get(ROOT, record.backfill_id),
        runs=_newest_runs(instance, record.backfill_id),
    )


def _job_of_days(partition_set: str) -> str | None:
    found = (job.name for job in JOBS if job.partitioned)
    return next((name for name in found if f"{name}_partition_set" == partition_set), None)


def _newest_runs(instance: dg.DagsterInstance, backfill_id: str) -> Mapping[date, str]:
    newest: dict[date, str] = {}
    for run in instance.get_runs(dg.RunsFilter(tags={tags.BACKFILL: backfill_id})):
        day = run.tags.get(tags.PARTITION)
        if day is not None:
            newest.setdefault(date.fromisoformat(day), run.status.value.lower())
    return newest
