"""The list of a run, written where the settings say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.jobs.storage_orphans.classification.words import (
    AMBIGUOUS,
    NAMED_ELSEWHERE,
    ORPHAN,
)
from filejobs_dagster.jobs.storage_orphans.listed_csv import (
    KEEP,
    REMOVE,
    Heading,
    Line,
    ListWriter,
)
from filejobs_dagster.jobs.storage_orphans.marks import etag_text, in_statements
from filejobs_dagster.jobs.storage_orphans.places import written_list
from filejobs_dagster.jobs.storage_orphans.tables import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.jobs.storage_orphans.classification import (
        Classification,
        Kept,
        Orphan,
    )
    from filejobs_dagster.jobs.storage_orphans.marks import Marks
    from filejobs_dagster.jobs.storage_orphans.settings import ReportSettings


_SAID = {AMBIGUOUS: "a row says ", NAMED_ELSEWHERE: "a row names it in "}


def write_report(
    place: ReportSettings,
    heading: Heading,
    found: Classification,
    marks: Marks,
    scratch: Path,
    client: S3Client,
) -> str:
    """Write every orphan, and everything that is kept and that a person should look at.

    Args:
        place: Where it goes.
        heading: Whose list it is.
        found: The pass.
        marks: For since when each orphan has been seen.
        scratch: A private folder.
        client: Of the bucket.

    Returns:
        Where it stands.

    Raises:
        JobFailed: It could not be written.
    """
    name = f"storage_orphans-{heading.written_at:%Y%m%dT%H%M%SZ}-{heading.run_id[:8]}.csv"
    with written_list(place, name, scratch, client, heading.bucket) as (file, where):
        writer = ListWriter(file, heading)
        for portion in in_statements(found.orphans()):
            seen = marks.first_seen([orphan.key for orphan in portion])
            writer.write(_orphans(portion, seen))
        for kept in found.kept():
            writer.write(_kept(kept))
    return where


def _orphans(orphans: list[Orphan], seen: Mapping[bytes, datetime]) -> Iterator[Line]:
    for orphan in orphans:
        yield Line(
            decision=REMOVE,
            key=orphan.key,
            size=orphan.size,
            modified=orphan.modified,
            etag=etag_text(orphan.etag),
            of_class=ORPHAN,
            reason="nothing refers to it",
            first_seen=seen.get(orphan.key),
        )


def _kept(objects: list[Kept]) -> Iterator[Line]:
    for one in objects:
        because = shown(one.because)
        yield Line(
            decision=KEEP,
            key=one.key,
            size=one.size,
            modified=one.modified,
            etag="",
            of_class=one.kind,
            reason=_SAID.get(one.kind, "") + because,
        )
