"""Buckets of several kinds: with versions, with locks, with many objects, without an order."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from filejobs_dagster.jobs.storage_orphans.settings import BreakersSettings
from filejobs_dagster.objects import removing, sending

if TYPE_CHECKING:
    from tests.jobs.storage_orphans.conftest import Sweeper


def enable_versions(sweep: Sweeper) -> None:
    sweep.installation.client.put_bucket_versioning(
        Bucket=sweep.installation.bucket, VersioningConfiguration={"Status": "Enabled"}
    )


def versions(sweep: Sweeper, key: str) -> tuple[int, int]:
    """How many versions and how many delete markers a key has."""
    answer: Any = sweep.installation.client.list_object_versions(
        Bucket=sweep.installation.bucket, Prefix=key
    )
    return len(answer.get("Versions", [])), len(answer.get("DeleteMarkers", []))


def test_a_versioned_bucket_gets_markers_and_nothing_is_called_freed(sweep: Sweeper) -> None:
    enable_versions(sweep)
    sweep.put("files/old", body=b"first")
    sweep.seen_before("files/old")
    outcome = sweep()
    assert outcome.ok, outcome.error
    assert outcome.acted == 1
    assert (outcome.detail["marked"], outcome.detail["deleted"]) == (1, 0)
    assert outcome.detail["bytes_freed"] == 0
    assert outcome.detail["explained"] == "1 marked (nothing freed)."
    assert "batch 1: so far 1 marked (nothing freed); 0 refused by storage" in sweep.log
    assert outcome.detail["versioning"] == "enabled"
    assert versions(sweep, "files/old") == (2, 1)
    again = sweep()
    assert again.acted == 0
    assert versions(sweep, "files/old") == (2, 1), "no second marker"


def test_purging_removes_all_versions_of_an_orphan_and_none_of_a_live_object(
    sweep: Sweeper,
) -> None:
    enable_versions(sweep)
    sweep.installation.document["buckets"]["uploads"]["purge_versions"] = True
    sweep.put("files/old", "files/used", body=b"first")
    sweep.seen_before("files/old")
    outcome = sweep()
    assert outcome.ok, outcome.error
    assert outcome.acted == 1
    assert outcome.detail["versions_purged"] >= 2
    assert outcome.detail["bytes_freed"] == 10
    assert versions(sweep, "files/old") == (0, 0)
    assert versions(sweep, "files/used") == (2, 0)


def test_a_lock_in_the_middle_of_a_batch_keeps_its_object_and_the_others_go(
    sweep: Sweeper,
) -> None:
    client = sweep.installation.client
    sweep.installation.bucket += "-locked"
    sweep.installation.document["buckets"]["uploads"] |= {
        "bucket": sweep.installation.bucket,
        "purge_versions": True,
    }
    client.create_bucket(Bucket=sweep.installation.bucket, ObjectLockEnabledForBucket=True)
    sweep.put("files/a", "files/c")
    until = datetime.now(timezone.utc) + timedelta(days=3)
    client.put_object(
        Bucket=sweep.installation.bucket,
        Key="files/b",
        Body=b"held",
        ObjectLockMode="COMPLIANCE",
        ObjectLockRetainUntilDate=until,
    )
    sweep.put("files/used")
    sweep.refer("files/used")
    assert sweep().ok
    outcome = sweep()
    assert outcome.ok, outcome.error
    assert outcome.acted == 2
    assert outcome.detail["fates"]["locked"] == 1
    assert any("retained until" in sample for sample in outcome.detail["samples"]["locked"])
    assert sweep.candidates() == {"files/b": "locked"}
    assert outcome.detail["swept"] is True, "what is locked is not due"
    again = sweep()
    assert again.ok, again.error
    assert again.detail["fates"] == {}, "no hot retry"


def test_of_a_bucket_that_is_owned_as_a_whole_the_marker_stays(sweep: Sweeper) -> None:
    settings = sweep.installation.document["buckets"]["uploads"]
    del settings["owns"]
    settings["owns_whole_bucket"] = True
    sweep.put("stray", "files/used")
    sweep.refer("files/used")
    assert sweep().ok
    outcome = sweep()
    assert outcome.ok, outcome.error
    assert outcome.acted == 1
    assert sweep.installation.keys() == {"files/used"}
    assert sweep().ok


def test_a_disk_without_room_for_as_much_as_last_time_is_noticed_before_anything_is_listed(
    sweep: Sweeper,
) -> None:
    sweep.seen_before("files/orphan")
    sweep.installation.execute("UPDATE orphan_pass SET objects = 1000000000000")
    outcome = sweep()
    assert not outcome.ok
    assert "are needed in" in str(outcome.error)
    assert sweep.installation.has_object("files/orphan")


def drained(sweep: Sweeper, orphans: list[str], limit: int, expected: list[int]) -> None:
    """The orphans go in so many capped runs, in requests for many keys each."""
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda key: sweep.put(key, body=b""), orphans))
    sweep.seen_before_there(*orphans, mode="live")
    sweep.installation.execute(
        "UPDATE bucket_adoption SET conditional_delete = 'ignored', probed_at = now()"
    )
    left = len(orphans)
    for count in expected:
        outcome = sweep(limit=limit, breakers=BreakersSettings(max_orphan_fraction=1))
        assert outcome.ok, outcome.error
        left -= count
        assert (outcome.acted, outcome.detail["deferred"]) == (count, left)
    assert sweep.installation.keys() == {"files/used"}


def test_more_orphans_than_fit_into_a_request_and_into_a_run_all_go(
    sweep: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (removing, sending):
        monkeypatch.setattr(module, "MOST_KEYS_PER_REQUEST", 10)
    asked: list[int] = []
    sweep.client.meta.events.register_first(
        "provide-client-params.s3.DeleteObjects",
        lambda params, **_: asked.append(len(params["Delete"]["Objects"])),
    )
    drained(sweep, [f"files/{number:04d}" for number in range(51)], 25, [25, 25, 1])
    assert asked == [1, 1, 10, 10, 5, 10, 10, 5, 1], "the first two are the probe's own"


@pytest.mark.thorough
@pytest.mark.parametrize(("orphans", "expected"), [(1001, [1000, 1]), (2500, [1000, 1000, 500])])
def test_more_than_a_thousand_orphans_go_in_capped_runs(
    sweep: Sweeper, orphans: int, expected: list[int]
) -> None:
    drained(sweep, [f"files/{number:04d}" for number in range(orphans)], 1000, expected)
