"""Where the bytes are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.objects.gate import Gate
    from filejobs_dagster.references.check import ReferenceCheck


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
    """

    bucket: str
    client: S3Client
    gate: Gate
    references: ReferenceCheck
    purge_versions: bool = False
    quarantine: bool = False
