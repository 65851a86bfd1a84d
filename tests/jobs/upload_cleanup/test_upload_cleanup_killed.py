"""upload_cleanup, killed anywhere between storage and row, and run again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.installation import Installation
    from tests.jobs.upload_cleanup.uploads import Cleaner, Uploads

ALSO = pytest.mark.thorough


@pytest.mark.parametrize(
    "point",
    [
        pytest.param("before the claim commits", marks=ALSO),
        pytest.param("after the claim", marks=ALSO),
        pytest.param("after the abort", marks=ALSO),
        "between storage and row",
        pytest.param("before the result commits", marks=ALSO),
        pytest.param("before the verdicts commit", marks=ALSO),
        pytest.param("before the final word", marks=ALSO),
    ],
)
def test_killed_anywhere_and_run_again_nothing_is_lost_twice_or_stuck(
    installation: Installation, uploads: Uploads, clean: Cleaner, point: str
) -> None:
    cancelled = [uploads.cancelled() for _ in range(2)]
    parts, _ = uploads.multipart(b"p" * 100)
    uploads.call("mark_uncertain", parts.id, "a timeout")
    uploads.change(parts, "state = 'cleanup'")
    published = uploads.published()
    uncertain = uploads.begin()
    uploads.put(uncertain)
    uploads.call("mark_uncertain", uncertain.id, "a timeout")
    installation.write()

    child = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("killed.py")), point],
        env={**os.environ, **installation.environment},
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr.decode()

    assert uploads.state(published) == "ready"
    assert installation.has_object(published.key)
    outcome = clean()

    assert outcome.ok, outcome.error
    assert [uploads.state(it) for it in (*cancelled, parts)] == ["cleaned"] * 3
    assert uploads.state(uncertain) == "stored"
    assert installation.keys() == {published.key, uncertain.key}
    left = installation.client.list_multipart_uploads(Bucket=installation.bucket)
    assert not left.get("Uploads")
    assert clean().detail["swept"] is True
    if point == "between storage and row":
        assert {uploads.row(it)["outcome"] for it in cancelled} == {"already gone"}


@pytest.mark.parametrize(
    "point", ["stopped after the claim", pytest.param("stopped before the gate", marks=ALSO)]
)
def test_a_process_that_slept_past_its_claim_deletes_nothing_when_it_wakes(
    installation: Installation, uploads: Uploads, clean: Cleaner, point: str
) -> None:
    upload = uploads.cancelled()
    installation.write()
    sleeper = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("killed.py")), point],
        env={**os.environ, **installation.environment},
    )
    try:
        _, status = os.waitpid(sleeper.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        assert "at work already" in str(clean().error), "while its locks are held"

        # The server has noticed that its client is silent.
        installation.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        assert clean().detail["classes"] == {"deleted": 1}
        uploads.put(upload, b"somebody else's bytes")
    finally:
        os.kill(sleeper.pid, signal.SIGCONT)
        sleeper.wait(timeout=60)

    assert installation.has_object(upload.key)
    assert uploads.row(upload)["outcome"] == "deleted"


@pytest.mark.thorough
def test_a_row_whose_worker_dies_each_time_becomes_a_dead_letter(
    installation: Installation, uploads: Uploads, clean: Cleaner
) -> None:
    upload = uploads.cancelled()
    uploads.change(upload, "attempts = 12, claimed_by = 'a run that died', claimed_at = now()")

    outcome = clean()

    assert outcome.detail["dead_letters"] == 1
    assert uploads.row(upload)["dead_at"] is not None
    assert installation.has_object(upload.key)
