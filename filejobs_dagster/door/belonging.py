"""Whose bucket it is, and whether this database is the one that knows it: in every job.

A run that deletes bytes needs a bucket that was adopted, and counts itself in database and marker
before its first claim, also when it then finds nothing: so a database that is restored is behind
its marker, whatever it did meanwhile. A run that touches no bytes is refused by the same: by the
markers of all buckets that this database has adopted.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import psycopg
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
from filejobs_dagster.postgres.connect import DatabaseUnavailable
from filejobs_dagster.postgres.primary import ServerState, server_state

if TYPE_CHECKING:
    from filejobs_dagster.collector import Touch
    from filejobs_dagster.door.guard import BucketAt, Look
    from filejobs_dagster.postgres.connect import Connection, Database

UNTOUCHED = "Nothing was touched."
NOTHING_MORE = "What this run had not deleted yet it leaves alone."

SAYS_NOTHING = (NotAdopted, WrongBucket)
"""Of a bucket that this database never adopted: it is nobody's, or somebody else's."""

COUNTING_TRIES = 10
"""Whoever meets another job's counting begins again, from what both sides say then."""


FRESH_FOR = 5.0
"""Seconds for which a look at where the settings' address leads is good: so long, at most, can a
run delete after the address has moved to a promoted server that has not written the marker yet."""


class Watch:
    """Whether the settings' address still leads to the server that a run began on.

    The run's own connection stays with the server that it was made to, also when a standby of that
    one was promoted and everybody else has moved. So now and then somebody looks with a fresh one.
    """

    def __init__(self, database: Database, began: ServerState) -> None:
        """Begin to watch.

        Args:
            database: Where the settings' address leads.
            began: The server that the run began on.
        """
        self._database = database
        self._began = began
        self._seen: tuple[float, ServerState] | None = None

    def tell(self, fresh: Connection) -> None:
        """Look with a connection that was made a moment ago; any thread may.

        Raises:
            psycopg.Error: The server would not say.
        """
        with self._database.transaction(fresh, read_only=True) as cursor:
            self._seen = (time.monotonic(), server_state(cursor))

    def prove(self, own: Connection) -> None:
        """Compare the server that the run works on with that to which the address leads now.

        Raises:
            Refusal: They are two, or the address leads nowhere.
        """
        with self._database.transaction(own, read_only=True) as cursor:
            here = server_state(cursor)
        there = self._fresh(FRESH_FOR)
        if here != there:
            # A server that was restarted behind a pooler looks like another one for a moment.
            there = self._fresh(0.0)
        if here != there or self._history(here) != self._history(self._began):
            raise Refusal(
                f"This run began on {self._began}, works on {here} (server started at "
                f"{here.started_at:%H:%M:%S}), and the settings' address leads to {there} by now "
                f"(started at {there.started_at:%H:%M:%S}): a standby was promoted, or the "
                "address leads to several servers.",
                "What this run had not deleted yet it leaves alone. The next one begins on the "
                "new primary; see docs/failover.md.",
            )

    def _fresh(self, good_for: float) -> ServerState:
        seen = self._seen
        if seen is not None and time.monotonic() - seen[0] < good_for:
            return seen[1]
        try:
            with self._database.connect("look at the primary") as fresh:
                self.tell(fresh)
        except (psycopg.Error, DatabaseUnavailable) as error:
            raise Refusal(
                "Whether the settings' address still leads to the server that this run began on "
                f"could not be seen: {type(error).__name__}.",
                "What this run had not deleted yet it leaves alone; the next one begins anew.",
            ) from error
        return self._fresh(float("inf"))

    @staticmethod
    def _history(state: ServerState) -> tuple[str, bool, int | None]:
        return state.system_identifier, state.in_recovery, state.timeline


class Belonging(Guard):
    """Marker and database belong together, and neither is older than the other."""

    name = "marker"
    protects: frozenset[Touch] = frozenset({"rows", "objects", "multipart uploads", "chain"})

    def look(self, at: Look) -> str:
        """Compare both sides of each bucket."""
        with at.database.transaction(at.connection, read_only=True) as cursor:
            at.kept[self.name] = Watch(at.database, server_state(cursor))
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
            watch.prove(at.connection)


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
