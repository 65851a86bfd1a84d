"""storage_orphans on real object storage: odd keys, locks, versions, and more than one request."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.objects.client import make_client
from tests.conformance.ceph import OWNER, Ceph
from tests.conformance.gateway import listed, put, versions
from tests.installation import Installation
from tests.jobs.storage_orphans.conftest import Sweeper
from tests.jobs.storage_orphans.odd_keys import ODD_KEYS, ORPHAN, PROTECT, REWRITES

if TYPE_CHECKING:
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

pytestmark = pytest.mark.conformance

MARKER = "filejobs-adopted/test.json"


@pytest.fixture
def sweep(tmp_path: Path, database_url: str, owner: S3Client, bucket: str, ceph: Ceph) -> Sweeper:
    return sweeper(tmp_path, database_url, owner, bucket, ceph)


def sweeper(folder: Path, database_url: str, owner: S3Client, bucket: str, ceph: Ceph) -> Sweeper:
    """The job on a bucket, as the bucket's owner."""
    installation = Installation(folder, database_url, bucket, owner, ceph.endpoint_url)
    environment = installation.environment | {
        "FILEJOBS_S3_ACCESS_KEY_ID": OWNER.access_key_id,
        "FILEJOBS_S3_SECRET_ACCESS_KEY": OWNER.secret_access_key,
    }
    settings = installation.settings(environment).buckets["uploads"]
    return Sweeper(installation, make_client(settings))


def test_of_a_table_of_odd_keys_exactly_the_right_ones_go(
    sweep: Sweeper, owner: S3Client, bucket: str
) -> None:
    sweep.installation.document["buckets"]["uploads"] |= {
        "protect": list(PROTECT),
        "rewrites": [{"name": name, "match": match, "owner": to} for name, match, to in REWRITES],
    }
    there = [odd for odd in ODD_KEYS if not odd.only_in_memory]
    assert len(there) >= 60
    put(owner, bucket, [odd.key.decode() for odd in there])
    sweep.refer(*dict.fromkeys(row for odd in ODD_KEYS for row in odd.rows))

    assert sweep().ok
    outcome = sweep()
    assert outcome.ok, outcome.error
    stay = {odd.key.decode() for odd in there if odd.kind != ORPHAN}
    assert set(listed(owner, bucket)) == {*stay, MARKER}
    assert outcome.acted == sum(odd.kind == ORPHAN for odd in there)


def test_this_server_ignores_conditions_and_the_job_knows_it(sweep: Sweeper) -> None:
    sweep.seen_before("files/orphan")
    outcome = sweep()
    assert outcome.acted == 1
    assert outcome.detail["conditional_delete"] == "ignored"


def test_an_object_that_is_written_anew_before_the_deletion_is_kept_all_the_same(
    sweep: Sweeper,
) -> None:
    sweep.seen_before("files/orphan")
    sweep.when["were seen by an earlier run"] = lambda: sweep.put("files/orphan", body=b"anew")
    outcome = sweep()
    assert outcome.ok, outcome.error
    assert outcome.detail["fates"] == {"changed meanwhile": 1}
    assert sweep.installation.has_object("files/orphan")


def test_a_lock_in_the_middle_of_a_batch_keeps_its_object_and_the_others_go(
    tmp_path: Path, database_url: str, owner: S3Client, locking_bucket: str, ceph: Ceph
) -> None:
    sweep = sweeper(tmp_path, database_url, owner, locking_bucket, ceph)
    sweep.installation.document["buckets"]["uploads"]["purge_versions"] = True
    put(owner, locking_bucket, ["files/a", "files/b", "files/c", "files/used"])
    owner.put_object_retention(
        Bucket=locking_bucket,
        Key="files/b",
        Retention={
            "Mode": "GOVERNANCE",
            "RetainUntilDate": datetime.now(timezone.utc) + timedelta(days=2),
        },
    )
    sweep.refer("files/used")
    assert sweep().ok
    outcome = sweep()
    assert outcome.ok, outcome.error
    assert outcome.acted == 2
    assert outcome.detail["fates"]["locked"] == 1
    assert set(listed(owner, locking_bucket)) == {"files/b", "files/used", MARKER}


def test_purging_a_versioned_bucket_frees_orphans_and_touches_no_version_of_a_live_object(
    tmp_path: Path, database_url: str, owner: S3Client, versioned_bucket: str, ceph: Ceph
) -> None:
    sweep = sweeper(tmp_path, database_url, owner, versioned_bucket, ceph)
    sweep.installation.document["buckets"]["uploads"]["purge_versions"] = True
    for _ in range(2):
        put(owner, versioned_bucket, ["files/orphan", "files/used"])
    sweep.refer("files/used")
    assert sweep().ok
    outcome = sweep()
    assert outcome.ok, outcome.error
    assert outcome.acted == 1
    kept = [key for key, _ in versions(owner, versioned_bucket).kept if key.startswith("files/")]
    # Two from above, and none of the orphan.
    assert kept == ["files/used"] * 2


@pytest.mark.parametrize("count", [1001, 2500])
def test_more_orphans_than_one_request_holds_all_go(
    sweep: Sweeper, owner: S3Client, bucket: str, count: int
) -> None:
    orphans = [f"files/{number:04d}" for number in range(count)]
    put(owner, bucket, orphans)
    sweep.seen_before_there(*orphans)
    outcome = sweep()
    assert outcome.ok, outcome.error
    assert outcome.acted == count
    assert set(listed(owner, bucket)) == {"files/used", MARKER}
