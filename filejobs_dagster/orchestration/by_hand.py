"""Runs a job in this process, as `dagster job execute` does."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from filejobs_dagster.orchestration.build import build_definitions
from filejobs_dagster.settings import Loaded


def execute_here(
    instance: dg.DagsterInstance, loaded: Loaded, job: str, config: Mapping[str, Any]
) -> tuple[str | None, dict[str, Any]]:
    """Execute a job.

    Args:
        instance: Keeps the run.
        loaded: The settings.
        job: Its name.
        config: Of its op.

    Returns:
        Why it failed, None for success; and what the run's page shows of its output.
    """
    definition = build_definitions(loaded).resolve_job_def(job)
    result = definition.execute_in_process(
        run_config={"ops": {job: {"config": dict(config)}}},
        instance=instance,
        raise_on_error=False,
    )
    shown: dict[str, Any] = {}
    for event in result.all_events:
        if event.event_type_value == "STEP_FAILURE":
            return _words_of(event), shown
        if event.event_type_value == "STEP_OUTPUT":
            metadata = event.step_output_data.metadata
            shown = {name: value.value for name, value in metadata.items()}
    if not result.success:
        return f"{job} did not succeed; run {result.run_id} says why.", shown
    return None, shown


def _words_of(event: dg.DagsterEvent) -> str:
    failure = event.step_failure_data
    given = failure.user_failure_data
    if given is not None and given.description:
        return given.description
    return "The run failed." if failure.error is None else failure.error.message
