"""Each job in each state of a bucket, with each setting, on real servers: see the table."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.objects.client import make_client
from tests.conformance.ceph import OWNER
from tests.conformance.gateway import client_of
from tests.installation import Installation
from tests.jobs.bucket_states import STATES, State, World

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conformance.ceph import Ceph
    from tests.conformance.seaweedfs import SeaweedFS

pytestmark = pytest.mark.conformance


def check(folder: Path, database_url: str, endpoint_url: str, state: State, purge: bool) -> None:
    name = f"test-{uuid.uuid4().hex}"
    owner = client_of(endpoint_url, OWNER)
    owner.create_bucket(Bucket=name, ObjectLockEnabledForBucket=state == "locked")
    installation = Installation(folder, database_url, name, owner, endpoint_url)
    environment = installation.environment | {
        "FILEJOBS_S3_ACCESS_KEY_ID": OWNER.access_key_id,
        "FILEJOBS_S3_SECRET_ACCESS_KEY": OWNER.secret_access_key,
    }
    client = make_client(installation.settings(environment).buckets["uploads"])
    World(installation, client, state, purge).check()


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
