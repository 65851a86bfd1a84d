"""Whose bucket it is, and whether this database is the one that knows it: in every job.

A run that deletes bytes needs a bucket that was adopted, and counts itself in database and marker
before its first claim, also when it then finds nothing: so a database that is restored is behind
its marker, whatever it did meanwhile. A run that touches no bytes is refused by the same: by the
markers of all buckets that this database has adopted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random

from filejobs_dagster.door.adoption import Place, check, inspect, judge, raise_counter
from filejobs_dagster.door.guard import Guard, Refusal
from filejobs_dagster.door.refusals import AdoptionRefused, MarkerTaken, NotAdopted

if TYPE_CHECKING:
    from filejobs_dagster.collector import Touch
    from filejobs_dagster.door.guard import BucketAt, Look

UNTOUCHED = "Nothing was touched."

COUNTING_TRIES = 10
"""Whoever meets another job's counting begins again, from what both sides say then."""


class Belonging(Guard):
    """Marker and database belong together, and neither is older than the other."""

    name = "marker"
    protects: frozenset[Touch] = frozenset({"rows", "objects", "multipart uploads", "chain"})

    def look(self, at: Look) -> str:
        """Compare both sides of each bucket."""
        said = [_judged(at, bucket) for bucket in at.buckets]
        return "; ".join(said) or "no bucket stands in the settings"

    def enter(self, at: Look) -> None:
        """Count this run, in the database first."""
        for bucket in at.buckets:
            if bucket.deletes:
                try:
                    _count(place_of(at, bucket))
                except AdoptionRefused as refused:
                    raise Refusal(str(refused), UNTOUCHED) from refused

    def prove(self, at: Look) -> None:
        """Compare them again: a failover gives the bucket to somebody else while a run works."""
        for bucket in at.buckets:
            _judged(at, bucket)


def _count(place: Place) -> None:
    """Count one more live run; live runs of other jobs count themselves at the same time.

    Raises:
        AdoptionRefused: Database or marker is another one, or could not be written.
    """
    tries = Retrying(
        retry=retry_if_exception_type(MarkerTaken),
        stop=stop_after_attempt(COUNTING_TRIES),
        wait=wait_random(0.05, 0.5),
        reraise=True,
    )
    tries(lambda: raise_counter(place, check(place)))


def place_of(at: Look, bucket: BucketAt) -> Place:
    """Bucket and database of a look."""
    return Place.of(at.settings, bucket.settings, bucket.client, at.database, at.connection)


def _judged(at: Look, bucket: BucketAt) -> str:
    place = place_of(at, bucket)
    found = inspect(place)
    try:
        adopted = judge(place, found)
    except NotAdopted as refused:
        if bucket.deletes or found.row is not None:
            raise Refusal(str(refused), UNTOUCHED, doubts=found.row is not None) from refused
        return f"{bucket.entry} is not adopted"
    except AdoptionRefused as refused:
        if not bucket.deletes and found.row is None:
            # A bucket that this database never adopted says nothing about this database.
            return f"{bucket.entry} is not adopted by this database"
        raise Refusal(str(refused), UNTOUCHED) from refused
    return f"{bucket.entry} belongs to {adopted.marker.installation}, counter {adopted.row.counter}"
