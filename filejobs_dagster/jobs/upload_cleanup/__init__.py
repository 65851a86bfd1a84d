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

from typing import TYPE_CHECKING

from filejobs_dagster.jobs.upload_cleanup.bookkeeping import JOB
from filejobs_dagster.jobs.upload_cleanup.cleanup import Cleanup
from filejobs_dagster.jobs.upload_cleanup.dead_letters import (
    DeadLetter,
    dead_letters,
    retry_dead_letters,
)
from filejobs_dagster.jobs.upload_cleanup.due import Due, count_due
from filejobs_dagster.jobs.upload_cleanup.request import Request, Storage

if TYPE_CHECKING:
    from filejobs_dagster.jobs.context import RunContext
    from filejobs_dagster.ledger.outcome import Outcome

__all__ = [
    "JOB",
    "DeadLetter",
    "Due",
    "Request",
    "Storage",
    "count_due",
    "dead_letters",
    "retry_dead_letters",
    "run",
]


def run(context: RunContext, request: Request, storage: Storage) -> Outcome:
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
    return Cleanup(context, request, storage).run()
