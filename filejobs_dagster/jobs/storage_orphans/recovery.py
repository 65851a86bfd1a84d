"""What a run that ended early had said it would delete: looked at, and settled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.jobs.context import JobFailed
from filejobs_dagster.jobs.storage_orphans.bookkeeping import named
from filejobs_dagster.objects.deletion import StorageRejected
from filejobs_dagster.objects.errors import StorageError
from filejobs_dagster.objects.measure import measure
from filejobs_dagster.postgres.transient import trying_again

if TYPE_CHECKING:
    from filejobs_dagster.jobs.context import RunContext
    from filejobs_dagster.jobs.storage_orphans.bookkeeping import Bookkeeping
    from filejobs_dagster.jobs.storage_orphans.marks import Marks
    from filejobs_dagster.jobs.storage_orphans.request import Storage


def recover(storage: Storage, marks: Marks, context: RunContext, books: Bookkeeping) -> None:
    """Find out what became of interrupted intents, and write it down.

    Only a live run does that: it holds the lock that the interrupted run held, so that one is
    over. What is gone is forgotten; what is still there is judged anew, its first sighting kept.

    Raises:
        JobFailed: Storage does not say which objects are there.
    """
    keys = marks.interrupted()
    if not keys:
        return
    try:
        found = measure(storage.client, storage.bucket.bucket, [key.decode() for key in keys])
    except StorageRejected as error:
        raise JobFailed(f"{error.reason} Nothing was touched.") from error
    unknown = {key: it for key, it in found.items() if isinstance(it, StorageError)}
    if unknown:
        key, why = next(iter(unknown.items()))
        raise JobFailed(
            f"An earlier run ended while it deleted {len(keys):,} objects, and storage does not "
            f"say of {len(unknown):,} of them whether they are there ({key!r}: {why}). Nothing "
            "was touched."
        )
    gone = [key for key in keys if found[key.decode()] is None]
    there = [key for key in keys if found[key.decode()] is not None]

    def once() -> None:
        with context.database.transaction(context.connection) as cursor:
            marks.recover(cursor, gone=gone, there=there)
            books.write_result(
                cursor,
                recovered=True,
                **named("found_gone", gone),
                **named("found_there", there),
            )

    trying_again(once)
    books.facts["recovered"] = {"gone": len(gone), "there": len(there)}
    context.log.warning(
        "An earlier run ended while it deleted: of %s objects %s are gone, and %s are judged anew.",
        f"{len(keys):,}",
        f"{len(gone):,}",
        f"{len(there):,}",
    )
