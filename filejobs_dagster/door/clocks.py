"""Clocks that agree: of the database, and of the bucket whose dates are judged."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from filejobs_dagster.door.guard import Guard, Refusal
from filejobs_dagster.objects.listing import ListingFailed, read_server_date
from filejobs_dagster.postgres.clock import database_now

if TYPE_CHECKING:
    from datetime import datetime

    from filejobs_dagster.collector import Touch
    from filejobs_dagster.door.guard import BucketAt, Look

MOST_APART = timedelta(minutes=5)
"""How far two clocks may be apart."""


class Clocks(Guard):
    """What is old enough is judged by clocks that follow the same time."""

    name = "clocks"
    protects: frozenset[Touch] = frozenset({"rows", "objects", "multipart uploads"})

    def look(self, at: Look) -> str:
        """Compare the database's clock with each bucket's."""
        for bucket in at.buckets:
            _compare(at, bucket)
        return f"agree within {MOST_APART}"


def _compare(at: Look, bucket: BucketAt) -> None:
    name = bucket.settings.bucket
    before = _now(at)
    try:
        date = read_server_date(bucket.client, name)
    except ListingFailed as error:
        raise Refusal(str(error), "Nothing was touched.") from error
    after = _now(at)
    if date is None:
        raise Refusal(
            f"The server of bucket {name!r} does not say what time it is (its answers have no "
            "Date), so the age of its objects is not known.",
            "Nothing was touched.",
        )
    # The answer came somewhere between the two, and says whole seconds.
    if not before - MOST_APART <= date <= after + MOST_APART:
        raise Refusal(
            f"The clocks are too far apart: by the database it is {after:%Y-%m-%d %H:%M:%S} UTC, "
            f"by the server of bucket {name!r} it is {date:%Y-%m-%d %H:%M:%S} UTC; at most five "
            "minutes are tolerated.",
            "What is old enough cannot be told until both follow the same time. Nothing was "
            "touched.",
        )


def _now(at: Look) -> datetime:
    with at.database.transaction(at.connection, read_only=True) as cursor:
        return database_now(cursor)
