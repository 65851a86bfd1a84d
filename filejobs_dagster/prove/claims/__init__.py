"""The claims, in the order in which they are shown. A later claim is one more entry here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.prove.claims import (
    asynchronous_commits,
    audit_edited,
    audit_fork,
    bytes_before_commit,
    completed_upload,
    dry_runs,
    half_a_source,
    half_old_partition,
    jumping_clock,
    never_run,
    null_counts,
    object_replaced,
    one_record,
    orphan_referenced,
    publish_or_cancel,
    restored_database,
    restored_file,
    slow_multipart,
)

if TYPE_CHECKING:
    from filejobs_dagster.prove.evidence import Claim

CLAIMS: list[Claim] = [
    completed_upload.CLAIM,
    bytes_before_commit.CLAIM,
    asynchronous_commits.CLAIM,
    dry_runs.CLAIM,
    never_run.CLAIM,
    null_counts.CLAIM,
    one_record.CLAIM,
    audit_fork.CLAIM,
    audit_edited.CLAIM,
    orphan_referenced.CLAIM,
    half_a_source.CLAIM,
    publish_or_cancel.CLAIM,
    object_replaced.CLAIM,
    slow_multipart.CLAIM,
    restored_file.CLAIM,
    half_old_partition.CLAIM,
    restored_database.CLAIM,
    jumping_clock.CLAIM,
]
