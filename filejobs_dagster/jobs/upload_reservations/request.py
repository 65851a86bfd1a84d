"""What a run is given: its limits, and where the bytes are."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.objects.gate import Gate
    from filejobs_dagster.references.check import ReferenceCheck


@dataclass(frozen=True)
class Request:
    """Limits of one run.

    Attributes:
        limit: Most reservations to act on.
        batch_size: Reservations in one transaction, and objects in one DeleteObjects request.
        grace: How long after its expiry a reservation is still left alone.
        max_runtime: No further batch is begun after this.
        count_bytes: Ask storage for each object's size first; at most one request an object.
    """

    limit: int = 10_000
    batch_size: int = 500
    grace: timedelta = timedelta(0)
    max_runtime: timedelta = timedelta(minutes=30)
    count_bytes: bool = True


@dataclass(frozen=True)
class Storage:
    """The bucket that holds the reservations' objects.

    Attributes:
        bucket: Its name.
        client: For sizes; it deletes nothing.
        gate: The only way to delete.
        references: The gate's sources, which must all answer before anything is claimed.
    """

    bucket: str
    client: S3Client
    gate: Gate
    references: ReferenceCheck
