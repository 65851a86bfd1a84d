"""What a run is given: its limits, where the bytes are, and what it may pass over."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING

from filejobs_dagster.settings.orphans import BreakersSettings

if TYPE_CHECKING:
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.jobs.storage_orphans.breakers import Limits
    from filejobs_dagster.objects.gate import Gate
    from filejobs_dagster.references.check import ReferenceCheck
    from filejobs_dagster.settings.storage import BucketSettings

OLDEST_LIST = timedelta(days=14)
"""A reviewed list older than this says nothing about today."""


@dataclass(frozen=True)
class Override:
    """Breakers that this one run may pass over.

    Attributes:
        breakers: Their names.
        reason: Why, for the record.
    """

    breakers: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class ReportPlace:
    """Where the list of a run goes; exactly one of the two.

    Attributes:
        folder: A folder of this machine.
        prefix: A prefix of the bucket, outside of everything owned.
    """

    folder: Path | None = None
    prefix: str | None = None


@dataclass(frozen=True)
class Request:
    """Limits of one run.

    Attributes:
        limit: Most orphans to delete.
        batch_size: Objects in one delete request, at most 1000.
        max_runtime: No further batch is begun after this, and a listing is given up.
        confirm_after: How long ago an earlier run must have seen an orphan.
        parts: Parts of the bucket that are listed side by side.
        wait_for_transactions: How long a batch waits for older transactions.
        breakers: From which numbers on the pass is not believed.
        override: Breakers that this run may pass over.
        report_to: Where its list goes, or None.
        reviewed: A reviewed list: only what stands there as `remove` may be deleted.
        scratch: Where long lists of keys are sorted; None for the system's temporary folder.
    """

    limit: int = 100_000
    batch_size: int = 1000
    max_runtime: timedelta = timedelta(hours=6)
    confirm_after: timedelta = timedelta(hours=24)
    parts: int = 8
    wait_for_transactions: timedelta = timedelta(seconds=60)
    breakers: Limits = field(default_factory=BreakersSettings)
    override: Override = Override()
    report_to: ReportPlace | None = None
    reviewed: str | None = None
    scratch: Path | None = None


@dataclass(frozen=True)
class Storage:
    """The bucket that is swept.

    Attributes:
        entry: Its name in the settings.
        bucket: What the settings say of it.
        client: Lists, and writes the report; it deletes nothing.
        gate: The only way to delete.
        references: The gate's sources, which must all answer before anything is listed.
    """

    entry: str
    bucket: BucketSettings
    client: S3Client
    gate: Gate
    references: ReferenceCheck
