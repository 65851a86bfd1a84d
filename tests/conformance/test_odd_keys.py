"""Keys that look alike are different keys: deleting one keeps every twin."""

from __future__ import annotations

import sys
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError

from filejobs_dagster.objects.finding import faster_client
from filejobs_dagster.objects.heads import look_at_targets
from filejobs_dagster.objects.targets import Target, needs_single_delete
from tests.conformance.ceph import OWNER, Ceph
from tests.conformance.gateway import client_of, listed, put
from tests.objects.deleting import delete_objects
from tests.objects.grouped import Deletion
from tests.objects.odd_keys import ODD_KEYS

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

pytestmark = pytest.mark.conformance

# The embedded server knows none of the first few; the others are what a careless reader of the
# odd ones would take them for.
KEYS = [
    *ODD_KEYS,
    "files/new\nline",
    "files/new\rline",
    "files/new\r\nline",
    "files/new line",
    "files/newline",
    "files/new\n",
    "files/new",
    "files/a\ufffeb",
    "files/return\nhere",
    "files/tab here",
    "files/tab%09here",
    "files/trailing",
    "files/trailing  ",
    "files/leading",
    "files/a%252Fb",
    "files/a%2fb",
    "files/A b",
    "files/CAF\u00c9",
    "files/b",
    "files",
    "files/",
    "/files//a",
    "files/%01",
    "files/&amp;<>\"'",
    "files/" + "k" * 1017,
    "files/" + "\u00e9" * 509,
]


def test_the_listing_holds_every_key_once_in_the_order_of_its_bytes(
    owner: S3Client, bucket: str
) -> None:
    put(owner, bucket, KEYS)
    assert len(set(KEYS)) == len(KEYS)
    assert listed(owner, bucket) == sorted(KEYS, key=lambda key: key.encode())


@pytest.mark.parametrize("key", KEYS, ids=lambda key: ascii(key)[1:40])
def test_a_key_is_deleted_and_its_twins_stay(owner: S3Client, bucket: str, key: str) -> None:
    put(owner, bucket, KEYS)
    assert delete_objects(owner, bucket, [key]) == Deletion(deleted=(key,))
    assert set(listed(owner, bucket)) == set(KEYS) - {key}


def test_all_of_them_go_in_one_call_and_their_neighbour_stays(owner: S3Client, bucket: str) -> None:
    put(owner, bucket, [*KEYS, "files/stays"])
    deletion = delete_objects(owner, bucket, KEYS)
    assert set(deletion.deleted) == set(KEYS)
    assert deletion == Deletion(deleted=deletion.deleted)
    assert listed(owner, bucket) == ["files/stays"]


def test_a_key_that_no_server_can_have_fails_alone(owner: S3Client, bucket: str) -> None:
    put(owner, bucket, ["files/a", "files/b"])
    deletion = delete_objects(owner, bucket, ["files/a", "files/\x00", "", "files/\udc80"])
    assert deletion.deleted == ("files/a",)
    assert set(deletion.failed) == {"files/\x00", "", "files/\udc80"}
    assert listed(owner, bucket) == ["files/b"]


@pytest.mark.parametrize("key", ["files/\x01", "files/a\ufffeb"], ids=ascii)
def test_one_key_that_xml_cannot_carry_spoils_a_careless_batch_control(
    owner: S3Client, bucket: str, key: str
) -> None:
    put(owner, bucket, ["files/a", key])
    objects = [{"Key": "files/a"}, {"Key": key}]
    with pytest.raises(ClientError, match="400"):
        owner.delete_objects(Bucket=bucket, Delete={"Objects": objects})  # type: ignore[typeddict-item]
    assert set(listed(owner, bucket)) == {"files/a", key}
    assert needs_single_delete(key)


def test_an_unescaped_return_deletes_the_object_of_another_name_control(
    ceph: Ceph, bucket: str
) -> None:
    careless = client_of(ceph.endpoint_url, OWNER)

    def leave_unescaped(request: Any, **_: Any) -> None:
        request.data = request.data.replace(b"&#xD;", b"\r")

    careless.meta.events.register_first("before-sign.s3.DeleteObjects", leave_unescaped)
    put(careless, bucket, ["files/a\rb", "files/a\nb"])

    answer = careless.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "files/a\rb"}]})

    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 200
    assert not answer.get("Errors")
    assert listed(careless, bucket) == ["files/a\rb"], "the other one, which nobody named, is gone"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the faster client needs Python 3.11")
@pytest.mark.parametrize("server", ["ceph", "seaweedfs"])
def test_the_faster_client_sees_of_each_key_what_botocore_sees(
    server: str, request: pytest.FixtureRequest
) -> None:
    client = client_of(request.getfixturevalue(server).endpoint_url, OWNER)
    name = f"test-{uuid.uuid4().hex}"
    client.create_bucket(Bucket=name)
    # SeaweedFS takes some of the odd ones for others: whoever is written last is there.
    plain = [f"files/{number:03} + %20 é.txt" for number in range(60)]
    kept = [*KEYS, *plain] if server == "ceph" else plain
    put(client, name, kept)
    faster = faster_client(client, name)
    assert faster is not None
    found = faster.found([*kept, "files/absent"])
    assert set(plain) <= set(found)
    seen = look_at_targets(client, name, [Target(key) for key in found])
    assert found == {key: seen[Target(key)] for key in found}
