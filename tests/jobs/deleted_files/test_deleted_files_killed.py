"""kill -9 at each step of a real process, and then run again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.jobs.deleted_files.killed import BEFORE_THE_COMMIT, POINTS

if TYPE_CHECKING:
    from tests.jobs.deleted_files.collecting import Files

KILLER = str(Path(__file__).with_name("killed.py"))

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("point", POINTS)
def test_a_run_killed_at_any_point_loses_nothing_and_the_next_finishes_the_work(
    files: Files, point: str
) -> None:
    installation = files.installation
    files.with_thumbnails()
    for n in range(5):
        files.thumbnail(files.delete(f"files/{n}"), f"files/thumbnails/{n}")
    files.delete("files/ready", state="ready")
    installation.write()

    killed = subprocess.run(
        [sys.executable, KILLER, point],
        env=os.environ | installation.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stdout + killed.stderr

    named = files.rows() | {
        key for (key,) in installation.execute("SELECT storage_key FROM thumbnail")
    }
    objects = files.keys()
    assert named <= objects, "a row whose bytes are gone is a broken download"
    intended = [key for event in files.events("objects.delete.intent") for key in event["keys"]]
    assert objects - named <= set(intended), "what no row names is named by the audit log"
    left = installation.progress()[-1]["detail"].get("objects_left", 0)
    assert left >= len(objects - named), "what may be left is counted"
    assert bool(intended) == (point not in BEFORE_THE_COMMIT)

    again = files(batch_size=2)

    assert again.ok, again.error
    assert files.rows() == {"files/ready"}
    assert installation.value("SELECT count(*) FROM thumbnail") == 0
    assert files.keys() - {"files/ready"} == objects - named
    collected = [event["file_id"] for event in files.events("deleted_file.collected")]
    assert len(collected) == len(set(collected)) == 5
