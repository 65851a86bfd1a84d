"""One run, put into the queue from outside."""

from collections.abc import Mapping
from dataclasses import dataclass

import dagster as dg
from dagster._core.definitions.selector import JobSubsetSelector, RepositorySelector
from dagster._core.remote_representation.external_data import PartitionTagsSnap

from filejobs_dagster.orchestration.launching.place import (
    CodeUnavailable,
    FoundJob,
    LaunchPlace,
)


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
