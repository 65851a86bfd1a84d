"""kill -9 at each step of a seal and of a trim: the next run finishes, and nothing is false."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.audit.note import private_text
from tests.jobs.audit import conftest
from tests.jobs.audit.killed import SEAL_SITES, TRIM_SITES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.jobs.audit.conftest import Auditor

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def kill() -> Iterator[Callable[[Auditor, str, str], None]]:
    """Start a live run that is killed at a step."""
    command = [sys.executable, "-m", "tests.jobs.audit.killed"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def start(auditor: Auditor, job: str, site: str) -> None:
            assert process.stdin is not None
            assert process.stdout is not None
            order = {
                "job": job,
                "site": site,
                "key": private_text(conftest.SIGNER),
                "pins_bucket": auditor.pins_bucket,
                "folder": str(auditor.installation.folder),
                "database_url": auditor.installation.database_url,
                "bucket": auditor.installation.bucket,
                "endpoint_url": auditor.installation.endpoint_url,
                "document": auditor.installation.document,
            }
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
            assert process.stdout.readline() == "killed\n", site

        yield start
        process.stdin.close()


@pytest.mark.parametrize("site", SEAL_SITES)
def test_a_seal_that_was_killed_is_finished_by_the_next_one(
    auditor: Auditor, kill: Callable[[Auditor, str, str], None], site: str
) -> None:
    auditor.append(5)
    kill(auditor, "seal", site)
    between = auditor.verify()
    assert between.ok, between.error

    outcome = auditor.seal()
    assert outcome.ok, outcome.error
    seals = auditor.count("audit_seal")
    assert len(auditor.pins("/seal/")) == seals, (
        "each seal has its pin, and no pin is without its seal"
    )
    assert outcome.detail["pinned_late"] == (1 if site == "before it is pinned" else 0)
    after = auditor.verify()
    assert after.ok, after.error
    assert after.detail["warnings"] == []
    assert after.detail["unprotected_events"] == 0


@pytest.mark.parametrize("site", TRIM_SITES)
def test_a_trim_that_was_killed_is_finished_by_the_next_one(
    auditor: Auditor, kill: Callable[[Auditor, str, str], None], site: str
) -> None:
    auditor.audit["archive"] = {"bucket": "pins", "prefix": "archive/"}
    auditor.append(30, age=200)
    assert auditor.seal().ok
    auditor.append(5)
    assert auditor.seal().ok
    kill(auditor, "trim", site)
    # Each batch is gone with its receipt, or is there.
    removed = {"between two batches": 20, "before the final word": 30}.get(site, 0)
    assert auditor.installation.value("SELECT coalesce(max(to_seq), 0) FROM audit_checkpoint") == (
        removed
    )
    assert auditor.installation.value("SELECT min(seq) FROM audit_event") == removed + 1
    # The record of the killed run is exact: it was written with the batch.
    [record] = [row for row in auditor.installation.progress() if row["job"] == "audit_trim"]
    assert (record["acted"] or 0) == removed
    if removed:
        assert record["scanned"] == 30
        assert record["detail"]["chains"][0]["stopped by"] == "RETENTION"
    between = auditor.verify()
    assert between.ok, between.error

    outcome = auditor.trim(batch_size=20)
    assert outcome.ok, outcome.error
    assert outcome.acted == 30 - removed
    assert auditor.installation.value("SELECT min(seq) FROM audit_event") == 31
    after = auditor.verify()
    assert after.ok, after.error
    ranges = auditor.installation.execute(
        "SELECT from_seq, to_seq FROM audit_checkpoint ORDER BY checkpoint_no"
    )
    assert ranges == [(1, 20), (21, 30)]
