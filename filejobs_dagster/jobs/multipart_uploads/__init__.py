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

from filejobs_dagster.jobs.multipart_uploads.bookkeeping import JOB
from filejobs_dagster.jobs.multipart_uploads.request import Request
from filejobs_dagster.jobs.multipart_uploads.sweep import Sweep
from filejobs_dagster.jobs.storage_orphans.request import Storage

if TYPE_CHECKING:
    from filejobs_dagster.jobs.context import RunContext
    from filejobs_dagster.ledger.outcome import Outcome

__all__ = ["JOB", "Request", "Storage", "run"]


def run(context: RunContext, request: Request, storage: Storage) -> Outcome:
    """Abort, or in a dry run report, the idle multipart uploads of one bucket.

    Raises:
        JobFailed: Storage refused a whole request, the listing or a source could not be read, or
            the bucket is not this installation's. What was done before is written down.
        BucketUnavailable: The bucket cannot be reached; nothing was done.
    """
    return Sweep(context, request, storage).run()
