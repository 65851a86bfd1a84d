"""Whose bucket it is, and whether this database is the one that knows it: in every job.

A run that deletes bytes needs a bucket that was adopted, and counts itself in database and marker
before its first claim, also when it then finds nothing: so a database that is restored is behind
its marker, whatever it did meanwhile. A run that touches no bytes is refused by the same: by the
markers of all buckets that this database has adopted.

`Watch` asks meanwhile whether an address still leads to the server that the run began on.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import psycopg
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random

from filejobs_dagster.door.adoption import AdoptionTarget, check, inspect, judge, raise_counter
from filejobs_dagster.door.guard import (
    AdoptionRefused,
    Guard,
    MarkerTaken,
    NotAdopted,
    PrefixesNotAdopted,
    Refusal,
    WrongBucket,
)
from filejobs_dagster.postgres.connect import DatabaseUnavailable
from filejobs_dagster.postgres.primary import ServerState, in_the_log, server_state

if TYPE_CHECKING:
    from filejobs_dagster.collector import Touch
    from filejobs_dagster.door.guard import BucketAt, Look
    from filejobs_dagster.postgres.connect import Connection, Database

# Whether an address still leads to the server that a run began on.

FRESH_FOR = 5.0
"""Seconds for which a look at where an address leads is good: so long, at most, can a run delete
after the address has moved to a promoted server of which nobody has written anything down yet."""


class Watch:
    """One database, the project's or one of the operator's, for as long as a run works.

    A connection stays with the server that it was made to, also when a standby of that one was
    promoted and everybody else has moved. So now and then somebody looks with a fresh one.
    """

    def __init__(self, address: str, database: Database, began: ServerState) -> None:
        """Begin to watch.

        Args:
            address: Which one it is, for messages.
            database: Where it leads.
            began: The server that the run began on.
        """
        self._address = address
        self._database = database
        self.began = began
        self._seen: tuple[float, ServerState] | None = None

    def leads_from(self, url: str) -> bool:
        """True of the watch over that address."""
        return self._database.url == url

    def tell(self, fresh: Connection) -> None:
        """Look with a connection that was made a moment ago; any thread may.

        Raises:
            psycopg.Error: The server would not say.
        """
        with self._database.transaction(fresh, read_only=True) as cursor:
            self._seen = (time.monotonic(), server_state(cursor))

    def prove(self, here: ServerState | None = None) -> ServerState:
        """Compare a server that answers the run with that to which the address leads now.

        Args:
            here: What the run's own connection has just said; None where it has none at hand.

        Returns:
            What the address leads to.

        Raises:
            Refusal: They are two, or another one than the run began on, or none.
        """
        there = self._fresh(FRESH_FOR)
        if here is not None and here != there:
            # A server that was restarted behind a pooler looks like another one for a moment.
            there = self._fresh(0.0)
        if here not in (None, there) or not self._goes_on(there):
            works = "" if here is None else f", works on {_started(here)}"
            raise Refusal(
                f"This run began on {_started(self.began)}{works}, and {self._address} leads to "
                f"{_started(there)} by now: a standby was promoted, the database was restored, or "
                "the address leads to several servers.",
                "What this run had not deleted yet it leaves alone. The next one begins on the "
                "new primary; see docs/failover.md.",
            )
        return there

    def _goes_on(self, there: ServerState) -> bool:
        """Whether it has the same history, and no less of it."""
        began = self.began
        same = (there.system_identifier, there.database, there.in_recovery, there.timeline) == (
            began.system_identifier,
            began.database,
            began.in_recovery,
            began.timeline,
        )
        return same and (there.position or 0) >= (began.position or 0)

    def _fresh(self, good_for: float) -> ServerState:
        seen = self._seen
        if seen is not None and time.monotonic() - seen[0] < good_for:
            return seen[1]
        try:
            with self._database.connect("look at the primary") as fresh:
                self.tell(fresh)
        except (psycopg.Error, DatabaseUnavailable) as error:
            raise Refusal(
                f"Whether {self._address} still leads to the server that this run began on could "
                f"not be seen: {type(error).__name__}.",
                "What this run had not deleted yet it leaves alone; the next one begins anew.",
            ) from error
        return self._fresh(float("inf"))


def _started(state: ServerState) -> str:
    log = "" if state.position is None else f", log at {in_the_log(state.position)}"
    return f"{state} (server started at {state.started_at:%H:%M:%S}{log})"


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
                    _count(adoption_target_of(at, bucket))
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


def _count(place: AdoptionTarget) -> None:
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


def adoption_target_of(at: Look, bucket: BucketAt) -> AdoptionTarget:
    """Bucket and database of a look."""
    return AdoptionTarget.of(
        at.settings, bucket.settings, bucket.client, at.database, at.connection
    )


def watch_of(at: Look) -> Watch | None:
    """What watches over the server that a run began on; None before anybody has looked."""
    watch = at.kept.get(Belonging.name)
    return watch if isinstance(watch, Watch) else None


def _judged(at: Look, bucket: BucketAt, so_far: str) -> str:
    place = adoption_target_of(at, bucket)
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
