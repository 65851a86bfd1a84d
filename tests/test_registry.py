"""The registry and the table's CHECK name the same jobs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from filejobs_dagster.registry import BY_NAME, JOB_NAMES, JOBS

if TYPE_CHECKING:
    import psycopg


def test_the_check_on_job_run_equals_the_registry(connection: psycopg.Connection) -> None:
    row = connection.execute(
        """
        SELECT pg_get_constraintdef(oid)
          FROM pg_constraint
         WHERE conrelid = 'job_run'::regclass AND conname = 'job_run_job_known'
        """
    ).fetchone()
    assert row is not None
    assert sorted(re.findall(r"'([a-z_]+)'::text", row[0])) == sorted(JOB_NAMES)


def test_no_name_stands_twice() -> None:
    assert len(BY_NAME) == len(JOBS) == len(JOB_NAMES) == 10


def test_each_summary_is_one_sentence() -> None:
    for job in JOBS:
        assert job.summary.endswith(".")
        assert "\n" not in job.summary
