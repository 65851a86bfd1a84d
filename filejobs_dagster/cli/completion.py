"""What a shell may complete beside commands and options: the names of jobs and examples of days.

Called for each press of a key: no more is imported than the declarations of jobs, which is neither
Dagster nor a client of storage, and no file is read.
"""

from __future__ import annotations

from collections.abc import Iterator

from filejobs_dagster.registry import JOBS


def job_names(incomplete: str) -> Iterator[tuple[str, str]]:
    """The jobs whose names begin so, with what each does."""
    for job in JOBS:
        if job.name.startswith(incomplete):
            yield job.name, job.summary


def partitioned_job_names(incomplete: str) -> Iterator[tuple[str, str]]:
    """The jobs that a backfill can take day by day."""
    for job in JOBS:
        if job.partitioned and job.name.startswith(incomplete):
            yield job.name, job.summary
