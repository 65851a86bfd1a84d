"""The registry and the table's CHECK name the same jobs."""

from __future__ import annotations

import re
import subprocess
import sys
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


def test_each_line_leads_to_the_declaration_of_its_name() -> None:
    assert len(BY_NAME) == len(JOBS) == len(JOB_NAMES) == 10
    assert [job.name for job in JOBS] == list(JOB_NAMES)
    for job in JOBS:
        assert issubclass(job.request, job.settings)


def test_a_declaration_imports_nothing_heavy_and_a_name_imports_none() -> None:
    look = (
        "import sys; from filejobs_dagster.registry import BY_NAME, JOBS; names = list(BY_NAME);"
        "print('pydantic' in sys.modules); list(JOBS);"
        "print([each for each in ('dagster', 'boto3', 'botocore', 'psycopg', 'sqlglot')"
        " if each in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", look], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines() == ["False", "[]"]


def test_each_summary_is_one_sentence() -> None:
    for job in JOBS:
        assert job.summary.endswith(".")
        assert "\n" not in job.summary
