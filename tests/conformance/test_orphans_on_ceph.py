"""Orphans on a real server: conditions, versions, locks, odd keys, and many of them."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.door.server import probe
from filejobs_dagster.objects.deletion_mode import Abilities, DeletionMode, deletion_mode_of
from filejobs_dagster.objects.identity import compare, expected
from filejobs_dagster.objects.targets import Expected
from tests.conformance.gateway import listed, put, set_policy, statement, versions
from tests.objects.grouped import Removal
from tests.objects.odd_keys import ODD_KEYS
from tests.objects.orphans import gate_on, no_proof_needed, seen

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import psycopg
    from mypy_boto3_s3 import S3Client

pytestmark = pytest.mark.conformance

PURGE = DeletionMode("enabled", purge_versions=True)
SUSPENDED = DeletionMode("suspended")


def as_listed(client: S3Client, bucket: str) -> dict[str, Expected]:
    """Every object as a listing has it: with milliseconds, which HEAD does not have."""
    found: dict[str, Expected] = {}
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        for it in page.get("Contents", []):
            found[it["Key"]] = Expected(
                it["Key"].encode(),
                it["ETag"].strip('"'),
                it["Size"],
                int(it["LastModified"].timestamp() * 1000),
            )
    return found


def history(client: S3Client, bucket: str, keys: Sequence[str], count: int = 2) -> None:
    for number in range(count):
        put(client, bucket, keys, b"x" * (number + 1))


def suspend(client: S3Client, bucket: str) -> None:
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Suspended"})


# Conditions


def test_this_server_ignores_conditions_and_the_probe_says_so(owner: S3Client, bucket: str) -> None:
    found = probe(owner, bucket, "filejobs-adopted.json")
    assert found.abilities == Abilities(conditional="ignored", lists_uploads=True)
    assert found.leftover is None
    assert listed(owner, bucket) == []


def test_the_probe_leaves_nothing_behind_where_versions_are_kept(
    owner: S3Client, versioned_bucket: str
) -> None:
    assert probe(owner, versioned_bucket, "filejobs-adopted.json").leftover is None
    left = versions(owner, versioned_bucket)
    assert (left.kept, left.marked) == (frozenset(), [])


@pytest.mark.parametrize("purge", [False, True])
def test_tags_and_acls_that_came_later_make_no_other_object_of_a_version(
    owner: S3Client, versioned_bucket: str, connection: psycopg.Connection, purge: bool
) -> None:
    put(owner, versioned_bucket, ["files/acl", "files/again", "files/tagged"])
    orphans = as_listed(owner, versioned_bucket)
    time.sleep(2.1)
    tags = {"TagSet": [{"Key": "some", "Value": "tag"}]}
    owner.put_object_tagging(Bucket=versioned_bucket, Key="files/tagged", Tagging=tags)  # type: ignore[arg-type]
    owner.put_object_acl(Bucket=versioned_bucket, Key="files/acl", ACL="public-read")
    put(owner, versioned_bucket, ["files/again"])
    for key in ("files/tagged", "files/acl"):
        # CONTROL: by size, ETag and time alone nobody could tell, in any run.
        orphan, now = orphans[key], seen(owner, versioned_bucket, key)
        assert compare(expected(orphan), expected(now)).word == "undecided"

    gate = gate_on(owner, connection, versioned_bucket)
    removal = gate.remove(list(orphans.values()), no_proof_needed, DeletionMode("enabled", purge))

    assert sorted(removal.removed()) == [b"files/acl", b"files/tagged"]
    assert list(removal.undecided) == [b"files/again"]
    assert listed(owner, versioned_bucket) == ["files/again"]


def test_a_changed_object_stays_although_the_server_ignores_conditions(
    owner: S3Client, bucket: str, connection: psycopg.Connection
) -> None:
    put(owner, bucket, ["files/a", "files/b"])
    orphans = as_listed(owner, bucket)
    put(owner, bucket, ["files/a"], b"newer")
    removal = gate_on(owner, connection, bucket).remove(
        list(orphans.values()), no_proof_needed, DeletionMode(conditional="ignored")
    )
    assert removal.deleted == (b"files/b",)
    assert list(removal.changed) == [b"files/a"]
    assert listed(owner, bucket) == ["files/a"]


def test_a_condition_alone_loses_the_changed_object_here_control(
    owner: S3Client, bucket: str
) -> None:
    put(owner, bucket, ["files/a"])
    before = seen(owner, bucket, "files/a")
    put(owner, bucket, ["files/a"], b"newer")
    owner.delete_object(Bucket=bucket, Key="files/a", IfMatch=f'"{before.etag}"')
    assert listed(owner, bucket) == []


# Keys, and many of them


def test_every_odd_key_goes_by_what_the_listing_said_of_it_and_no_twin_does(
    owner: S3Client, bucket: str, connection: psycopg.Connection
) -> None:
    keys = [key for key in ODD_KEYS if key.startswith("files/") and "." not in key.split("/")]
    keys = [key for key in keys if ".." not in key.split("/")]
    put(owner, bucket, [*keys, *(f"{key}-stays"[:1024] for key in keys if len(key) < 1000)])
    orphans = [seen(owner, bucket, key) for key in keys]
    removal = gate_on(owner, connection, bucket).remove(orphans, no_proof_needed)
    assert set(removal.deleted) == {key.encode() for key in keys}
    assert all(key.endswith("-stays") for key in listed(owner, bucket))


@pytest.mark.parametrize("count", [1001, 2500])
def test_more_than_a_request_carries_go_and_nothing_else_does(
    owner: S3Client, bucket: str, connection: psycopg.Connection, count: int
) -> None:
    keys = [f"files/{number:04}" for number in range(count)]
    put(owner, bucket, [*keys, "files/stays", "other/stays"])
    connection.execute("INSERT INTO file (state, storage_key) VALUES ('ready', 'files/stays')")
    asked: list[None] = []
    removal = gate_on(owner, connection, bucket).remove(
        list(as_listed(owner, bucket).values()), lambda: asked.append(None)
    )
    assert removal.deleted == tuple(key.encode() for key in keys)
    assert removal.freed == count * len(b"bytes")
    assert removal.kept == {
        b"files/stays": "referenced by file",
        b"other/stays": "not owned",
    }
    assert listed(owner, bucket) == ["files/stays", "other/stays"]
    assert len(asked) == -(-(count + 2) // 1000)


# Versions


def test_purging_takes_every_version_of_exactly_these_keys(
    owner: S3Client, versioned_bucket: str, connection: psycopg.Connection
) -> None:
    keys = ["files/a", "files/caf\u00e9", "files/new\nline", "files/tab\t", "files/a+b"]
    twins = ["files/a/b", "files/aa", "files/cafe\u0301", "files/new line", "files/a b"]
    history(owner, versioned_bucket, [*keys, *twins], 3)
    orphans = [seen(owner, versioned_bucket, key) for key in keys]
    deletion_mode = deletion_mode_of(owner, versioned_bucket, purge_versions=True)
    removal = gate_on(owner, connection, versioned_bucket).remove(
        orphans, no_proof_needed, deletion_mode
    )
    assert removal.purged == {key.encode(): 3 for key in keys}
    assert removal.freed == len(keys) * (1 + 2 + 3)
    left = versions(owner, versioned_bucket)
    assert sorted({key for key, _ in left.kept}) == sorted(twins)
    assert len(left.kept) == 3 * len(twins)


def test_the_history_of_a_live_object_is_not_touched(
    owner: S3Client, versioned_bucket: str, connection: psycopg.Connection
) -> None:
    history(owner, versioned_bucket, ["files/live", "files/orphan"], 3)
    connection.execute("INSERT INTO file (state, storage_key) VALUES ('ready', 'files/live')")
    orphans = list(as_listed(owner, versioned_bucket).values())
    removal = gate_on(owner, connection, versioned_bucket).remove(orphans, no_proof_needed, PURGE)
    assert list(removal.purged) == [b"files/orphan"]
    assert {key for key, _ in versions(owner, versioned_bucket).kept} == {"files/live"}
    assert len(versions(owner, versioned_bucket).kept) == 3


def test_without_purging_orphans_are_marked_and_found_gone(
    owner: S3Client, versioned_bucket: str, connection: psycopg.Connection
) -> None:
    put(owner, versioned_bucket, ["files/a"])
    orphans = list(as_listed(owner, versioned_bucket).values())
    gate = gate_on(owner, connection, versioned_bucket)
    assert gate.remove(orphans, no_proof_needed, DeletionMode("enabled")) == Removal(
        marked=(b"files/a",)
    )
    assert gate.remove(orphans, no_proof_needed, DeletionMode("enabled")).already_gone == (
        b"files/a",
    )
    assert versions(owner, versioned_bucket).marked == ["files/a"]


def test_where_versions_are_suspended_a_null_version_is_freed_and_one_from_before_marked(
    owner: S3Client, versioned_bucket: str, connection: psycopg.Connection
) -> None:
    put(owner, versioned_bucket, ["files/before"])
    suspend(owner, versioned_bucket)
    put(owner, versioned_bucket, ["files/null"])
    orphans = list(as_listed(owner, versioned_bucket).values())
    removal = gate_on(owner, connection, versioned_bucket).remove(
        orphans, no_proof_needed, SUSPENDED
    )
    assert removal == Removal(deleted=(b"files/null",), marked=(b"files/before",), freed=5)
    assert {key for key, _ in versions(owner, versioned_bucket).kept} == {"files/before"}


def test_where_versions_are_suspended_purging_takes_the_null_version_and_the_others(
    owner: S3Client, versioned_bucket: str, connection: psycopg.Connection
) -> None:
    history(owner, versioned_bucket, ["files/a"], 2)
    suspend(owner, versioned_bucket)
    put(owner, versioned_bucket, ["files/a"])
    deletion_mode = deletion_mode_of(owner, versioned_bucket, purge_versions=True)
    removal = gate_on(owner, connection, versioned_bucket).remove(
        [seen(owner, versioned_bucket, "files/a")], no_proof_needed, deletion_mode
    )
    assert removal.purged == {b"files/a": 3}
    assert versions(owner, versioned_bucket).kept == frozenset()


# Locks


def retain(client: S3Client, bucket: str, key: str, version: str) -> None:
    until = datetime.now(timezone.utc) + timedelta(days=1)
    client.put_object_retention(
        Bucket=bucket,
        Key=key,
        VersionId=version,
        Retention={"Mode": "COMPLIANCE", "RetainUntilDate": until},
    )


def hold(client: S3Client, bucket: str, key: str, version: str) -> None:
    client.put_object_legal_hold(
        Bucket=bucket, Key=key, VersionId=version, LegalHold={"Status": "ON"}
    )


@pytest.mark.parametrize("lock", [retain, hold])
@pytest.mark.parametrize("latest", [True, False], ids=["current", "older"])
def test_a_lock_in_the_middle_of_a_batch_keeps_its_object_and_the_others_go(
    owner: S3Client,
    locking_bucket: str,
    connection: psycopg.Connection,
    lock: Callable[[S3Client, str, str, str], None],
    latest: bool,
) -> None:
    keys = ["files/a", "files/b", "files/c"]
    history(owner, locking_bucket, keys)
    found = owner.list_object_versions(Bucket=locking_bucket, Prefix="files/b")["Versions"]
    [version] = [it["VersionId"] for it in found if it["IsLatest"] is latest]
    lock(owner, locking_bucket, "files/b", version)

    removal = gate_on(owner, connection, locking_bucket).remove(
        [seen(owner, locking_bucket, key) for key in keys], no_proof_needed, PURGE
    )

    assert removal.purged == {b"files/a": 2, b"files/c": 2}
    locked = removal.locked[b"files/b"]
    assert (locked.until is None, locked.legal_hold) == (lock is hold, lock is hold)
    assert listed(owner, locking_bucket) == ["files/b"]
    assert ("files/b", version) in versions(owner, locking_bucket).kept


def test_a_missing_right_is_told_from_a_lock(
    owner: S3Client, guest: S3Client, versioned_bucket: str, connection: psycopg.Connection
) -> None:
    history(owner, versioned_bucket, ["files/a"])
    set_policy(
        owner,
        versioned_bucket,
        statement(
            versioned_bucket,
            "Allow",
            ["GetObject", "ListBucket", "ListBucketVersions", "DeleteObject"],
            ["", "/*"],
        ),
    )
    removal = gate_on(guest, connection, versioned_bucket).remove(
        [seen(owner, versioned_bucket, "files/a")], no_proof_needed, PURGE
    )
    assert removal.locked == {}
    assert "s3:DeleteObjectVersion" in removal.failed[b"files/a"]
    assert len(versions(owner, versioned_bucket).kept) == 2
