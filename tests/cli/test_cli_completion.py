"""Completion by a real bash, with the script that `filejobs --show-completion` prints."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from filejobs_dagster.cli.main import Commands
from filejobs_dagster.registry import JOB_NAMES, JOBS

pytestmark = pytest.mark.thorough

FILEJOBS = Path(sys.executable).with_name("filejobs")

BASH = r"""
eval "$(_FILEJOBS_COMPLETE=source_bash filejobs)"
for line in "$@"; do
  read -r -a COMP_WORDS <<< "$line"
  [[ "$line" == *" " ]] && COMP_WORDS+=("")
  COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 ))
  COMPREPLY=()
  _filejobs_completion filejobs
  echo "$line|${COMPREPLY[*]}"
done
"""


@pytest.fixture(scope="module")
def completed() -> dict[str, set[str]]:
    """What bash offers for some half-typed lines."""
    bash = shutil.which("bash")
    assert bash is not None
    lines = (
        "filejobs ",
        "filejobs back",
        "filejobs backfill ",
        "filejobs backfill --mo",
        "filejobs backfill --mode ",
        "filejobs runs --job audit_s",
        "filejobs audit sh",
    )
    done = subprocess.run(
        [bash, "--norc", "--noprofile", "-c", BASH, "bash", *lines],
        env={**os.environ, "PATH": f"{FILEJOBS.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    offered = dict(line.split("|", 1) for line in done.stdout.splitlines())
    return {line: set(words.split()) for line, words in offered.items()}


def test_commands_options_and_choices_are_completed(completed: dict[str, set[str]]) -> None:
    assert completed["filejobs "] == set(Commands.places)
    assert completed["filejobs back"] == {"backfill"}
    assert completed["filejobs backfill --mo"] == {"--mode"}
    assert completed["filejobs backfill --mode "] == {"dry", "live"}
    assert completed["filejobs audit sh"] == {"show"}


def test_the_names_of_jobs_are_completed_where_a_job_belongs(
    completed: dict[str, set[str]],
) -> None:
    assert completed["filejobs backfill "] == {job.name for job in JOBS if job.partitioned}
    assert completed["filejobs runs --job audit_s"] == {"audit_seal"}
    assert "audit_seal" in JOB_NAMES
