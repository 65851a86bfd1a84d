"""How a run or a backfill is started from outside a Dagster process.

Three ways exist in Dagster 1.13. `dagster job launch` and `job backfill` are commands, not calls,
and the latter creates all runs itself and reports a backfill as completed while its runs still
wait. The webserver's GraphQL needs a webserver, which has no log-in of its own and stands behind
somebody's proxy. What is left, and what the webserver itself does: a workspace's code location,
`instance.create_run` with `submit_run` for a run, `instance.add_backfill` for a backfill. So both
need the instance (DAGSTER_HOME) and the code server, the queue and the daemon do the rest, and
what was started is to be seen, and can be cancelled, in the web UI.

A backfill carries no run config: it would be dropped where a job has config of its own, and a
person could not see it in the UI. Its mode is the tag `filejobs/mode`.

Here are runs put into the queue, backfills asked for, looked at and cancelled, the place where both
are started, and whether a daemon will work them off.
"""

import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Literal

import dagster as dg
from dagster import __version__ as dagster_version
from dagster._core.definitions.selector import JobSubsetSelector, RepositorySelector
from dagster._core.execution.backfill import BulkActionStatus, PartitionBackfill
from dagster._core.remote_representation.code_location import CodeLocation
from dagster._core.remote_representation.external import RemoteJob, RemoteRepository
from dagster._core.remote_representation.external_data import PartitionTagsSnap
from dagster._core.utils import make_new_backfill_id
from dagster._core.workspace.context import WorkspaceProcessContext, WorkspaceRequestContext
from dagster._core.workspace.load_target import WorkspaceFileTarget
from dagster._time import get_current_timestamp

from filejobs_dagster.orchestration import tags
from filejobs_dagster.registry import JOBS

# Whether somebody will work off what was asked for.

BACKFILL_DAEMON = "BACKFILL"

SILENT_FOR = 180
"""Seconds. The daemon shows itself every 30."""


def daemon_is_silent(instance: dg.DagsterInstance) -> bool:
    """Tell whether the part of the daemon that works off backfills has not shown itself lately."""
    heartbeat = instance.get_daemon_heartbeats().get(BACKFILL_DAEMON)
    return heartbeat is None or time.time() - heartbeat.timestamp > SILENT_FOR


# Where runs are started: Dagster's instance, and the code location of one installation.

HOME_VARIABLE = "DAGSTER_HOME"
FILE_NAME = "workspace.yaml"


class NoWorkspace(Exception):
    """There is no workspace file; the message says where it was looked for."""


class CodeUnavailable(Exception):
    """The code location of the installation cannot be used; the message says what was found."""


def workspace_path(asked: Path | None, environ: Mapping[str, str] = os.environ) -> Path:
    """The workspace file: the one that was asked for, or the first that is found.

    Args:
        asked: From the command line.
        environ: Where DAGSTER_HOME is.

    Raises:
        NoWorkspace: There is none.
    """
    home = environ.get(HOME_VARIABLE, "").strip()
    places = [Path(FILE_NAME), *([Path(home) / FILE_NAME] if home else [])]
    for place in [asked] if asked is not None else places:
        if place.is_file():
            return place
    looked = str(asked) if asked is not None else " and ".join(str(place) for place in places)
    raise NoWorkspace(
        f"No workspace file was found (looked for {looked}). Name the one that Dagster's daemon "
        "uses with --workspace: it says where the code server is."
    )


@dataclass(frozen=True)
class FoundJob:
    """A job in the code location of the installation.

    Attributes:
        request: The workspace as it was when the job was found.
        location: Where its code is.
        repository: Its repository.
        job: The job itself.
    """

    request: WorkspaceRequestContext
    location: CodeLocation
    repository: RemoteRepository
    job: RemoteJob


@dataclass
class LaunchPlace:
    """An open instance with its workspace. Safe to use from several threads.

    Attributes:
        instance: Where runs are kept.
        installation: Whose jobs are started.
    """

    instance: dg.DagsterInstance
    installation: str
    _workspace: WorkspaceProcessContext = field(repr=False)
    _refreshing: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def find(self, job: str) -> FoundJob:
        """Find a job of this installation; a location that was away is asked for once more.

        Raises:
            CodeUnavailable: No code location of the workspace has the job for this installation.
        """
        found = self._find(job)
        if found is None:
            with self._refreshing:
                self._workspace.refresh_workspace()
            found = self._find(job)
        if found is None:
            raise CodeUnavailable(self._what_was_found(job))
        return found

    def _find(self, job: str) -> FoundJob | None:
        request = self._workspace.create_request_context()
        for entry in request.get_code_location_entries().values():
            location = entry.code_location
            if location is None:
                continue
            for repository in location.get_repositories().values():
                if not repository.has_job(job):
                    continue
                remote = repository.get_full_job(job)
                if remote.tags.get(tags.INSTALLATION) == self.installation:
                    return FoundJob(request, location, repository, remote)
        return None

    def _what_was_found(self, job: str) -> str:
        request = self._workspace.create_request_context()
        loaded: list[str] = []
        broken: list[str] = []
        for name, entry in request.get_code_location_entries().items():
            (loaded if entry.code_location is not None else broken).append(name)
        said = []
        if broken:
            said.append(
                f"{', '.join(sorted(broken))} cannot be loaded: check that the code server runs, "
                "and look into its log"
            )
        if loaded:
            said.append(
                f"{', '.join(sorted(loaded))} has no job {job} of the installation "
                f"{self.installation!r}: check that FILEJOBS_CONFIG means the same file there"
            )
        found = "; ".join(said) or "the workspace file names no code location"
        return f"{job} cannot be started: {found}. Nothing was started."


@contextmanager
def opened_place(
    instance: dg.DagsterInstance, installation: str, workspace: Path
) -> Iterator[LaunchPlace]:
    """Load the workspace, and end at the close whatever was started for it.

    A location that is a Python module gets a code server of its own for so long (some seconds to
    start); one that names a code server uses that.

    Args:
        instance: Where runs are kept.
        installation: Whose jobs are to be started.
        workspace: The file that Dagster's daemon uses.
    """
    with WorkspaceProcessContext(
        instance=instance,
        version=dagster_version,
        workspace_load_target=WorkspaceFileTarget(paths=[str(workspace)]),
        code_server_log_level="ERROR",
    ) as context:
        yield LaunchPlace(instance, installation, context)


# Backfills: asked for, looked at, cancelled. The daemon creates their runs.

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


# One run, put into the queue from outside.


@dataclass(frozen=True)
class StartedRun:
    """A run that waits in the queue.

    Attributes:
        run_id: The Dagster run.
        status: What Dagster said of it right after.
    """

    run_id: str
    status: dg.DagsterRunStatus


def start_run(
    place: LaunchPlace, job: str, run_tags: Mapping[str, str], *, partition: str | None = None
) -> StartedRun:
    """Create a run without run config, and submit it.

    Args:
        place: Where.
        job: A job of the registry.
        run_tags: What the run carries beside the job's own tags.
        partition: The day that it carries, or None.

    Raises:
        CodeUnavailable: The code location is not there, or has no such day.
        dagster.DagsterError: The instance or the code server refused; nothing was started, or the
            run stands in Dagster as failed.
    """
    found = place.find(job)
    selector = JobSubsetSelector(
        location_name=found.location.name,
        repository_name=found.repository.name,
        job_name=job,
        op_selection=None,
    )
    remote = found.location.get_job(selector)
    of_day = {} if partition is None else _tags_of_day(place, found, job, partition)
    plan = found.location.get_execution_plan(
        remote, {}, step_keys_to_execute=None, known_state=None, instance=place.instance
    ).execution_plan_snapshot
    run = place.instance.create_run(
        job_name=job,
        run_id=None,
        run_config={},
        status=None,
        tags={**remote.tags, **of_day, **run_tags},
        root_run_id=None,
        parent_run_id=None,
        step_keys_to_execute=plan.step_keys_to_execute,
        execution_plan_snapshot=plan,
        job_snapshot=remote.job_snapshot,
        parent_job_snapshot=remote.parent_job_snapshot,
        asset_selection=None,
        asset_check_selection=None,
        resolved_op_selection=remote.resolved_op_selection,
        op_selection=None,
        remote_job_origin=remote.get_remote_origin(),
        job_code_origin=remote.get_python_origin(),
        asset_graph=found.repository.asset_graph,
    )
    try:
        submitted = place.instance.submit_run(run.run_id, found.request)
    except BaseException:
        # A run that is neither queued nor over would count as active, and hold up every other.
        place.instance.report_run_failed(run, "filejobs: the run could not be queued.")
        raise
    return StartedRun(submitted.run_id, submitted.status)


def _tags_of_day(
    place: LaunchPlace, found: FoundJob, job: str, partition: str
) -> Mapping[str, str]:
    """The tags by which Dagster knows a run's day, from the code location itself."""
    answer = found.request.get_partition_tags(
        RepositorySelector(
            location_name=found.location.name, repository_name=found.repository.name
        ),
        job,
        partition,
        place.instance,
        selected_asset_keys=None,
    )
    if not isinstance(answer, PartitionTagsSnap):
        raise CodeUnavailable(
            f"{job} cannot be started: its code location has no day {partition}. Check "
            "backfill_from in filejobs.yaml, and reload the code location. Nothing was started."
        )
    return {name: str(value) for name, value in answer.tags.items()}


__all__ = [
    "Backfill",
    "BackfillState",
    "CodeUnavailable",
    "LaunchPlace",
    "NoSuchBackfill",
    "NoWorkspace",
    "StartedRun",
    "backfill_named",
    "cancel_backfill",
    "daemon_is_silent",
    "newest_backfills",
    "open_backfills",
    "opened_place",
    "request_backfill",
    "start_run",
    "workspace_path",
]
