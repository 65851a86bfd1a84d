"""What a run is given: its limits, and where the bytes are."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.objects.gate import Gate
    from filejobs_dagster.references.check import ReferenceCheck

DAY = timedelta(days=1)


@dataclass(frozen=True)
class BackOff:
    """The pause before a row is tried again.

    Up to half of it is left out by chance, so that rows do not move in step.

    Attributes:
        first: After the first attempt; each further one doubles it.
        longest: The cap.
        max_attempts: So many attempts make a dead letter.
    """

    first: timedelta = timedelta(minutes=1)
    longest: timedelta = timedelta(hours=6)
    max_attempts: int = 12


@dataclass(frozen=True)
class Request:
    """Limits of one run.

    Attributes:
        limit: Most rows to claim, and most to look at of each other kind.
        batch_size: Rows in one transaction, and objects in one DeleteObjects request.
        max_runtime: No further batch is begun after this.
        back_off: When a row is tried again, and how often.
        lease: How long a claim keeps other workers away; a longer pause loses it.
        writing_limit: A writer that is silent for longer is uncertain.
        settle_after: An uncertain upload whose object is not there is given this long, because a
            server may still carry out what it was asked for.
        look_again: Between two looks at a legal hold, and at what stays uncertain.
    """

    limit: int = 10_000
    batch_size: int = 100
    max_runtime: timedelta = timedelta(minutes=30)
    back_off: BackOff = field(default_factory=BackOff)
    lease: timedelta = timedelta(minutes=10)
    writing_limit: timedelta = 7 * DAY
    settle_after: timedelta = timedelta(hours=1)
    look_again: timedelta = DAY


@dataclass(frozen=True)
class Storage:
    """The bucket that holds the uploads' objects.

    Attributes:
        bucket: Its name.
        client: For looking; it deletes nothing.
        gate: The only way to delete.
        references: The gate's sources, which must all answer before anything is claimed.
        purge_versions: Whether older versions go with the current one.
        endpoint_url: The server's address, None for AWS; part of what an adoption is known by.
    """

    bucket: str
    client: S3Client
    gate: Gate
    references: ReferenceCheck
    purge_versions: bool = False
    endpoint_url: str | None = None
