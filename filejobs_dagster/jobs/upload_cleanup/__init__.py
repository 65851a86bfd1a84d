"""upload_cleanup: removes the objects of cancelled uploads, and finds out about uncertain ones.

A row of `upload` in state `cleanup` names its key until the object is known to be gone, so nothing
is forgotten however often a worker dies:

- The claim is the write. It raises `attempts`, which is the fencing number: the gate lets the
  object go only while the row is in `cleanup` with that number, and so does every write of a
  result. A worker that was paused past its claim can neither delete nor report.
- Bytes, commit, row. The row is `cleaned` only once storage has said that the object is gone, or
  that another one stands under its key. Killed in between, the next run finds nothing there, which
  is success.
- Only what the row names goes: by exact key, by version where the row knows it, and only while the
  ETag is the one that was stored. Any other row that names the key keeps the object.
- A failure leaves the row for later, with a pause that grows, by the database's clock. After
  `max_attempts` it is a dead letter: nobody tries any more, and the standing says so.
- A writer that is silent for `writing_limit` is uncertain, never cancelled; what is uncertain is
  asked of storage. A lock or a hold makes a row `retained` until its date.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from filejobs_dagster.collector import Collector, EarlyStart
from filejobs_dagster.jobs.upload_cleanup.settings import (
    JOB,
    UploadCleanupRun,
    UploadCleanupSettings,
)

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.collector import Resources
    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.objects.gate import Gate
    from filejobs_dagster.postgres.connect import Connection, Database
    from filejobs_dagster.references.check import ReferenceCheck
    from filejobs_dagster.run_context import RunContext
    from filejobs_dagster.settings import Settings

__all__ = ["COLLECTOR", "JOB", "Storage", "UploadCleanupRun", "run"]

NO_USE_IN_TRYING_SOONER = timedelta(minutes=5)
"""After a run that failed, more of the same is no reason to start another; the schedule is."""


@dataclass(frozen=True)
class Storage:
    """The bucket that holds the uploads' objects.

    Attributes:
        bucket: Its name.
        client: For looking; it deletes nothing.
        gate: The only way to delete.
        references: The gate's sources, asked before each deletion.
        purge_versions: Whether older versions go with the current one.
    """

    bucket: str
    client: S3Client
    gate: Gate
    references: ReferenceCheck
    purge_versions: bool = False


def run(context: RunContext, request: UploadCleanupRun, storage: Storage) -> Outcome:
    """Clean up, or in a dry run report, the uploads that are due.

    Args:
        context: The run.
        request: Its limits.
        storage: Where the bytes are.

    Returns:
        The outcome: failed when every item failed.

    Raises:
        JobFailed: Storage rejected a batch, or a source of references could not be read.
        BucketUnavailable: The bucket cannot be reached; nothing was claimed.
        ReferencesUnknown: A source could not be read; nothing was claimed.
    """
    from filejobs_dagster.jobs.upload_cleanup.cleanup import Cleanup  # noqa: PLC0415 (boto3)

    return Cleanup(context, request, storage).run()


def _run(run_context: RunContext, request: UploadCleanupRun, has: Resources) -> Outcome:
    with has.storage(run_context) as at:
        storage = Storage(
            bucket=at.bucket.bucket,
            client=at.client,
            gate=at.gate,
            references=at.references,
            purge_versions=at.bucket.purge_versions,
        )
        return run(run_context, request, storage)


def _due(settings: Settings, configured: UploadCleanupSettings) -> EarlyStart:
    def why_not(database: Database, connection: Connection) -> str | None:
        from filejobs_dagster.jobs.upload_cleanup.claims import count_due  # noqa: PLC0415
        from filejobs_dagster.ledger.runs import newest_runs  # noqa: PLC0415

        with database.transaction(connection, read_only=True) as cursor:
            due = count_due(cursor, configured.writing_limit)
            recent = newest_runs(
                cursor, settings.installation, job=JOB, limit=1, since=NO_USE_IN_TRYING_SOONER
            )
        if not due.anything:
            return "Nothing is due."
        if recent and recent[0].outcome == "failed":
            return f"Run {recent[0].run_id} of {JOB} has just failed; {due} wait for a moment."
        return None

    return EarlyStart(
        suffix="due",
        every=timedelta(seconds=30),
        description=f"Starts {JOB} as soon as an upload is due: cancelled, uncertain, silent for "
        "too long, or retained until now. Only for a live job; never beside a run of it that is "
        "queued or running, and not within five minutes of a run that failed.",
        if_dry="A dry run would leave what is due as it is.",
        why_not=why_not,
    )


COLLECTOR = Collector(
    name=JOB,
    summary="Removes the objects of cancelled uploads.",
    touches=frozenset({"rows", "objects", "multipart uploads"}),
    partitioned=True,
    settings=UploadCleanupSettings,
    request=UploadCleanupRun,
    run=_run,
    names_versions=True,
    privileges=(("upload", "UPDATE"),),
    due=_due,
)
