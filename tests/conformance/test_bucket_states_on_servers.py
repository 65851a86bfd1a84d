"""Each job in each state of a bucket, with each setting, on real servers: see the table."""

from __future__ import annotations

import uuid
from types import MappingProxyType
from typing import TYPE_CHECKING, get_args

import pytest

from filejobs_dagster.objects.client import make_client
from tests.conformance.ceph import OWNER
from tests.conformance.gateway import client_of
from tests.installation import Installation
from tests.jobs.bucket_states import CURRENT, STATES, Left, State, Touch, World
from tests.jobs.storage_orphans.conftest import Sweeper

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from filejobs_dagster.embedded.seaweedfs import SeaweedFS
    from tests.conformance.ceph import Ceph

pytestmark = pytest.mark.conformance

LOCKS = ("hold", "retention")


def check(
    folder: Path,
    database_url: str,
    endpoint_url: str,
    state: State,
    purge: bool,
    touch: Touch | None = None,
    other: Mapping[str, Left] = MappingProxyType({}),
    *,
    keeps: bool = False,
) -> World:
    name = f"test-{uuid.uuid4().hex}"
    owner = client_of(endpoint_url, OWNER)
    holds = state == "locked" or touch in LOCKS
    owner.create_bucket(Bucket=name, ObjectLockEnabledForBucket=holds)
    installation = Installation(folder, database_url, name, owner, endpoint_url)
    environment = installation.environment | {
        "FILEJOBS_S3_ACCESS_KEY_ID": OWNER.access_key_id,
        "FILEJOBS_S3_SECRET_ACCESS_KEY": OWNER.secret_access_key,
    }
    client = make_client(installation.settings(environment).buckets["uploads"])
    world = World(installation, client, state, purge, touch, other, keeps)
    world.check()
    return world


@pytest.mark.thorough
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("server", ["ceph", "seaweedfs"])
def test_with_quarantine(
    tmp_path: Path, database_url: str, server: str, state: State, request: pytest.FixtureRequest
) -> None:
    address = request.getfixturevalue(server).endpoint_url
    check(tmp_path, database_url, address, state, purge=False, keeps=True)


@pytest.mark.parametrize("purge", [False, True])
@pytest.mark.parametrize("state", STATES)
def test_on_ceph(tmp_path: Path, database_url: str, ceph: Ceph, state: State, purge: bool) -> None:
    check(tmp_path, database_url, ceph.endpoint_url, state, purge)


@pytest.mark.parametrize("purge", [False, True])
@pytest.mark.parametrize("state", STATES)
def test_on_seaweedfs(
    tmp_path: Path, database_url: str, seaweedfs: SeaweedFS, state: State, purge: bool
) -> None:
    check(tmp_path, database_url, seaweedfs.endpoint_url, state, purge)


@pytest.mark.parametrize("touch", get_args(Touch))
def test_what_was_changed_after_its_upload_goes_on_ceph(
    tmp_path: Path, database_url: str, ceph: Ceph, touch: Touch
) -> None:
    check(tmp_path, database_url, ceph.endpoint_url, "enabled", purge=True, touch=touch)


@pytest.mark.parametrize("touch", get_args(Touch))
def test_what_was_changed_after_its_upload_goes_on_seaweedfs(
    tmp_path: Path, database_url: str, seaweedfs: SeaweedFS, touch: Touch
) -> None:
    # A lock dates the version anew here, and not its entry in the listing of objects, in which the
    # orphan was seen: the first look cannot tell whether the same bytes were written again. It
    # keeps the version, by which the next one can.
    other = {"storage_orphans": Left(2, 0, "undecided", 0)} if touch in LOCKS else {}
    world = check(
        tmp_path,
        database_url,
        seaweedfs.endpoint_url,
        "enabled",
        purge=True,
        touch=touch,
        other=other,
    )
    if touch in LOCKS:
        sweep = Sweeper(world.installation, world.client)
        world.installation.execute("UPDATE setback SET not_before = now()")
        assert sweep().detail["fates"] == {"purged": 1}
        assert world.left_of("files/orphan") == (0, 0)


def test_the_same_bytes_written_after_a_hold_was_seen_stay_on_seaweedfs(
    tmp_path: Path, database_url: str, seaweedfs: SeaweedFS
) -> None:
    other = {"storage_orphans": Left(2, 0, "undecided", 0)}
    url = seaweedfs.endpoint_url
    world = check(tmp_path, database_url, url, "enabled", purge=True, touch="hold", other=other)
    sweep = Sweeper(world.installation, world.client)
    world.installation.execute("UPDATE setback SET not_before = now()")
    sweep.when["Removing up to"] = lambda: sweep.put("files/orphan", body=CURRENT)
    assert sweep().detail["fates"] == {"changed meanwhile": 1}
    assert world.left_of("files/orphan") == (3, 0)


def test_a_retention_that_is_set_after_the_upload_keeps_on_ceph(
    tmp_path: Path, database_url: str, ceph: Ceph
) -> None:
    check(tmp_path, database_url, ceph.endpoint_url, "locked", purge=True, touch="retention")


def test_a_retention_that_is_set_after_the_upload_keeps_on_seaweedfs(
    tmp_path: Path, database_url: str, seaweedfs: SeaweedFS
) -> None:
    url = seaweedfs.endpoint_url
    check(tmp_path, database_url, url, "locked", purge=True, touch="retention")
