"""A server that knows multipart uploads, and a gate in front of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tenacity import wait_none

from filejobs_dagster.objects.client import make_client
from filejobs_dagster.objects.gate import Gate
from filejobs_dagster.references.check import ReferenceCheck
from tests.objects.buckets import BucketForTests
from tests.objects.multipart.server import MultipartServer
from tests.objects.scripted import ScriptedS3, scripted_s3

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg
    from mypy_boto3_s3 import S3Client


@pytest.fixture(scope="module")
def _shared() -> Iterator[tuple[ScriptedS3, S3Client]]:
    """One server and one client: making a client takes longer than any of these tests."""
    with scripted_s3() as server:
        yield server, make_client(BucketForTests(endpoint_url=server.address))


@pytest.fixture
def scripted(_shared: tuple[ScriptedS3, S3Client]) -> ScriptedS3:
    server, _ = _shared
    server.requests.clear()
    return server


@pytest.fixture
def scripted_client(_shared: tuple[ScriptedS3, S3Client]) -> S3Client:
    """Our client on that server; it tries each request once."""
    return _shared[1]


@pytest.fixture
def server(scripted: ScriptedS3) -> MultipartServer:
    state = MultipartServer()
    scripted.script = state
    return state


@pytest.fixture
def gate(scripted_client: S3Client, connection: psycopg.Connection) -> Gate:
    """A gate that owns `files/`, asks a real database, and does not wait between tries."""
    bucket = BucketForTests(endpoint_url=None, bucket="acme", protect=["files/brand/"])
    return Gate(scripted_client, bucket, ReferenceCheck(connection), wait=wait_none())
