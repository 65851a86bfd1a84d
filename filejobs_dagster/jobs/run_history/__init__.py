"""run_history: removes what Dagster keeps of old runs, and our own rows of their progress.

Dagster keeps runs, their events and what they printed for ever. What must not get lost with them is
the answer to "did it run?", and that is kept in `job_run`, which this job never touches. So:

- A run goes only when it is over, older than `keep`, and stands in `job_run` as older than `keep`
  too. One that has no record is kept and reported, whatever its age: it is the only witness left.
- Only runs of this installation, of jobs of the registry. Others share the Dagster instance.
- A run that somebody still leans on is kept: of a backfill that is not over, repeated by a run that
  is not over or is young, about to be retried, or this run itself.
- The run's own row goes last: what was killed in between is found and finished by the next run.
- Ids stand in the audit log before the batch, what became of them after it.
- Runs that cannot be removed are counted as left; when a whole batch cannot, the job fails.

`scanned` is the number of runs that are over and old, `acted` the number that was removed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.collector import Collector
from filejobs_dagster.jobs.run_history.settings import (
    JOB,
    LEAST_KEPT,
    History,
    OldRun,
    RunHistoryRun,
    RunHistorySettings,
)

if TYPE_CHECKING:
    from filejobs_dagster.collector import Resources
    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.run_context import RunContext

__all__ = ["COLLECTOR", "JOB", "LEAST_KEPT", "History", "OldRun", "RunHistoryRun", "run"]


def run(context: RunContext, request: RunHistoryRun, history: History) -> Outcome:
    """Remove old runs and our rows of their progress, or in a dry run say what would go.

    Args:
        context: The run.
        request: Its limits.
        history: Dagster's storage.

    Returns:
        The outcome; one that decided nothing when the storage goes with this process.

    Raises:
        JobFailed: Not one run of a batch could be removed.
        GivenUp: The run's record stands already.
        LeaseLost: Its locks are gone.
    """
    from filejobs_dagster.jobs.run_history.pruning import Pruning  # noqa: PLC0415 (psycopg)

    return Pruning(context, request, history).run()


def _run(run_context: RunContext, request: RunHistoryRun, has: Resources) -> Outcome:
    return run(run_context, request, has.history)


COLLECTOR = Collector(
    name=JOB,
    summary="Removes old run records from Dagster's own storage.",
    touches=frozenset({"rows"}),
    settings=RunHistorySettings,
    request=RunHistoryRun,
    run=_run,
    privileges=(("job_progress", "DELETE"),),
    dry_run="true: count the runs that would go and those that are kept, remove nothing. false: "
    "remove. (`allow_live: false` in filejobs.yaml forbids false.)",
    works_on=frozenset({"dagster"}),
)
