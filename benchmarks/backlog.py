"""How long the mirror takes for a backlog of finished runs, for instance after an outage."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import dagster as dg
import psycopg

from benchmarks.collector import NotTheSameWork
from benchmarks.installation import JOB, Installation
from benchmarks.installation import NAME as INSTALLATION
from benchmarks.measurement import Measurement, Value, more, readable
from filejobs_dagster.orchestration import tags
from filejobs_dagster.orchestration.reconcile import BUDGET, reconcile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.scale import Scale
    from benchmarks.surroundings import Surroundings

NAME = "backlog"
SUMMARY = "recording a backlog of finished runs in job_run, against bare INSERTs"

EVERY_FAILED = 10
"""One run in so many has failed: its reason has to be read from Dagster's event log."""

MILLISECONDS = 1000

_PROGRESS = """
INSERT INTO job_progress
    (run_id, installation, job, mode, trigger, holder, scanned, acted, outcome, finished_at, error)
SELECT run_id, %(installation)s, %(job)s, 'live', 'cli', 'benchmark', 1, 1,
       CASE WHEN failed THEN 'failed' ELSE 'ok' END, clock_timestamp(),
       CASE WHEN failed THEN 'storage was away' END
  FROM unnest(%(run_ids)s::text[], %(failed)s::boolean[]) AS given (run_id, failed)
"""

_BARE = """
INSERT INTO job_run (run_id, installation, job, started_at, outcome, mode, scanned, acted)
VALUES (%(run_id)s, 'bare', %(job)s, now(), 'ok', 'live', 1, 1)
"""


def run(surroundings: Surroundings, scale: Scale) -> Iterator[Measurement]:
    """The reconciler's time for each run, against a bare INSERT in a transaction of its own."""
    count = scale.backlog
    installation = Installation.make(surroundings)
    settings = installation.settings
    with installation.instance() as instance:
        run_ids = _finished_runs(instance, installation, count)
        begun = time.perf_counter()
        calls, recorded = 0, 0
        complete = False
        while not complete:
            done = reconcile(instance, settings)
            calls, recorded, complete = calls + 1, recorded + len(done.recorded), done.complete
        seconds = time.perf_counter() - begun
    if recorded != count:
        raise NotTheSameWork(f"Of {count} finished runs {recorded} were recorded.")
    bare = _bare_inserts(installation, run_ids)
    ours = Value(seconds / count * MILLISECONDS, "ms", "the reconciler, each run")
    plain = Value(bare / count * MILLISECONDS, "ms", "a bare INSERT, each run")
    yield Measurement(
        benchmark=NAME,
        what=f"recording a backlog of {count:,} finished runs, one in {EVERY_FAILED} failed",
        measured=ours,
        compared=plain,
        ratio=more(ours, plain),
        reading="times as long",
        note=f"{readable(seconds)} s in all, in {calls} ticks of at most "
        f"{BUDGET.total_seconds():.0f} s",
    )


def _finished_runs(
    instance: dg.DagsterInstance, installation: Installation, count: int
) -> list[str]:
    """Runs that Dagster calls over, each with its final word and without a record."""

    @dg.job(name=JOB, tags={tags.INSTALLATION: INSTALLATION})
    def job() -> None:
        """Stands in for the job: only its name and its tags matter here."""

    failed = [number % EVERY_FAILED == 0 for number in range(count)]
    run_ids = []
    for has_failed in failed:
        status = dg.DagsterRunStatus.STARTED if has_failed else dg.DagsterRunStatus.SUCCESS
        made = instance.create_run_for_job(job, status=status, tags=dict(job.tags))
        if has_failed:
            instance.report_run_failed(made, "storage was away")
        run_ids.append(made.run_id)
    with psycopg.connect(installation.database_url, autocommit=True) as connection:
        connection.execute(
            _PROGRESS,
            {"installation": INSTALLATION, "job": JOB, "run_ids": run_ids, "failed": failed},
        )
    return run_ids


def _bare_inserts(installation: Installation, run_ids: list[str]) -> float:
    """Seconds of as many INSERTs."""
    with psycopg.connect(installation.database_url, autocommit=True) as connection:
        begun = time.perf_counter()
        for run_id in run_ids:
            connection.execute(_BARE, {"run_id": f"bare {run_id}", "job": JOB})
        return time.perf_counter() - begun
