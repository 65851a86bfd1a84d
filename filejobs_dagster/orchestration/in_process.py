"""Runs a job in this process, as `dagster job execute` does."""

from collections.abc import Mapping
from typing import Any

import dagster as dg

from filejobs_dagster.ledger.mirror import mirror
from filejobs_dagster.orchestration.build import build_definitions
from filejobs_dagster.orchestration.runs import finished_run
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.settings import Loaded, Settings, known_secrets


def execute_here(
    instance: dg.DagsterInstance,
    loaded: Loaded,
    job: str,
    config: Mapping[str, Any],
    *,
    run_id: str | None = None,
    log_level: str = "DEBUG",
) -> tuple[str | None, dict[str, Any]]:
    """Execute a job.

    Args:
        instance: Keeps the run.
        loaded: The settings.
        job: Its name.
        config: Of its op.
        run_id: A new UUID, or None for one of Dagster's.
        log_level: From which on Dagster's log is shown on standard error.

    Returns:
        Why it failed, None for success; and what the run's page shows of its output.
    """
    definition = build_definitions(loaded).resolve_job_def(job)
    result = definition.execute_in_process(
        run_config={
            "ops": {job: {"config": dict(config)}},
            "loggers": {"console": {"config": {"log_level": log_level}}},
        },
        instance=instance,
        run_id=run_id,
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


def record_here(instance: dg.DagsterInstance, settings: Settings, run_id: str) -> None:
    """Write the record of a run that has just ended in this process; the daemon need not.

    Raises:
        psycopg.Error: The database refused or went away; `filejobs mirror` records it later.
    """
    record = instance.get_run_record_by_id(run_id)
    if record is None:
        return
    finished = finished_run(instance, record, settings.installation, known_secrets(settings))
    if finished is None:
        return
    database = Database.of(settings.database)
    with database.connect("record") as connection:
        mirror(database, connection, finished)


def _words_of(event: dg.DagsterEvent) -> str:
    failure = event.step_failure_data
    given = failure.user_failure_data
    if given is not None and given.description:
        return given.description
    return "The run failed." if failure.error is None else failure.error.message
