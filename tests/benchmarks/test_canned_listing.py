"""The canned listing is exact: a measurement of a wrong listing would measure nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.canned_listing import BUCKET, Keys
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
