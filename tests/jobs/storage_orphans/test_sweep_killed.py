"""kill -9 at each step of a live run, and then run again: nothing lost, twice or stuck."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.jobs.storage_orphans import expiring
from filejobs_dagster.objects.quarantine import copies_below, original_of
from tests.jobs.storage_orphans.killed import (
    SITES,
    SITES_OF_EXPIRY,
    SITES_OF_QUARANTINE,
    SITES_OF_RETURN,
    all_are_due,
    killing,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.jobs.storage_orphans.conftest import Sweeper

pytestmark = pytest.mark.thorough

ORPHANS = ("files/a", "files/b", "files/c")


@pytest.fixture(scope="module")
def kill() -> Iterator[Callable[..., None]]:
    """Starts a live run that is killed at a step."""
    with killing() as start:
        yield start


@pytest.mark.parametrize("site", SITES)
def test_a_run_that_was_killed_is_finished_by_the_next_one(
    sweep: Sweeper, kill: Callable[..., None], site: str
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
    sweep: Sweeper, kill: Callable[..., None]
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


@pytest.mark.parametrize("site", SITES_OF_QUARANTINE)
def test_killed_anywhere_the_original_or_a_verified_copy_is_there(
    sweep: Sweeper, kill: Callable[..., None], site: str
) -> None:
    sweep.installation.keeps()
    sweep.seen_before(*ORPHANS)
    kill(sweep, site)
    keys = sweep.installation.keys()
    assert {key for key in ORPHANS if key not in keys} <= set(in_quarantine(sweep))

    sweep.deletions_have_arrived()
    outcome = sweep()
    assert outcome.ok, outcome.error
    keys = sweep.installation.keys()
    assert {key for key in keys if key.startswith("files/")} == {"files/used"}
    assert in_quarantine(sweep) == sorted(ORPHANS), "each once"
    assert sweep.candidates() == {}


@pytest.mark.parametrize("site", SITES_OF_RETURN | SITES_OF_EXPIRY)
def test_killed_while_copies_come_back_and_expire_nothing_that_is_named_is_lost(
    sweep: Sweeper, kill: Callable[..., None], site: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep.installation.keeps()
    sweep.seen_before(*ORPHANS)
    assert sweep().acted == len(ORPHANS)
    ends_after_a_kill(sweep, lambda: kill(sweep, site), monkeypatch, site)


def in_quarantine(sweep: Sweeper) -> list[str]:
    pages = copies_below(sweep.client, sweep.bucket.bucket, "")
    return sorted(it.original for page in pages for it in page)


def ends_after_a_kill(
    sweep: Sweeper, kill: Callable[[], None], monkeypatch: pytest.MonkeyPatch, site: str
) -> None:
    """All orphans are in quarantine, and due; the first is named again, and one run is killed."""
    named, *others = ORPHANS
    sweep.refer(named)
    kill()
    keys = sweep.installation.keys()
    files = {key for key in keys if key.startswith("files/")}
    assert named in in_quarantine(sweep), "its copy stays while it is named"
    assert named in files or site in SITES_OF_RETURN
    if site in SITES_OF_RETURN:
        assert set(in_quarantine(sweep)) == set(ORPHANS)

    monkeypatch.setattr(expiring, "copies_below", copies_below)
    all_are_due()
    outcome = sweep()
    assert outcome.ok, outcome.error
    keys = sweep.installation.keys()
    files = {key for key in keys if key.startswith("files/")}
    assert files == {"files/used", named}
    body = sweep.client.get_object(Bucket=sweep.bucket.bucket, Key=named)["Body"].read()
    assert body == b"bytes"
    assert in_quarantine(sweep) == [named]
    intended = [
        original_of(key)
        for event in sweep.events("objects.delete.intent")
        if event.get("quarantine")
        for key in event["keys"]
    ]
    assert set(others) <= set(intended)
    assert sweep.events("objects.restore.intent")[0]["keys"] == [named]
