"""What stands under the keys of uploads, before anything is decided about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote

from filejobs_dagster.jobs.upload_cleanup.detail import (
    ALREADY_GONE,
    NEVER_ARRIVED,
    SUPERSEDED,
    UNSEEN,
)
from filejobs_dagster.objects.finding import Present
from filejobs_dagster.objects.heads import Absent, look_at_targets, require_bucket
from filejobs_dagster.objects.identity import Seen, compare, found, milliseconds
from filejobs_dagster.objects.targets import Expected, Target

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.book.outcomes import Locked
    from filejobs_dagster.jobs.upload_cleanup.claims import Upload


@dataclass
class Findings:
    """What is known of some rows; each stands in one of the four.

    Attributes:
        outcomes: Done, with the outcome.
        locked: Kept by a lock or a hold.
        failures: To be left for later, with the reason.
        kept: What the gate did not let go, with the reason.
        sizes: Bytes of the rows' objects, by row, where storage said them.
        twins: Keys whose percent-decoded form has an object, while they have none.
        freed: Bytes that are gone.
    """

    outcomes: list[tuple[Upload, str]] = field(default_factory=list)
    locked: list[tuple[Upload, Locked]] = field(default_factory=list)
    failures: list[tuple[Upload, str]] = field(default_factory=list)
    kept: list[tuple[Upload, str]] = field(default_factory=list)
    sizes: dict[UUID, int] = field(default_factory=dict)
    twins: list[str] = field(default_factory=list)
    freed: int = 0

    def known(self) -> set[UUID]:
        """The rows of which something is known."""
        return {
            row.id
            for group in (self.outcomes, self.locked, self.failures, self.kept)
            for row, _ in group
        }


def look(
    client: S3Client, bucket: str, rows: Sequence[Upload], findings: Findings
) -> list[tuple[Upload, Expected]]:
    """Look at the object of each row (HEAD), and return those that may go, as they were seen.

    Of every other row it is noted why not: no object, another object, a lock, no answer.

    Raises:
        StorageRejected: No request can succeed, so nothing can be concluded.
    """
    targets = {Target(row.key, row.version): row for row in rows}
    seen = look_at_targets(client, bucket, list(targets))
    ready: list[tuple[Upload, Expected]] = []
    absent: list[Upload] = []
    for target, sighting in seen.items():
        row = targets[target]
        if isinstance(sighting, Absent):
            absent.append(row)
            continue
        if not isinstance(sighting, Present):
            findings.failures.append((row, f"{UNSEEN}: {sighting}"))
            continue
        same = compare(
            Seen(row.etag, row.size, version=row.version),
            found(sighting, sighting.version),
            only_one=True,
        )
        if same.word == "another":
            findings.outcomes.append((row, SUPERSEDED))
        elif same.word == "undecided":
            findings.failures.append((row, same.why))
        elif sighting.lock is not None:
            findings.locked.append((row, sighting.lock))
            findings.sizes[row.id] = sighting.size
        else:
            ready.append((row, _expected(row, sighting)))
            findings.sizes[row.id] = sighting.size
    if absent:
        require_bucket(client, bucket)
        findings.outcomes += [
            (row, ALREADY_GONE if row.stored else NEVER_ARRIVED) for row in absent
        ]
        findings.twins += _twins(client, bucket, [row.key for row in absent])
    return ready


def _expected(row: Upload, seen: Present) -> Expected:
    modified = -1 if seen.modified is None else milliseconds(seen.modified)
    return Expected(
        row.key.encode(),
        seen.etag,
        seen.size,
        modified,
        version=row.version,
        seen_as=seen.version,
    )


def _twins(client: S3Client, bucket: str, keys: Sequence[str]) -> list[str]:
    """Keys that were perhaps stored decoded: their object would be there under another name."""
    decoded = {unquote(key): key for key in keys if unquote(key) != key}
    if not decoded:
        return []
    seen = look_at_targets(client, bucket, [Target(key) for key in decoded])
    return [target.key for target, sighting in seen.items() if isinstance(sighting, Present)]
