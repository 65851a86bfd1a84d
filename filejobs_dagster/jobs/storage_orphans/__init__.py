"""storage_orphans: takes away objects that nothing refers to, and dares little.

- Absence is never inferred from a failure: a listing or a source that is not complete fails the
  run with nothing marked and nothing deleted. So do numbers that no sane pass has (breakers).
- Two sightings: nothing is deleted that an earlier run has not marked, long enough ago, by the
  same sources and rules, as the same object.
- The intent is committed first, and from then on the project's tables refuse the key. Then every
  transaction that may not have seen it must end. Then every source is asked once more, on the
  primary, and the object is looked at once more. Only then it goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.collector import Collector, Storage
from filejobs_dagster.jobs.storage_orphans.settings import (
    JOB,
    Override,
    ReportSettings,
    StorageOrphansRun,
    StorageOrphansSettings,
)

if TYPE_CHECKING:
    from filejobs_dagster.collector import Resources
    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.run_context import RunContext

__all__ = ["COLLECTOR", "JOB", "Override", "ReportSettings", "Storage", "StorageOrphansRun", "run"]


def run(context: RunContext, request: StorageOrphansRun, storage: Storage) -> Outcome:
    """Sweep one bucket; see the module for the order of things.

    Raises:
        JobFailed: Something is not as it must be; nothing more was deleted.
    """
    from filejobs_dagster.jobs.storage_orphans.sweep import Sweep  # noqa: PLC0415 (boto3)

    return Sweep(context, request, storage).run()


def _run(run_context: RunContext, request: StorageOrphansRun, has: Resources) -> Outcome:
    with has.storage(run_context) as storage:
        return run(run_context, request, storage)


COLLECTOR = Collector(
    name=JOB,
    summary="Removes objects in an owned prefix that no source references.",
    touches=frozenset({"objects"}),
    settings=StorageOrphansSettings,
    request=StorageOrphansRun,
    run=_run,
    privileges=(
        *(("orphan_candidate", right) for right in ("SELECT", "INSERT", "UPDATE", "DELETE")),
        *(("orphan_pass", right) for right in ("SELECT", "INSERT", "DELETE")),
    ),
    reads=frozenset({"shape", "rewrites", "read_from", "scratch_dir"}),
)
