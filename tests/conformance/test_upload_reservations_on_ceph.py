"""upload_reservations, from the settings to the audit log, on real object storage."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from filejobs_dagster.objects.client import make_client
from tests.conformance.ceph import GUEST, Account, Ceph
from tests.conformance.gateway import listed, set_policy, statement, versions
from tests.conformance.test_odd_keys import KEYS
from tests.installation import Installation
from tests.jobs.conftest import Collector

if TYPE_CHECKING:
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

pytestmark = pytest.mark.conformance

NOBODY = Account("nobody", "unknown-access-key", "not-the-secret-of-anybody")


@pytest.fixture
def installation(
    tmp_path: Path, database_url: str, bucket: str, owner: S3Client, ceph: Ceph
) -> Installation:
    """An installation whose file feature writes as the bucket's owner."""
    return Installation(tmp_path, database_url, bucket, owner, ceph.endpoint_url)


def collector_of(installation: Installation, account: Account = GUEST) -> Collector:
    """A collector that uses the bucket as this user, made from the settings."""
    environment = installation.environment | {
        "FILEJOBS_S3_ACCESS_KEY_ID": account.access_key_id,
        "FILEJOBS_S3_SECRET_ACCESS_KEY": account.secret_access_key,
    }
    bucket = installation.settings(environment).buckets["uploads"]
    return Collector(installation, make_client(bucket))


def allow(installation: Installation, *actions: str) -> dict[str, Any]:
    policy: dict[str, Any] = statement(installation.bucket, "Allow", actions, ["", "/*"])
    return policy


@pytest.fixture
def collect(installation: Installation) -> Collector:
    """A collector with exactly the rights that it needs."""
    set_policy(
        installation.client,
        installation.bucket,
        allow(installation, "ListBucket", "GetObject", "DeleteObject"),
    )
    return collector_of(installation)


def events(installation: Installation, kind: str) -> list[dict[str, Any]]:
    rows = installation.execute(
        "SELECT body::jsonb FROM audit_event WHERE body::jsonb->>'kind' = %s", (kind,)
    )
    return [body for (body,) in rows]


def owned(keys: list[str]) -> set[str]:
    """Keys that may go: in the owned prefix, no marker, and no path that a proxy may resolve."""
    return {
        key
        for key in keys
        if key.startswith("files/")
        and not key.endswith("/")
        and not {".", ".."} & set(key.split("/"))
    }


def test_reservations_of_odd_keys_are_collected_and_every_twin_of_the_living_stays(
    installation: Installation, collect: Collector
) -> None:
    due, living = KEYS[::2], KEYS[1::2]
    for size, key in enumerate(due):
        installation.reserve(key, body=b"x" * size)
    for key in living:
        installation.reserve(key, due_ago=timedelta(hours=-1))
    sizes = {key: size for size, key in enumerate(due)}
    mine = owned(due)
    assert len(mine) > 15
    assert len(mine) < len(due)

    outcome = collect(batch_size=7)

    assert outcome.ok, outcome.error
    assert (outcome.scanned, outcome.acted) == (len(due), len(mine))
    there = set(listed(installation.client, installation.bucket))
    # What the living name in another spelling is ambiguous: the bytes stay, and it is said.
    ambiguous, gone = there & mine, mine - there
    classes = outcome.detail["classes"]
    assert len(gone) > 10
    assert len(ambiguous) == sum(
        count for name, count in classes.items() if name.startswith("kept: ambiguous: near")
    )
    assert classes["deleted"] == len(gone)
    assert outcome.detail["bytes_freed"] == sum(sizes[key] for key in gone)
    assert there - ambiguous == set(KEYS) - mine
    rows = {key for (key,) in installation.execute("SELECT storage_key FROM file")}
    assert rows == set(KEYS) - mine
    collected = events(installation, "upload_reservation.collected")
    assert sorted(event["storage_key"] for event in collected) == sorted(mine)
    intents = events(installation, "objects.delete.intent")
    assert sorted(key for intent in intents for key in intent["keys"]) == sorted(mine)
    assert sum(it["deleted"] for it in events(installation, "objects.delete.result")) == len(gone)


def test_a_dry_run_says_the_same_and_touches_nothing(
    installation: Installation, collect: Collector
) -> None:
    for size, key in enumerate(KEYS):
        installation.reserve(key, body=b"x" * size)
    mine = owned(KEYS)

    outcome = collect(mode="dry")

    assert outcome.ok, outcome.error
    assert outcome.detail["would_collect"] == len(mine)
    assert outcome.detail["would_free_bytes"] == sum(
        size for size, key in enumerate(KEYS) if key in mine
    )
    assert set(listed(installation.client, installation.bucket)) == set(KEYS)
    assert installation.value("SELECT count(*) FROM file") == len(KEYS)
    assert installation.value("SELECT count(*) FROM audit_event") == 0


@pytest.mark.parametrize(
    "poison", ["files/held/poison", "files/held/poi\nson"], ids=["in a batch", "alone"]
)
def test_one_poison_object_is_left_and_named_and_the_others_go(
    installation: Installation, poison: str
) -> None:
    set_policy(
        installation.client,
        installation.bucket,
        allow(installation, "ListBucket", "GetObject", "DeleteObject"),
        statement(installation.bucket, "Deny", ["DeleteObject"], ["/files/held/*"]),
    )
    for n in range(30):
        installation.reserve(f"files/{n}", body=b"1234")
    installation.reserve(poison, body=b"56789", due_ago=timedelta(minutes=30))
    installation.reserve("files/never-arrived", body=None)

    outcome = collector_of(installation)(batch_size=10)

    assert outcome.ok, outcome.error
    assert (outcome.scanned, outcome.acted) == (32, 31)
    assert outcome.detail["claimed"] == 32
    assert outcome.detail["never_arrived"] == 1
    assert outcome.detail["bytes_freed"] == 30 * 4
    assert outcome.detail["objects_left"] == 1
    [left] = outcome.detail["samples"]["bytes left"]
    assert "AccessDenied" in left
    assert listed(installation.client, installation.bucket) == [poison]
    assert installation.value("SELECT count(*) FROM file") == 0, "its row was claimed, too"
    results = events(installation, "objects.delete.result")
    assert sum(result["deleted"] for result in results) == 30
    assert [key for result in results for key in result["failed"]] == [poison]


def test_a_collector_without_the_right_to_delete_claims_one_batch_and_fails(
    installation: Installation,
) -> None:
    set_policy(
        installation.client, installation.bucket, allow(installation, "ListBucket", "GetObject")
    )
    for n in range(30):
        installation.reserve(f"files/{n}")

    outcome = collector_of(installation)(batch_size=10)

    assert not outcome.ok
    assert "AccessDenied" in str(outcome.error)
    assert installation.value("SELECT count(*) FROM file") == 20
    assert len(listed(installation.client, installation.bucket)) == 30
    [progress] = installation.progress()
    assert progress["acted"] == 0
    assert progress["detail"]["objects_left"] == 10
    [result] = events(installation, "objects.delete.result")
    assert len(result["left"]) == 10


def test_a_collector_with_wrong_credentials_claims_nothing(installation: Installation) -> None:
    installation.reserve("files/a")

    outcome = collector_of(installation, NOBODY)()

    assert not outcome.ok
    assert "InvalidAccessKeyId" in str(outcome.error)
    assert installation.has_row("files/a")
    assert listed(installation.client, installation.bucket) == ["files/a"]


def test_a_locked_object_is_marked_and_no_byte_is_called_freed(
    installation: Installation, locking_bucket: str, owner: S3Client
) -> None:
    installation.bucket = installation.document["buckets"]["uploads"]["bucket"] = locking_bucket
    set_policy(
        owner, locking_bucket, allow(installation, "ListBucket", "GetObject", "DeleteObject")
    )
    for key in ("files/free", "files/locked"):
        installation.reserve(key, body=b"123")
    owner.put_object_retention(
        Bucket=locking_bucket,
        Key="files/locked",
        Retention={
            "Mode": "COMPLIANCE",
            "RetainUntilDate": datetime.now(timezone.utc) + timedelta(days=1),
        },
    )
    before = versions(owner, locking_bucket)

    outcome = collector_of(installation)()

    assert outcome.ok, outcome.error
    assert (outcome.scanned, outcome.acted) == (2, 2)
    assert outcome.detail["classes"] == {"marked": 2}
    assert outcome.detail["bytes_freed"] == 0
    assert outcome.detail["bytes_by_class"] == {"marked": 6}
    after = versions(owner, locking_bucket)
    assert after.kept == before.kept
    assert after.marked == ["files/free", "files/locked"]
    [result] = events(installation, "objects.delete.result")
    assert (result["deleted"], result["marked"]) == (0, 2)
