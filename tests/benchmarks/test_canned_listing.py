"""The canned listing is exact: a measurement of a wrong listing would measure nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.canned_listing import BUCKET, Keys
from filejobs_dagster.embedded.s3 import S3Endpoint
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.objects.listing import list_objects, workers
from filejobs_dagster.streams import Scratch
from tests.objects.buckets import BucketForTests

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECKOUT = Path(__file__).parents[2]
OBJECTS, FOLDERS = 7_001, 3


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.canned_listing", str(OBJECTS), str(FOLDERS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=CHECKOUT,
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate()


@pytest.mark.parametrize("prefixes", [["files/"], ["files/00/", "files/01/", "files/02/"], [""]])
@pytest.mark.parametrize("parts", [1, 4])
def test_every_object_is_listed_once(
    address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    prefixes: list[str],
    parts: int,
) -> None:
    monkeypatch.setattr(workers, "PAGES_BEFORE_SPLIT", 1)
    client = make_client(BucketForTests(endpoint_url=address))
    with Scratch(tmp_path) as scratch:
        listed = list_objects(client, BUCKET, prefixes, parts=parts, scratch=scratch)
        keys = [key for page in listed.pages() for key in page.keys]
    assert keys == list(Keys(OBJECTS, FOLDERS))
    assert listed.ordered_by_server


def test_the_listing_of_old_is_the_same(address: str) -> None:
    client = S3Endpoint(address).client()
    pages = client.get_paginator("list_objects").paginate(Bucket=BUCKET, Prefix="files/01/")
    keys = [entry["Key"].encode() for page in pages for entry in page["Contents"]]
    assert keys == [key for key in Keys(OBJECTS, FOLDERS) if key.startswith(b"files/01/")]


def test_what_tools_ask_first_is_answered_as_a_bucket_does(address: str) -> None:
    client = S3Endpoint(address).client()
    client.head_bucket(Bucket=BUCKET)
    assert client.get_bucket_location(Bucket=BUCKET)["LocationConstraint"] is None
    assert "Status" not in client.get_bucket_versioning(Bucket=BUCKET)
    with pytest.raises(client.exceptions.ClientError, match="404"):
        client.head_object(Bucket=BUCKET, Key="files/01")
    with pytest.raises(client.exceptions.ClientError, match="404"):
        client.head_bucket(Bucket="another")


def test_what_it_does_not_know_is_refused(address: str) -> None:
    client = S3Endpoint(address).client()
    with pytest.raises(client.exceptions.ClientError, match="NotImplemented"):
        client.list_objects_v2(Bucket=BUCKET, Delimiter="/")
    with pytest.raises(client.exceptions.ClientError, match="NotImplemented"):
        client.get_object(Bucket=BUCKET, Key="files/01/")
    with pytest.raises(client.exceptions.ClientError, match="NotImplemented"):
        client.list_object_versions(Bucket=BUCKET)
