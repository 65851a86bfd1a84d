"""table_retention: deletes, or scrubs first, the rows of declared tables by declared rules.

- The claim is the write. Due rows are locked in the order of their time, what somebody else holds
  is skipped, and the statement that takes them repeats every predicate. A row whose time was
  refreshed before the lock is not due any more.
- A row is taken only when its time is known and strictly before the cutoff, the rule's `where` is
  true and its `except` is false. NULL keeps it, wherever NULL stands.
- Each batch is one short transaction: children first, then the rows, progress, one audit event.
  The event has counts, the cutoff and the range of times and keys; never what a row held.
- A partition goes as a whole only where its upper bound is at or before the cutoff, and nothing
  but the rule's time decides about its rows.
- Rules take turns, a batch each. What is wrong with one is recorded with it, and fails the run at
  the end; the others go on.
- Nothing that keeps the books is shortened here: the project's own tables and chained logs are
  refused by what they are, not by what a rule calls them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.collector import WRITES_SETBACKS, Collector, Examination
from filejobs_dagster.jobs.table_retention.settings import (
    JOB,
    TableRetentionRun,
    TableRetentionSettings,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from filejobs_dagster.collector import Resources
    from filejobs_dagster.doctor.finding import Finding
    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.postgres.connect import Connection, Database
    from filejobs_dagster.run_context import RunContext
    from filejobs_dagster.settings import Settings

__all__ = ["COLLECTOR", "JOB", "TableRetentionRun", "run"]


def run(context: RunContext, request: TableRetentionRun) -> Outcome:
    """Delete and scrub, or in a dry run count, the rows that are due by the rules.

    Args:
        context: The run.
        request: Its rules and limits.

    Returns:
        The outcome: failed when a rule was refused or failed, or when every due row was refused.

    Raises:
        JobFailed: A rule that the run names is not in the settings, or there was no time for any.
        GivenUp: The run's record stands already; batches before stay.
        LeaseLost: Its locks are gone.
        psycopg.Error: The connection broke.
    """
    from filejobs_dagster.jobs.table_retention.retention import Retention  # noqa: PLC0415 (sqlglot)

    return Retention(context, request).run()


def _run(run_context: RunContext, request: TableRetentionRun, has: Resources) -> Outcome:
    del has
    return run(run_context, request)


def _examine(settings: Settings, configured: TableRetentionSettings) -> Examination:
    del settings

    def look(database: Database, connection: Connection) -> Iterable[Finding]:
        from filejobs_dagster.doctor.retention import check_retention  # noqa: PLC0415 (sqlglot)

        return check_retention(configured, database, connection)

    return Examination("retention", look)


COLLECTOR = Collector(
    name=JOB,
    summary="Removes rows of declared tables by declared rules.",
    touches=frozenset({"rows"}),
    settings=TableRetentionSettings,
    request=TableRetentionRun,
    run=_run,
    dry_run="true: count what is due, change nothing. false: delete and scrub. "
    "(`allow_live: false` in filejobs.yaml forbids false.)",
    privileges=WRITES_SETBACKS,
    examine=_examine,
)
