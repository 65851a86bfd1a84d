"""The one clock, and how far the bucket's is from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.jobs.context import JobFailed
from filejobs_dagster.jobs.storage_orphans.request import MOST_APART
from filejobs_dagster.objects.listing import ListingFailed, read_server_date
from filejobs_dagster.postgres.clock import database_now

if TYPE_CHECKING:
    from datetime import datetime

    from filejobs_dagster.jobs.context import RunContext
    from filejobs_dagster.jobs.storage_orphans.request import Storage


def compare_clocks(context: RunContext, storage: Storage) -> datetime:
    """Return the database's time, and refuse when the bucket's is another.

    The bucket dates its objects by its own clock, and an object is only as old as that says.

    Raises:
        JobFailed: They are more than five minutes apart, or the bucket does not say its time.
    """
    before = _now(context)
    try:
        date = read_server_date(storage.client, storage.bucket.bucket)
    except ListingFailed as error:
        raise JobFailed(f"{error} Nothing was touched.") from error
    after = _now(context)
    if date is None:
        raise JobFailed(
            f"The server of bucket {storage.bucket.bucket!r} does not say what time it is (its "
            "answers have no Date), so the age of its objects is not known. Nothing was touched."
        )
    # The answer came somewhere between the two, and says whole seconds.
    if not before - MOST_APART <= date <= after + MOST_APART:
        raise JobFailed(
            f"The clocks are too far apart: by the database it is {after:%Y-%m-%d %H:%M:%S} UTC, "
            f"by the server of bucket {storage.bucket.bucket!r} it is {date:%Y-%m-%d %H:%M:%S} "
            "UTC; at most five minutes are tolerated. Which objects are old enough cannot be told "
            "until both follow the same time. Nothing was touched."
        )
    return before


def _now(context: RunContext) -> datetime:
    with context.database.transaction(context.connection, read_only=True) as cursor:
        return database_now(cursor)
