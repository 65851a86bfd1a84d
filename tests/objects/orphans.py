"""Orphans as a listing would have seen them, and gates that may remove them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenacity import wait_none

from filejobs_dagster.objects.adaptive_rate import AdaptiveRate
from filejobs_dagster.objects.gate import Gate
from filejobs_dagster.objects.targets import Expected
from filejobs_dagster.references.check import ReferenceCheck
from tests.objects.buckets import BucketForTests

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg
    from mypy_boto3_s3 import S3Client

    from tests.references.sources import SourceForTests


def no_proof_needed() -> None:
    """The caller's lock is not what the test looks at."""


def seen(client: S3Client, bucket: str, key: str, *, owners: tuple[str, ...] = ()) -> Expected:
    """An object as it is now."""
    it = client.head_object(Bucket=bucket, Key=key)
    return Expected(
        key=key.encode(),
        etag=it["ETag"].strip('"'),
        size=it["ContentLength"],
        modified=int(it["LastModified"].timestamp() * 1000),
        owners=owners,
    )


def put(client: S3Client, bucket: str, *keys: str, body: bytes = b"bytes") -> list[Expected]:
    """Write objects, and return them as they are then."""
    for key in keys:
        client.put_object(Bucket=bucket, Key=key, Body=body)
    return [seen(client, bucket, key) for key in keys]


def gate_on(
    client: S3Client,
    connection: psycopg.Connection,
    bucket: str,
    *,
    sources: Sequence[SourceForTests] = (),
    owns: Sequence[str] = ("files/",),
    owns_whole_bucket: bool = False,
    protect: Sequence[str] = (),
    pace: AdaptiveRate | None = None,
) -> Gate:
    settings = BucketForTests(
        endpoint_url=None,
        bucket=bucket,
        owns=owns,
        owns_whole_bucket=owns_whole_bucket,
        protect=protect,
    )
    # Nobody waits: the pauses of a throttled pace are not what these tests look at.
    return Gate(
        client,
        settings,
        ReferenceCheck(connection, sources),
        wait=wait_none(),
        pace=pace or AdaptiveRate(sleep=lambda _seconds: None),
    )


def keys_of(client: S3Client, bucket: str) -> set[str]:
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return {entry["Key"] for page in pages for entry in page.get("Contents", [])}


def versions_in(client: S3Client, bucket: str) -> list[tuple[str, str]]:
    """Key and version of everything that has bytes."""
    answer = client.list_object_versions(Bucket=bucket)
    return sorted((it["Key"], it["VersionId"]) for it in answer.get("Versions", []))


def markers_in(client: S3Client, bucket: str) -> list[str]:
    answer = client.list_object_versions(Bucket=bucket)
    return sorted(it["Key"] for it in answer.get("DeleteMarkers", []))
