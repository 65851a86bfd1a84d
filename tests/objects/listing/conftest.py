from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest
from tenacity import wait_none

from filejobs_dagster.objects.client import make_client
from filejobs_dagster.objects.listing import Listed, list_objects
from filejobs_dagster.objects.listing.ask import Asker
from filejobs_dagster.objects.listing.part import Reader
from filejobs_dagster.streams import Scratch
from tests.objects.buckets import BucketForTests
from tests.objects.scripted import ScriptedS3, scripted_s3

if TYPE_CHECKING:
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from tests.objects.listing.bucket import BucketOfKeys

List = Callable[..., Listed]


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Scratch]:
    with Scratch(tmp_path) as opened:
        yield opened


@pytest.fixture(scope="session")
def served() -> Iterator[ScriptedS3]:
    """One server for all of these tests, each of which gives it a bucket."""
    with scripted_s3() as server:
        yield server


@pytest.fixture(scope="session")
def served_client(served: ScriptedS3) -> S3Client:
    """Making a client takes longer than most of these tests."""
    return make_client(BucketForTests(endpoint_url=served.address))


@pytest.fixture
def list_scripted(served: ScriptedS3, served_client: S3Client, scratch: Scratch) -> List:
    """List what a bucket in memory answers, through a real socket and our real client."""

    def run(bucket: BucketOfKeys, prefixes: Sequence[str] = ("files/",), **options: Any) -> Listed:
        served.script = bucket
        settings: dict[str, Any] = {"parts": 1, "back_off": wait_none(), **options}
        return list_objects(served_client, "bucket", prefixes, scratch=scratch, **settings)

    return run


@pytest.fixture
def reader_of(served: ScriptedS3, served_client: S3Client) -> Callable[[BucketOfKeys], Reader]:
    """A reader of a bucket in memory."""

    def make(bucket: BucketOfKeys) -> Reader:
        served.script = bucket
        return Reader(Asker(served_client, "bucket", wait=wait_none()))

    return make
