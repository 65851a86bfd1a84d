"""Clients made as the jobs make them, for the shared S3 server and for one that obeys the test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.objects.client import make_client
from tests.objects.buckets import BucketForTests
from tests.objects.scripted import ScriptedS3, scripted_s3

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.s3 import EmbeddedS3


@pytest.fixture(scope="session")
def client(s3_server: EmbeddedS3) -> S3Client:
    """Our client on the worker's S3 server."""
    return make_client(BucketForTests(endpoint_url=s3_server.endpoint_url))


@pytest.fixture
def versioned_bucket(client: S3Client, bucket: str) -> str:
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    return bucket


@pytest.fixture
def scripted() -> Iterator[ScriptedS3]:
    with scripted_s3() as server:
        yield server


@pytest.fixture
def scripted_client(scripted: ScriptedS3) -> S3Client:
    """Our client on a server that answers what the test says; it tries each request once."""
    return make_client(BucketForTests(endpoint_url=scripted.address))
