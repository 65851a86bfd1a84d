"""The script that most people write first to find orphans: a set of all rows, boto3's paginator.

It is what is compared with, and is not safe: rows are read before the objects, so that an upload
in between looks like an orphan; keys are compared as text; nothing notices a listing that ends
early, an object that is too young, or a key that was written in another way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


def find_orphans(
    database_url: str, client: S3Client, bucket: str, prefix: str
) -> tuple[int, list[str]]:
    """Return how many objects there are, and the keys that no row has."""
    with psycopg.connect(database_url) as connection:
        rows = connection.execute("SELECT storage_key FROM file")
        referenced = {key for (key,) in rows}
    objects = 0
    orphans: list[str] = []
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for entry in page.get("Contents", []):
            objects += 1
            if entry["Key"] not in referenced:
                orphans.append(entry["Key"])
    return objects, orphans
