"""Batches of every size, and what a batch that is refused costs."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING

import pytest

from tests.conformance.ceph import OWNER, Ceph
from tests.conformance.gateway import client_of, listed, put
from tests.objects.deleting import delete_objects
from tests.objects.grouped import Deletion

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest
    from mypy_boto3_s3 import S3Client

pytestmark = pytest.mark.conformance


@pytest.mark.parametrize(("count", "requests"), [(1, 1), (1000, 1), (1001, 2), (2500, 3)])
def test_objects_go_a_thousand_at_a_time_and_nothing_else_goes(
    owner: S3Client, bucket: str, count: int, requests: int
) -> None:
    keys = [f"files/{n:04}" for n in range(count)]
    put(owner, bucket, [*keys, "files/stays", "other/stays"])
    asked: list[None] = []

    deletion = delete_objects(owner, bucket, keys, before_request=lambda: asked.append(None))

    assert deletion == Deletion(deleted=tuple(keys))
    assert listed(owner, bucket) == ["files/stays", "other/stays"]
    assert len(asked) == requests


def test_a_key_without_an_object_counts_as_deleted(owner: S3Client, bucket: str) -> None:
    keys = ("files/never", "files/never\n")
    assert delete_objects(owner, bucket, keys) == Deletion(deleted=keys)


def test_a_key_longer_than_any_may_be_spoils_nothing_for_the_others(
    owner: S3Client, bucket: str
) -> None:
    put(owner, bucket, ["files/a", "files/b", "files/stays"])
    deletion = delete_objects(owner, bucket, ["files/a", "files/" + "k" * 1019, "files/b"])
    assert {"files/a", "files/b"} <= set(deletion.deleted)
    assert listed(owner, bucket) == ["files/stays"]


def test_content_md5_stands_in_for_the_newer_checksums(ceph: Ceph, bucket: str) -> None:
    client = client_of(ceph.endpoint_url, OWNER, content_md5=True)
    sent: list[AWSPreparedRequest] = []
    client.meta.events.register(
        "before-send.s3.DeleteObjects", lambda request, **_: sent.append(request)
    )
    keys = ("files/a", "files/caf\u00e9", "files/a&b")
    put(client, bucket, [*keys, "files/stays"])

    assert delete_objects(client, bucket, keys) == Deletion(deleted=keys)

    assert listed(client, bucket) == ["files/stays"]
    [request] = sent
    names = {name.lower() for name in request.headers}
    assert not any(name.startswith("x-amz-checksum") for name in names)
    # Ceph 16 reads the signature, which covers the header, and not the checksum: this test does.
    assert isinstance(request.body, bytes)
    digest = hashlib.md5(request.body, usedforsecurity=False).digest()
    assert request.headers["Content-MD5"] == base64.b64encode(digest)
    assert b"content-md5" in request.headers["Authorization"]
