"""multipart_uploads: aborts multipart uploads that nobody goes on with.

Their parts are bytes that no listing of objects shows, and that are paid for without end.

- Idle is measured by the newest part, never by the initiation: a slow upload that began a week ago
  is at work. What has no date is young.
- An upload whose key a source names stays: a row in `writing` is a client at work, whatever the
  dates say. Aborting is a deletion of bytes, so it passes the same gate as every other.
- An abort is believed when ListParts has nothing left, and repeated until then or until its tries
  are over. Parts that arrive later are found by the next run: by the listing, and by the ids in
  `upload` of rows that were cleaned lately, which no server can forget.
- No such upload means aborted or completed: the run looks at the key and says what it found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.collector import Collector, Examination, Storage
from filejobs_dagster.jobs.multipart_uploads.settings import (
    JOB,
    MultipartUploadsRun,
    MultipartUploadsSettings,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from filejobs_dagster.collector import Resources
    from filejobs_dagster.doctor.finding import Finding
    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.postgres.connect import Connection, Database
    from filejobs_dagster.run_context import RunContext
    from filejobs_dagster.settings import Settings

__all__ = ["COLLECTOR", "JOB", "MultipartUploadsRun", "Storage", "run"]


def run(context: RunContext, request: MultipartUploadsRun, storage: Storage) -> Outcome:
    """Abort, or in a dry run report, the idle multipart uploads of one bucket.

    Raises:
        JobFailed: Storage refused a whole request, the listing or a source could not be read, or
            the bucket is not this installation's. What was done before is written down.
        BucketUnavailable: The bucket cannot be reached; nothing was done.
    """
    from filejobs_dagster.jobs.multipart_uploads.sweep import Sweep  # noqa: PLC0415 (boto3)

    return Sweep(context, request, storage).run()


def _run(run_context: RunContext, request: MultipartUploadsRun, has: Resources) -> Outcome:
    with has.storage(run_context) as storage:
        return run(run_context, request, storage)


def _examine(settings: Settings, configured: MultipartUploadsSettings) -> Examination:
    entry, bucket = settings.bucket_of(JOB)

    def look(database: Database, connection: Connection | None) -> Iterable[Finding]:
        from filejobs_dagster.doctor.multipart_uploads import (  # noqa: PLC0415 (boto3)
            check_multipart_uploads,
        )

        del database, connection
        return check_multipart_uploads(configured, entry, bucket)

    return Examination(f"{JOB} {entry}", look, needs_database=False)


COLLECTOR = Collector(
    name=JOB,
    summary="Aborts multipart uploads that have been idle for too long.",
    touches=frozenset({"multipart uploads"}),
    settings=MultipartUploadsSettings,
    request=MultipartUploadsRun,
    run=_run,
    examine=_examine,
)
