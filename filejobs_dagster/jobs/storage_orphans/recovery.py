"""What a run that ended early had said it would delete: looked at, and settled."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from filejobs_dagster.book.outcomes import StorageRejected
from filejobs_dagster.book.totals import Meaning
from filejobs_dagster.jobs.context import JobFailed
from filejobs_dagster.jobs.storage_orphans.detail import TOO_RECENT, UNANSWERED
from filejobs_dagster.jobs.storage_orphans.keys_in_lists import named
from filejobs_dagster.objects.errors import StorageError
from filejobs_dagster.objects.measure import Found, measure
from filejobs_dagster.postgres.transient import trying_again

if TYPE_CHECKING:
    from datetime import datetime

    from filejobs_dagster.book.bookkeeping import Bookkeeping
    from filejobs_dagster.jobs.context import RunContext
    from filejobs_dagster.jobs.storage_orphans import Storage
    from filejobs_dagster.jobs.storage_orphans.marks import Marks

SETTLED_AFTER = timedelta(minutes=15)
"""Nobody refers to an object that is still there until a deletion sent before has surely arrived.

A client gives up a request after a minute, and tries a few times; the server may be at it longer.
"""


def recover(
    storage: Storage, marks: Marks, context: RunContext, books: Bookkeeping, now: datetime
) -> None:
    """Find out what became of interrupted intents, and write it down.

    Only a live run does that: it holds the lock that the interrupted run held, so that one is
    over. What is gone is forgotten; what is still there is judged anew, its first sighting kept.
    Where storage does not say of a single object, its intent stays, and the others go on.

    Raises:
        JobFailed: Storage does not say it of any object.
    """
    keys = marks.interrupted()
    if not keys:
        return
    try:
        found = measure(storage.client, storage.bucket.bucket, [key.decode() for key in keys])
    except StorageRejected as error:
        raise JobFailed(f"{error.reason} Nothing was touched.") from error
    unknown = {key: it for key, it in found.items() if isinstance(it, StorageError)}
    if unknown and len(unknown) == len(keys) > 1:
        key, why = next(iter(unknown.items()))
        raise JobFailed(
            f"An earlier run ended while it deleted {len(keys):,} objects, and storage does not "
            f"say of any of them whether it is there ({key!r}: {why}). Nothing was touched."
        )
    for text, why in unknown.items():
        why_left = f"left by an earlier run: {why}"
        books.totals.note(UNANSWERED, text.encode(), Meaning.LEFT, why=why_left)
    gone = [key for key in keys if found[key.decode()] is None]
    there = [key for key in keys if isinstance(found[key.decode()], Found)]

    def once() -> list[bytes]:
        with context.database.transaction(context.connection) as cursor:
            anew = marks.recover(cursor, gone=gone, there=there, settled=now - SETTLED_AFTER)
            result = books.event_of_batch(
                "objects.delete.result",
                recovered=True,
                **named("found_gone", gone),
                **named("found_there", anew),
                **(named("not_known", [key.encode() for key in unknown]) if unknown else {}),
            )
            books.write(cursor, result)
        return anew

    anew = set(trying_again(once))
    for recent in (one for one in there if one not in anew):
        why_left = f"asked to go less than {SETTLED_AFTER} ago"
        books.totals.note(TOO_RECENT, recent, Meaning.PASSED_OVER, why=why_left)
    recovered = {"gone": len(gone), "there": len(anew)}
    rest = {"too_recent": len(there) - len(anew), "not_known": len(unknown)}
    books.facts["recovered"] = recovered | {name: count for name, count in rest.items() if count}
    context.log.warning(
        "An earlier run ended while it deleted %s objects: %s are gone, %s are judged anew, %s "
        "were asked for so recently that they may still go, and of %s storage does not say.",
        f"{len(keys):,}",
        f"{len(gone):,}",
        f"{len(anew):,}",
        f"{rest['too_recent']:,}",
        f"{len(unknown):,}",
    )


def note_unsettled(marks: Marks, context: RunContext, books: Bookkeeping) -> None:
    """Say which intents nobody has settled: until then nobody can refer to their keys."""
    elsewhere = marks.interrupted_elsewhere()
    if elsewhere:
        books.facts["interrupted_elsewhere"] = elsewhere
        context.log.warning(
            "Runs over other entries of `buckets` ended while they deleted, and no run over this "
            "one can settle it: %s. Their keys cannot be referred to until a live run over that "
            "entry has looked; an entry that was renamed needs its old name once more.",
            ", ".join(f"{entry} ({count:,} objects)" for entry, count in elsewhere.items()),
        )
    if context.live:
        return
    keys = marks.interrupted()
    if keys and not marks.live_run_at_work():
        books.facts["interrupted"] = len(keys)
        context.log.warning(
            "An earlier run ended while it deleted %s objects. Nobody can refer to their keys "
            "until a live run has looked which of them are there.",
            f"{len(keys):,}",
        )
