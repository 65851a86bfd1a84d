"""Whose bucket it is: what the marker in the bucket and the row in the database say together.

The counter goes up in the database first, and that is committed; then in the marker. Killed in
between, the database is ahead, which is harmless. A marker that is ahead can only mean that the
database lost what it had committed: it was restored from a backup, and does not know of objects
that were referenced since.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from psycopg.types.json import Jsonb

from filejobs_dagster.audit.append import append
from filejobs_dagster.door.marker import Marker, replace_marker, write_new_marker
from filejobs_dagster.door.refusals import (
    AdoptionRefused,
    BucketOfAnotherInstallation,
    DatabaseRestored,
    MarkerTaken,
    MarkerUnreadable,
    NotAdopted,
    WrongBucket,
    WrongDatabase,
    WrongEnvironment,
)
from filejobs_dagster.door.sides import AWS, Inspection, Place, Row, inspect
from filejobs_dagster.postgres.clock import database_now

if TYPE_CHECKING:
    from filejobs_dagster.door.probe import Probe

__all__ = [
    "AWS",
    "Adopted",
    "Inspection",
    "Place",
    "Row",
    "adopt",
    "check",
    "inspect",
    "judge",
    "raise_counter",
    "remember_probe",
]

_WRITE = """
INSERT INTO bucket_adoption AS known
       (endpoint, bucket, installation, environment, counter, adopted_at, adopted_by)
VALUES (%(endpoint)s, %(bucket)s, %(installation)s, %(environment)s, %(counter)s, %(at)s, %(by)s)
    ON CONFLICT (endpoint, bucket) DO UPDATE
   SET environment = excluded.environment,
       counter     = greatest(known.counter, excluded.counter),
       adopted_at  = excluded.adopted_at,
       adopted_by  = excluded.adopted_by
 WHERE known.installation = excluded.installation
RETURNING counter
"""

_RAISE = """
UPDATE bucket_adoption
   SET counter = counter + 1
 WHERE endpoint = %(endpoint)s AND bucket = %(bucket)s
   AND installation = %(installation)s AND counter >= %(known)s
RETURNING counter
"""

_REMEMBER = """
UPDATE bucket_adoption
   SET conditional_delete = %(conditional)s, probed_at = clock_timestamp(),
       probed_server = %(name)s, server = %(server)s
 WHERE endpoint = %(endpoint)s AND bucket = %(bucket)s AND installation = %(installation)s
"""


@dataclass(frozen=True)
class Adopted:
    """A bucket and a database that belong together.

    Attributes:
        marker: As it was read.
        row: As it was read.
    """

    marker: Marker
    row: Row


def check(place: Place) -> Adopted:
    """Make sure that bucket and database belong together, before anything is deleted.

    Raises:
        AdoptionRefused: They do not, or it is not known; the class says what is wrong.
        psycopg.Error: The database would not say.
    """
    return judge(place, inspect(place))


def judge(place: Place, found: Inspection) -> Adopted:
    """Tell whether the two sides belong together.

    Raises:
        AdoptionRefused: See `check`.
    """
    if found.unreadable is not None:
        raise MarkerUnreadable(found.unreadable)
    marker, row = found.marker, found.row
    _require_same_installation(place, marker, row)
    if marker is None:
        raise NotAdopted(
            f"Bucket {place.bucket!r} has no marker {place.marker_key!r}"
            + (
                f", and the database says that {row.adopted_by} adopted it at "
                f"{row.adopted_at.isoformat(timespec='seconds')}. Somebody removed the marker, or "
                "this is another bucket of that name. Find out which, then"
                if row is not None
                else ". Look at the settings once more; then"
            )
            + " adopt it: filejobs bucket adopt"
        )
    if marker.environment != place.environment:
        raise WrongEnvironment(
            f"Bucket {place.bucket!r} was adopted for {_environment(marker.environment)}, and the "
            f"settings say {_environment(place.environment)}. Which of the two is wrong? If the "
            "environment was renamed, remove the marker by hand and adopt the bucket again."
        )
    if marker.database != found.identity:
        raise WrongDatabase(
            f"Bucket {place.bucket!r} belongs to the database {marker.database}. Connected is "
            f"{found.identity}. A copy of a database does not know what the other one refers to "
            f"since. {_AGAIN}"
        )
    known = 0 if row is None else row.counter
    if row is None or marker.counter > known:
        raise DatabaseRestored(
            f"The marker of bucket {place.bucket!r} counts {marker.counter} and the database "
            f"{'does not know of it' if row is None else f'counts {known}'}: the database was "
            "restored from a backup that is older than the last live run, or the bucket was "
            "adopted from another one. It does not know what has been referred to since, so "
            f"objects in use would look unreferenced. {_AGAIN}"
        )
    return Adopted(marker, row)


_AGAIN = (
    "If it was moved or restored on purpose, and what was lost is dealt with, say so: "
    "filejobs bucket adopt --again --reason '…'"
)


def adopt(place: Place, *, by: str, again: str | None = None) -> Adopted:
    """Write the marker and the row. Of a bucket that is adopted already, change nothing.

    Args:
        place: What is to belong together.
        by: User and host.
        again: The reason why a database that was moved or restored on purpose takes the bucket
            over; recorded in the audit log. It does not help against another installation or
            another environment.

    Raises:
        AdoptionRefused: It is somebody else's, or it is not known whose, or storage refused.
        psycopg.Error: The database refused.
    """
    found = inspect(place)
    try:
        return judge(place, found)
    except NotAdopted:
        pass
    except (WrongDatabase, DatabaseRestored):
        if again is None:
            raise
    marker = _agree(place, found, by, again)
    try:
        if found.marker is None:
            write_new_marker(place.client, place.bucket, place.marker_key, marker)
        else:
            replace_marker(place.client, place.bucket, place.marker_key, marker, found.marker)
    except MarkerTaken as error:
        # Whoever it was: what the two sides say now decides.
        try:
            return check(place)
        except AdoptionRefused as refused:
            raise refused from error
    return check(place)


def _agree(place: Place, found: Inspection, by: str, again: str | None) -> Marker:
    """Write the database's half and the audit event, and return the bucket's half."""
    with place.database.transaction(place.connection) as cursor:
        now = database_now(cursor)
        counters = [0 if found.marker is None else found.marker.counter]
        counters.append(0 if found.row is None else found.row.counter)
        cursor.execute(
            _WRITE,
            {
                **place.row_key,
                "installation": place.installation,
                "environment": place.environment,
                "counter": max(counters) + 1,
                "at": now,
                "by": by,
            },
        )
        written = cursor.fetchone()
        if written is None:
            raise BucketOfAnotherInstallation(
                f"Another installation adopted bucket {place.bucket!r} on this schema meanwhile."
            )
        event = {
            "kind": "bucket.adopted" if again is None else "bucket.adopted_again",
            "installation": place.installation,
            "environment": place.environment,
            **place.row_key,
            "marker": place.marker_key,
            "database": str(found.identity),
            "counter": str(written[0]),
            "by": by,
        }
        if again is not None:
            before = found.marker
            event |= {
                "reason": again,
                "database_before": None if before is None else str(before.database),
                "counter_before": None if before is None else str(before.counter),
            }
        append(cursor, [event])
    return Marker(
        installation=place.installation,
        environment=place.environment,
        database=found.identity,
        counter=written[0],
        adopted_at=now.isoformat(timespec="seconds"),
        adopted_by=by,
    )


def raise_counter(place: Place, adopted: Adopted) -> Adopted:
    """Count one more live run: in the database, committed, and then in the marker.

    Args:
        place: Where.
        adopted: What `check` has just returned.

    Raises:
        AdoptionRefused: Either side is another one by now, or the marker could not be written:
            delete nothing, because by this run a restored database could not be told.
        psycopg.Error: The database refused.
    """
    with place.database.transaction(place.connection) as cursor:
        cursor.execute(
            _RAISE,
            {
                **place.row_key,
                "installation": place.installation,
                "known": adopted.row.counter,
            },
        )
        raised = cursor.fetchone()
    if raised is None:
        raise DatabaseRestored(
            f"The database's counter for bucket {place.bucket!r} fell below "
            f"{adopted.row.counter} while this run worked, or its row is gone."
        )
    marker = replace(adopted.marker, counter=raised[0])
    try:
        replace_marker(place.client, place.bucket, place.marker_key, marker, adopted.marker)
    except MarkerTaken as error:
        raise MarkerTaken(
            f"{error} A live run counts in it right before it deletes, and so only one may be at "
            "work: look who else works on this bucket. Nothing was deleted."
        ) from error
    return check(place)


def remember_probe(place: Place, found: Probe) -> None:
    """Keep what the probe found with the bucket's row; without a row, forget it.

    Raises:
        psycopg.Error: The database refused.
    """
    known = asdict(found.abilities)
    conditional = known.pop("conditional")
    with place.database.transaction(place.connection) as cursor:
        cursor.execute(
            _REMEMBER,
            {
                **place.row_key,
                "installation": place.installation,
                "conditional": conditional,
                "name": found.server[:200],
                "server": Jsonb(known),
            },
        )


def _require_same_installation(place: Place, marker: Marker | None, row: Row | None) -> None:
    if row is not None and row.installation != place.installation:
        raise BucketOfAnotherInstallation(
            f"On this schema the installation {row.installation!r} has adopted bucket "
            f"{place.bucket!r}, and the settings say {place.installation!r}. Two installations on "
            "one schema would delete each other's objects: give each a schema of its own."
        )
    if marker is not None and marker.installation != place.installation:
        raise WrongBucket(
            f"Bucket {place.bucket!r} belongs to the installation {marker.installation!r} "
            f"({_environment(marker.environment)}, database {marker.database}), adopted by "
            f"{marker.adopted_by} at {marker.adopted_at}. The settings say "
            f"{place.installation!r}: this is the wrong bucket, or the wrong settings. Nothing "
            "overrides that."
        )


def _environment(environment: str | None) -> str:
    return "no environment" if environment is None else f"the environment {environment!r}"
