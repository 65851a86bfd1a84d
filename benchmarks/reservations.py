"""The data: expired reservations, and their objects."""

from __future__ import annotations

import hashlib
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING

import psycopg

from benchmarks.canned_process import CannedS3Process
from filejobs_dagster.settings import BucketSettings

if TYPE_CHECKING:
    from filejobs_dagster.embedded.s3 import S3Endpoint

BUCKET = "uploads"
PREFIX = "files/"
THREADS = 8

# Keys as an application makes them: nothing of their order is that of the expiry.
_RESERVE = """
INSERT INTO file (id, storage_key, upload_expires_at)
SELECT id, %(prefix)s || id, now() - interval '1 day' + n * interval '10 milliseconds'
  FROM (SELECT n, md5(%(seed)s || n::text)::uuid AS id
          FROM generate_series(1, %(count)s) AS n) AS made
"""


def reserve(database_url: str, count: int, *, seed: str = "benchmark") -> None:
    """Insert expired reservations; the same count and seed give the same rows."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(_RESERVE, {"prefix": PREFIX, "count": count, "seed": seed})
        connection.execute("VACUUM ANALYZE file")


def keys(database_url: str) -> list[str]:
    """The key of every row, in the order of expiry."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        rows = connection.execute("SELECT storage_key FROM file ORDER BY upload_expires_at, id")
        return [row[0] for row in rows]


def other_keys(count: int) -> list[str]:
    """Keys of files that are no reservations, scattered as theirs are."""
    return [f"{PREFIX}{uuid.UUID(int=_scattered(number))}" for number in range(count)]


def _scattered(number: int) -> int:
    """A number of 128 bits that looks like chance and is the same each time."""
    return int.from_bytes(hashlib.sha256(str(number).encode()).digest()[:16], "big")


def rows_left(database_url: str) -> int:
    """How many rows the table has."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        row = connection.execute("SELECT count(*) FROM file").fetchone()
        return 0 if row is None else int(row[0])


def store(server: S3Endpoint, bucket: str, wanted: list[str]) -> None:
    """Make a bucket with an object of each key."""
    client = server.client()
    client.create_bucket(Bucket=bucket)
    if isinstance(server, CannedS3Process):
        if wanted:
            server.load(bucket, wanted)
        return
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda key: client.put_object(Bucket=bucket, Key=key, Body=b"x"), wanted))


def objects_left(server: S3Endpoint, bucket: str) -> int:
    """How many objects the bucket has."""
    pages = server.client().get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return sum(len(page.get("Contents", [])) for page in pages)


def bucket_settings(server: S3Endpoint, bucket: str) -> BucketSettings:
    """The bucket as `filejobs.yaml` would describe it; credentials come from the environment."""
    return BucketSettings(
        bucket=bucket,
        endpoint_url=server.endpoint_url,
        owns=[PREFIX],
        min_age=timedelta(hours=48),
        addressing="path",
    )
