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
from filejobs_dagster.door.refusals import (
    AdoptionRefused,
    MarkerTaken,
    NotAdopted,
    PrefixesNotAdopted,
    WrongBucket,
)
from filejobs_dagster.door.watch import Watch
from filejobs_dagster.postgres.primary import server_state

if TYPE_CHECKING:
    from filejobs_dagster.collector import Touch
    from filejobs_dagster.door.guard import BucketAt, Look

UNTOUCHED = "Nothing was touched."
NOTHING_MORE = "What this run had not deleted yet it leaves alone."

SAYS_NOTHING = (NotAdopted, WrongBucket)
"""Of a bucket that this database never adopted: it is nobody's, or somebody else's."""

COUNTING_TRIES = 10
"""Whoever meets another job's counting begins again, from what both sides say then."""


class Belonging(Guard):
    """Marker and database belong together, and neither is older than the other."""

    name = "marker"
    protects: frozenset[Touch] = frozenset({"rows", "objects", "multipart uploads", "chain"})

    def look(self, at: Look) -> str:
        """Compare both sides of each bucket."""
        with at.database.transaction(at.connection, read_only=True) as cursor:
            began = server_state(cursor)
        at.kept[self.name] = Watch("the settings' address", at.database, began)
        said = [_judged(at, bucket, UNTOUCHED) for bucket in at.buckets]
        return "; ".join(said) or "no bucket stands in the settings"

    def enter(self, at: Look) -> None:
        """Count this run, in the database first."""
        for bucket in at.buckets:
            if bucket.deletes:
                try:
                    _count(place_of(at, bucket))
                except AdoptionRefused as refused:
                    raise Refusal(str(refused), UNTOUCHED) from refused
                at.counted.add(bucket.entry)

    def prove(self, at: Look) -> None:
        """Compare them again: a failover gives the bucket to somebody else while a run works."""
        for bucket in at.buckets:
            _judged(at, bucket, NOTHING_MORE)
        watch = watch_of(at)
        if watch is not None:
            with at.database.transaction(at.connection, read_only=True) as cursor:
                here = server_state(cursor)
            watch.prove(here)


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


def watch_of(at: Look) -> Watch | None:
    """What watches over the server that a run began on; None before anybody has looked."""
    watch = at.kept.get(Belonging.name)
    return watch if isinstance(watch, Watch) else None


def _judged(at: Look, bucket: BucketAt, so_far: str) -> str:
    place = place_of(at, bucket)
    found = inspect(place)
    try:
        adopted = judge(place, found)
    except AdoptionRefused as refused:
        nobody_s = isinstance(refused, SAYS_NOTHING) and found.row is None
        if nobody_s and not bucket.deletes:
            # A bucket that this database never adopted says nothing about this database; one that
            # could not be read might.
            return f"{bucket.entry} is not adopted by this database"
        only_a_step = isinstance(refused, PrefixesNotAdopted) or (
            isinstance(refused, NotAdopted) and found.row is None
        )
        raise Refusal(str(refused), so_far, doubts=not only_a_step) from refused
    return f"{bucket.entry} belongs to {adopted.marker.installation}, counter {adopted.row.counter}"
