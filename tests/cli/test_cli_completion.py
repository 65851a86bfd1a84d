"""Completion by a real bash, with the script that `filejobs --show-completion` prints."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from filejobs_dagster.cli.main import Commands
from filejobs_dagster.registry import BY_NAME, JOB_NAMES, JOBS

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


SETTINGS = """
own_jobs:
  own_drafts: {rule: {table: draft, due: abandoned_at}}
  own_backup: {reports: true, schedule: oddly}
"""


@pytest.fixture(scope="module")
def completed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """What bash offers for some half-typed lines, beside settings that are not yet right."""
    settings = tmp_path_factory.mktemp("completed") / "filejobs.yaml"
    settings.write_text(SETTINGS)
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
        "filejobs record ",
        "filejobs run own_",
        f"filejobs --config {os.devnull} run own_",
    )
    done = subprocess.run(
        [bash, "--norc", "--noprofile", "-c", BASH, "bash", *lines],
        env={
            **os.environ,
            "FILEJOBS_CONFIG": str(settings),
            "PATH": f"{FILEJOBS.parent}:{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    offered = dict(line.split("|", 1) for line in done.stdout.splitlines())
    return {line: set(words.split()) for line, words in offered.items()}


def test_commands_options_and_choices_are_completed(completed: dict[str, set[str]]) -> None:
    assert completed["filejobs "] == set(Commands.places)
    assert completed["filejobs back"] == {"backfill", "backup"}
    assert completed["filejobs backfill --mo"] == {"--mode"}
    assert completed["filejobs backfill --mode "] == {"dry", "live"}
    assert completed["filejobs audit sh"] == {"show"}


def test_the_names_of_jobs_are_completed_where_a_job_belongs(
    completed: dict[str, set[str]],
) -> None:
    ours = {job.name for job in JOBS if job.partitioned and job.name not in BY_NAME.own}
    assert completed["filejobs backfill "] == ours | {"own_drafts"}
    assert completed["filejobs runs --job audit_s"] == {"audit_seal"}
    assert "audit_seal" in JOB_NAMES


def test_the_jobs_of_the_settings_are_completed_although_there_are_mistakes_in_them(
    completed: dict[str, set[str]],
) -> None:
    assert completed["filejobs record "] == {"own_backup"}
    assert completed["filejobs run own_"] == {"own_drafts", "own_backup"}
    assert completed[f"filejobs --config {os.devnull} run own_"] == set()
