"""kill -9 at each step of a live run, and then run again: nothing lost, twice or stuck."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.objects.quarantine import copies_below
from tests.jobs.storage_orphans.killed import SITES, SITES_OF_QUARANTINE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.jobs.storage_orphans.conftest import Sweeper

pytestmark = pytest.mark.thorough

ORPHANS = ("files/a", "files/b", "files/c")
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def kill() -> Iterator[Callable[[Sweeper, str], None]]:
    """Start a live run that is killed at a step."""
    command = [sys.executable, "-m", "tests.jobs.storage_orphans.killed"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def start(sweep: Sweeper, site: str) -> None:
            assert process.stdin is not None
            assert process.stdout is not None
            order = {
                "site": site,
                "folder": str(sweep.installation.folder),
                "database_url": sweep.installation.database_url,
                "bucket": sweep.installation.bucket,
                "endpoint_url": sweep.installation.endpoint_url,
                "keep": (sweep.bucket.quarantine and "30d") or "",
            }
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
            assert process.stdout.readline() == "killed\n", site

        yield start
        process.stdin.close()


@pytest.mark.parametrize("site", SITES)
def test_a_run_that_was_killed_is_finished_by_the_next_one(
    sweep: Sweeper, kill: Callable[[Sweeper, str], None], site: str
) -> None:
    sweep.seen_before(*ORPHANS)
    kill(sweep, site)
    assert sweep.installation.has_object("files/used")

    sweep.deletions_have_arrived()
    outcome = sweep()
    assert outcome.ok, outcome.error
    assert sweep.installation.keys() == {"files/used"}
    assert sweep.candidates() == {}
    # Nothing refuses a new file under an old key for ever.
    sweep.refer("files/a")

    intended = [key for event in sweep.events("objects.delete.intent") for key in event["keys"]]
    results = sweep.events("objects.delete.result")
    recovered = [key for event in results for key in event.get("found_gone", [])]
    assert set(intended) == set(ORPHANS)
    deleted = sum(event.get("deleted", 0) for event in results) + len(recovered)
    assert deleted == len(ORPHANS), "the audit log accounts for each object once"


def test_until_the_next_run_has_looked_nobody_may_refer_to_what_was_intended(
    sweep: Sweeper, kill: Callable[[Sweeper, str], None]
) -> None:
    sweep.seen_before(*ORPHANS)
    kill(sweep, "after the intent")
    intended = [key for key, state in sweep.candidates().items() if state == "deleting"]
    assert len(intended) == 2
    with pytest.raises(Exception, match="is being deleted"):
        sweep.refer(intended[0])
    dry = sweep("dry")
    assert dry.ok, dry.error
    assert "deleting" in sweep.candidates().values(), "a dry run leaves that to a live one"
    sweep.deletions_have_arrived()
    assert sweep().acted == len(ORPHANS)


@pytest.mark.parametrize("site", [it for it in SITES_OF_QUARANTINE if it != "before copies expire"])
def test_killed_anywhere_the_original_or_a_verified_copy_is_there(
    sweep: Sweeper, kill: Callable[[Sweeper, str], None], site: str
) -> None:
    sweep.installation.keeps()
    sweep.seen_before(*ORPHANS)
    kill(sweep, site)

    def in_quarantine() -> list[str]:
        return sorted(
            it.original
            for page in copies_below(sweep.client, sweep.bucket.bucket, "")
            for it in page
        )

    keys = sweep.installation.keys()
    assert {key for key in ORPHANS if key not in keys} <= set(in_quarantine())

    sweep.deletions_have_arrived()
    outcome = sweep()
    assert outcome.ok, outcome.error
    keys = sweep.installation.keys()
    assert {key for key in keys if key.startswith("files/")} == {"files/used"}
    assert in_quarantine() == sorted(ORPHANS), "each once"
    assert sweep.candidates() == {}
