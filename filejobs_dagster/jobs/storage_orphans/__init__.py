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

from filejobs_dagster.jobs.storage_orphans.bookkeeping import JOB
from filejobs_dagster.jobs.storage_orphans.breakers import BREAKERS
from filejobs_dagster.jobs.storage_orphans.request import (
    Override,
    ReportPlace,
    Request,
    Storage,
)
from filejobs_dagster.jobs.storage_orphans.sweep import Sweep

if TYPE_CHECKING:
    from filejobs_dagster.jobs.context import RunContext
    from filejobs_dagster.ledger.outcome import Outcome

__all__ = [
    "BREAKERS",
    "JOB",
    "Override",
    "ReportPlace",
    "Request",
    "Storage",
    "run",
]


def run(context: RunContext, request: Request, storage: Storage) -> Outcome:
    """Sweep one bucket; see the module for the order of things.

    Raises:
        JobFailed: Something is not as it must be; nothing more was deleted.
    """
    return Sweep(context, request, storage).run()
