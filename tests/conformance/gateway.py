"""Using the gateway: our clients on it, and what is really in a bucket."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

from filejobs_dagster.objects.client import make_client
from tests.conformance.ceph import GUEST
from tests.objects.buckets import BucketForTests, Revealed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mypy_boto3_s3 import S3Client

    from tests.conformance.ceph import Account

THREADS = 8


def client_of(endpoint_url: str, account: Account, *, content_md5: bool = False) -> S3Client:
    """The client that the jobs would make for this user; it tries each request once."""
    return make_client(
        BucketForTests(
            endpoint_url=endpoint_url,
            access_key_id=Revealed(account.access_key_id),
            secret_access_key=Revealed(account.secret_access_key),
            content_md5=content_md5,
        )
    )


def put(client: S3Client, bucket: str, keys: Iterable[str], body: bytes = b"bytes") -> None:
    """Write one object for each key."""
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda key: client.put_object(Bucket=bucket, Key=key, Body=body), keys))


def listed(client: S3Client, bucket: str) -> list[str]:
    """All keys in the order of the listing, which spells them so that XML can carry each."""
    keys: list[str] = []
    more: dict[str, Any] = {"EncodingType": "url"}
    while more:
        # Asked for by name, botocore leaves the decoding to the caller.
        page = client.list_objects_v2(Bucket=bucket, **more)
        keys += [unquote_plus(entry["Key"]) for entry in page.get("Contents", [])]
        token = page.get("NextContinuationToken")
        more = {"EncodingType": "url", "ContinuationToken": token} if token else {}
    return keys


@dataclass(frozen=True)
class Versions:
    """Everything that a bucket with versions holds.

    Attributes:
        kept: Key and version of every version that has bytes.
        marked: The keys of all delete markers, one entry for each.
    """

    kept: frozenset[tuple[str, str]]
    marked: Sequence[str]


def versions(client: S3Client, bucket: str) -> Versions:
    """List a bucket of fewer than a thousand versions."""
    answer = client.list_object_versions(Bucket=bucket)
    assert not answer["IsTruncated"]
    return Versions(
        frozenset((entry["Key"], entry["VersionId"]) for entry in answer.get("Versions", [])),
        sorted(entry["Key"] for entry in answer.get("DeleteMarkers", [])),
    )


def statement(bucket: str, effect: str, actions: Sequence[str], below: Sequence[str]) -> Any:
    """Part of a policy, about the guest.

    Args:
        bucket: Its name.
        effect: `Allow` or `Deny`.
        actions: Without `s3:`.
        below: What follows the bucket's name: nothing for the bucket itself, `/*` for all objects.
    """
    return {
        "Effect": effect,
        "Principal": {"AWS": [f"arn:aws:iam:::user/{GUEST.name}"]},
        "Action": [f"s3:{action}" for action in actions],
        "Resource": [f"arn:aws:s3:::{bucket}{rest}" for rest in below],
    }


def set_policy(client: S3Client, bucket: str, *statements: Any) -> None:
    """Let the bucket's owner decide what the guest may do."""
    policy = {"Version": "2012-10-17", "Statement": list(statements)}
    client.put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy))
