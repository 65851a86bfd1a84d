"""The listing on a real gateway: every odd key, in order, through tokens, bounds and threads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from filejobs_dagster.objects.listing import Part, list_objects, workers
from filejobs_dagster.objects.listing.ask import Asker
from filejobs_dagster.objects.listing.part import PartReader, Reader
from filejobs_dagster.streams import Scratch
from tests.conformance.ceph import OWNER, Ceph
from tests.conformance.gateway import client_of, put
from tests.objects.listing.bucket import keys_of
from tests.objects.listing.odd import BELOW

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

pytestmark = pytest.mark.conformance

ENCODED = [key.encode() for key in BELOW]
PAGE = 7


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Scratch]:
    with Scratch(tmp_path) as opened:
        yield opened


@pytest.fixture(scope="module")
def client_of_small_pages(ceph: Ceph) -> S3Client:
    """As our client, but for pages of a few keys, so that tokens stand at many places."""
    client = client_of(ceph.endpoint_url, OWNER)

    def few(params: dict[str, Any], **_event: object) -> dict[str, Any]:
        return {**params, "MaxKeys": PAGE}

    # The stubs do not know that this event takes what its handlers return.
    client.meta.events.register("provide-client-params.s3.ListObjectsV2", few)  # type: ignore[arg-type]
    return client


@pytest.fixture(scope="module")
def odd_bucket(ceph: Ceph) -> str:
    """A bucket with every odd key. Only listed, and so shared."""
    client, name = client_of(ceph.endpoint_url, OWNER), "test-listing-of-odd-keys"
    client.create_bucket(Bucket=name)
    put(client, name, [*BELOW, "other/x"])
    return name


def read(reader: PartReader) -> list[bytes]:
    return [key for page in reader.ordered_pages() for key in page.keys]


def test_every_odd_key_is_listed_exactly_and_in_the_order_of_bytes(
    owner: S3Client, odd_bucket: str, scratch: Scratch
) -> None:
    listed = list_objects(owner, odd_bucket, ["files/"], parts=1, scratch=scratch)
    assert keys_of(listed) == ENCODED
    assert listed.ordered_by_server, "it lists in the order of UTF-8, not of UTF-16"
    assert listed.bytes == 5 * len(ENCODED)
    assert listed.server_date is not None
    [page] = listed.pages()
    head = owner.head_object(Bucket=odd_bucket, Key=BELOW[0])
    assert page.etags[0].decode() == head["ETag"].strip('"')
    assert page.modified[0] // 1000 == int(head["LastModified"].timestamp())


@pytest.mark.parametrize("parts", [1, 4])
def test_pages_parts_and_tokens_at_odd_keys_lose_and_repeat_nothing(
    client_of_small_pages: S3Client,
    odd_bucket: str,
    scratch: Scratch,
    parts: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workers, "PAGES_BEFORE_SPLIT", 1)
    monkeypatch.setattr(workers, "SECONDS_BETWEEN_LOOKS", 0.001)
    listed = list_objects(
        client_of_small_pages, odd_bucket, ["files/"], parts=parts, scratch=scratch
    )
    assert keys_of(listed) == ENCODED
    assert listed.ordered_by_server
    assert (listed.parts > 1) == (parts > 1)


def test_a_page_ends_at_every_odd_key_and_the_next_begins_right_behind_it(
    owner: S3Client, odd_bucket: str
) -> None:
    """Ceph's token is the key itself, with control characters that no XML may hold."""
    asker = Asker(owner, odd_bucket)
    keys: list[bytes] = []
    reader, token, more = Reader(asker), None, True
    while more:
        answer = asker.ask(b"files/", token=token, limit=1)
        keys += reader._keys(answer, b"files/")
        token, more = answer.token, answer.truncated
    assert keys == ENCODED


def test_every_odd_key_can_be_a_bound(owner: S3Client, odd_bucket: str) -> None:
    reader = Reader(Asker(owner, odd_bucket))
    for at in range(0, len(ENCODED), 6):
        bound = ENCODED[at]
        left = read(PartReader(Part("files/", through=bound), reader))
        right = read(PartReader(Part("files/", after=bound), reader))
        assert (left, right) == (ENCODED[: at + 1], ENCODED[at + 1 :]), bound


def test_a_whole_bucket_and_an_odd_prefix_are_listed(
    owner: S3Client, odd_bucket: str, scratch: Scratch
) -> None:
    whole = list_objects(owner, odd_bucket, [""], parts=2, scratch=scratch)
    assert keys_of(whole) == [*ENCODED, b"other/x"]
    prefixes = ["files/a b", "files/a+", "files/\U0001f642", "files/7/", "files/%"]
    listed = list_objects(owner, odd_bucket, prefixes, parts=2, scratch=scratch)
    wanted = tuple(prefix.encode() for prefix in prefixes)
    assert keys_of(listed) == [key for key in ENCODED if key.startswith(wanted)]
