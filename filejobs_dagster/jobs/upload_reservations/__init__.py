"""upload_reservations: takes away reservations whose upload never finished.

A reservation is a `file` row in state `pending` with `upload_expires_at`, or a row of the
operator's that their own statements call one. Its client may be slow rather than gone, and complete
the upload at any moment, so:

- The claim is the write. Candidates are only a guess; the claim repeats every predicate, and a
  row that it does not return belongs to somebody else, together with its bytes.
- Row, commit, bytes. A crash in between leaves an object without a row, which storage_orphans
  takes; never a row without an object.
- The audit events of the claimed rows, and the intent to delete their objects, commit with the
  claim; the intent right before it, where the rows are in another database.
- Bytes that storage did not let go are counted as left, never as collected. When storage rejects
  a whole batch, no further row is claimed and the run fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.jobs.collecting.storage import Storage
from filejobs_dagster.jobs.upload_reservations.bookkeeping import JOB
from filejobs_dagster.jobs.upload_reservations.collection import Collection
from filejobs_dagster.jobs.upload_reservations.opening import opened_source, other_database
from filejobs_dagster.jobs.upload_reservations.request import Request
from filejobs_dagster.jobs.upload_reservations.statements import (
    BEGINNING,
    CANDIDATES,
    CLAIM,
    LAST_ID,
    OLDEST_LEFT,
    count_due,
)

if TYPE_CHECKING:
    from filejobs_dagster.jobs.context import RunContext
    from filejobs_dagster.jobs.upload_reservations.source import ReservationSource
    from filejobs_dagster.ledger.outcome import Outcome

__all__ = [
    "BEGINNING",
    "CANDIDATES",
    "CLAIM",
    "JOB",
    "LAST_ID",
    "OLDEST_LEFT",
    "Request",
    "Storage",
    "count_due",
    "opened_source",
    "other_database",
    "run",
]


def run(
    context: RunContext,
    request: Request,
    storage: Storage,
    source: ReservationSource | None = None,
) -> Outcome:
    """Collect, or in a dry run report, the reservations that are due.

    Args:
        context: The run.
        request: Its limits.
        storage: Where the bytes are.
        source: Where the reservations are, from `opened_source`; None for the table `file`.

    Returns:
        The outcome: failed when every item failed.

    Raises:
        JobFailed: Storage rejected a batch, a source of references could not be read, or the
            source of reservations cannot be used as it is.
        BucketUnavailable: The bucket cannot be reached; nothing was claimed.
        ReferencesUnknown: A source could not be read; nothing was claimed.
    """
    return Collection(context, request, storage, source).run()
