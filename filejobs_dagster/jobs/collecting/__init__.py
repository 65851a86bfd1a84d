"""What collectors of rows with bytes have in common: candidates, claims, bytes, and the books.

A collector reads candidates oldest first, claims them in batches by a write that repeats every
predicate, and lets their bytes go through the gate once the claim is committed. `Collection` is
that run, `Removal` the bytes, `Bookkeeping` what is written down, `Totals` the numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.objects.gate import Gate
    from filejobs_dagster.references.check import ReferenceCheck
    from filejobs_dagster.settings.storage import BucketSettings


# Where the bytes are.


@dataclass(frozen=True)
class Storage:
    """The bucket that holds the objects of the rows.

    Attributes:
        bucket: Its name.
        client: For sizes; it deletes nothing.
        gate: The only way to delete.
        references: The gate's sources, asked before each deletion.
        purge_versions: Whether all versions of an object go, where the bucket keeps some.
        quarantine: Whether its bytes can be brought back for a while.
        settings: Of the bucket: by them candidates of declared tables are looked for in all columns
            (`named_elsewhere`); None looks nowhere.
    """

    bucket: str
    client: S3Client
    gate: Gate
    references: ReferenceCheck
    purge_versions: bool = False
    quarantine: bool = False
    settings: BucketSettings | None = None
