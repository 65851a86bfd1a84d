"""Asks which objects are there, and how large they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.objects.found_by_listing import Found, found_by_listing
from filejobs_dagster.objects.heads import THREADS, Absent, ask_each, require_bucket
from filejobs_dagster.objects.targets import Target

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import HeadObjectOutputTypeDef

    from filejobs_dagster.objects.errors import StorageError

__all__ = ["Found", "measure"]


def measure(
    client: S3Client, bucket: str, keys: Sequence[str], *, threads: int = THREADS
) -> dict[str, Found | StorageError | None]:
    """Ask for each key whether its object is there: by listing where that pays, else by HEAD.

    That an object is absent is only ever said by a HEAD of that key.

    Returns:
        For each key the object, None when there is none, or why storage would not say. A key that
        is absent and a key that must not be read look alike to S3 when the right to list is
        missing: then the answer is an error, never None.

    Raises:
        StorageRejected: No request can succeed: credentials, connection, or no such bucket.
    """
    measured: dict[str, Found | StorageError | None] = {**found_by_listing(client, bucket, keys)}
    others = [Target(key) for key in keys if key not in measured]
    for target, sighting in ask_each(client, bucket, others, _found, threads=threads).items():
        measured[target.key] = None if isinstance(sighting, Absent) else sighting
    if None in measured.values():
        require_bucket(client, bucket)
    return measured


def _found(answer: HeadObjectOutputTypeDef) -> Found:
    return Found(size=answer.get("ContentLength", 0), etag=answer.get("ETag", ""))
