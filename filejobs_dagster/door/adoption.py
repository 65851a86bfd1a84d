"""Whose bucket it is: what the marker in the bucket and the row in the database say together.

The counter goes up in the database first, and that is committed; then in the marker. Killed in
between, the database is ahead, which is harmless. A marker that is ahead can only mean that the
database lost what it had committed: it was restored from a backup, and does not know of objects
that were referenced since.

Both sides keep the database's timeline too, which a promotion of a standby makes higher. The
higher one has the bucket: the promoted server takes it over with its first live run, and the old
primary, which still has everything that it ever knew, is refused from then on.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING

from psycopg.types.json import Jsonb

from filejobs_dagster.audit.append import append
from filejobs_dagster.door.adoption_target import AWS, AdoptionTarget, Inspection, Row, inspect
from filejobs_dagster.door.doubt import forget_doubts
from filejobs_dagster.door.guard import (
    AdoptionRefused,
    BucketOfAnotherInstallation,
    DatabaseRestored,
    LeftBehind,
    MarkerNotWritten,
    MarkerTaken,
    MarkerUnreadable,
    NotAdopted,
    PrefixesNotAdopted,
    WrongBucket,
    WrongDatabase,
    WrongEnvironment,
)
from filejobs_dagster.door.marker import (
    Marker,
    Search,
    replace_marker,
    search_markers,
    write_new_marker,
)
from filejobs_dagster.objects.targets import overlap
from filejobs_dagster.postgres.connect import database_now

if TYPE_CHECKING:
    from collections.abc import Sequence

    from filejobs_dagster.door.server import Probe
    from filejobs_dagster.postgres.primary import ServerState

__all__ = [
    "AGAIN",
    "AWS",
    "Adopted",
    "AdoptionTarget",
    "Inspection",
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
       (endpoint, bucket, installation, environment, counter, adopted_at, adopted_by, timeline)
VALUES (%(endpoint)s, %(bucket)s, %(installation)s, %(environment)s, %(counter)s, %(at)s, %(by)s,
        %(timeline)s)
    ON CONFLICT (endpoint, bucket) DO UPDATE
   SET environment = excluded.environment,
       counter     = greatest(known.counter, excluded.counter),
       adopted_at  = excluded.adopted_at,
       adopted_by  = excluded.adopted_by,
       timeline    = excluded.timeline
 WHERE known.installation = excluded.installation
RETURNING counter
"""

_RAISE = """
UPDATE bucket_adoption
   SET counter = counter + 1, timeline = %(timeline)s
 WHERE endpoint = %(endpoint)s AND bucket = %(bucket)s
   AND installation = %(installation)s AND counter >= %(known)s
RETURNING counter
"""

_VOUCH = """
UPDATE bucket_adoption
   SET adopted_at = clock_timestamp(), adopted_by = %(by)s
 WHERE endpoint = %(endpoint)s AND bucket = %(bucket)s
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
        server: That the database is on.
        searched: Of an adoption that was written a moment ago: what was found anywhere.
    """

    marker: Marker
    row: Row
    server: ServerState
    searched: Search | None = field(default=None, compare=False)


def check(place: AdoptionTarget) -> Adopted:
    """Make sure that bucket and database belong together, before anything is deleted.

    Raises:
        AdoptionRefused: They do not, or it is not known; the class says what is wrong.
        psycopg.Error: The database would not say.
    """
    return judge(place, inspect(place))


def judge(place: AdoptionTarget, found: Inspection) -> Adopted:
    """Tell whether the two sides belong together.

    Raises:
        AdoptionRefused: See `check`.
    """
    if found.unreadable is not None:
        raise MarkerUnreadable(found.unreadable)
    marker, row = found.marker, found.row
    _require_same_installation(place, found)
    if marker is None:
        raise NotAdopted(
            f"Bucket {place.bucket!r} has no marker of the installation {place.installation!r}"
            + (". Look at the settings once more; then" if row is None else _without_marker(row))
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
            f"since. {AGAIN}"
        )
    here, there = found.server.timeline, marker.timeline
    if here is not None and there is not None and there > here:
        raise LeftBehind(
            f"The marker of bucket {place.bucket!r} was written on timeline {there}, and this "
            f"database is on timeline {here}: a standby of it was promoted and has the bucket now, "
            "and this is the old primary, which does not know what the new one refers to. Let the "
            "settings lead to the new one. Only when that one is gone for good, and what was "
            "written there is dealt with: filejobs bucket adopt --again --reason '…'"
        )
    if row is None or marker.counter > row.counter:
        knows = "does not know of it" if row is None else f"counts {row.counter}"
        raise DatabaseRestored(
            f"The marker of bucket {place.bucket!r} counts {marker.counter} and the database "
            f"{knows}: {_lost(here, there)} It does not know what has been referred to since, so "
            f"objects in use would look unreferenced. {AGAIN}"
        )
    _require_adopted_prefixes(place, marker)
    return Adopted(marker, row, found.server)


def _without_marker(row: Row) -> str:
    """How the database can have its half of an adoption, and the bucket none."""
    says = (
        f", and the database says that {row.adopted_by} adopted it at "
        f"{row.adopted_at.isoformat(timespec='seconds')}. "
    )
    if row.counter == 1:
        # No live run has counted since, and the marker is what an adoption writes last.
        return (
            f"{says}No live run has counted since: that adoption ended half-way, between database "
            "and bucket, or somebody removed the marker. Nothing was deleted by it. To finish it,"
        )
    return (
        f"{says}Somebody removed the marker, this is another bucket of that name, or an adoption "
        "that was repeated ended half-way. Find out which, then"
    )


def _lost(here: int | None, there: int | None) -> str:
    """How a database can be behind its marker."""
    if here is not None and there is not None and here > there:
        return (
            f"it is on timeline {here} and the marker was written on timeline {there}, so either "
            "it was restored to a point in time before the last live run, or an asynchronous "
            "standby was promoted that had not got the old primary's last commits. Which of the "
            "two, this cannot be told from here; both lost rows. docs/failover.md says how to "
            "find what is missing."
        )
    return (
        "the database was restored from a backup that is older than the last live run, or the "
        "bucket was adopted from another one."
    )


AGAIN = (
    "If it was moved or restored on purpose, and what was lost is dealt with, say so: "
    "filejobs bucket adopt --again --reason '…'"
)
"""What to do about a database that is older than it was, or another one."""


def adopt(place: AdoptionTarget, *, by: str, again: str | None = None) -> Adopted:
    """Write the marker and the row. Of a bucket that is adopted already as it is, change nothing.

    As it is: with the prefixes that the settings own, on this timeline, at the fixed place.

    Args:
        place: What is to belong together.
        by: User and host.
        again: The reason why a database that was moved or restored on purpose takes the bucket
            over, or is right although a pass found that rows and objects do not fit together, or
            although nothing ran for so long that the clocks may have jumped; recorded in the audit
            log. It does not help against another installation or another environment.

    Raises:
        AdoptionRefused: It is somebody else's, or it is not known whose, or storage refused.
        psycopg.Error: The database refused.
    """
    adopted = _unless_refused(place, inspect(place), again)
    if adopted is not None and _as_it_is(place, adopted):
        if again is not None:
            _vouch(place, by, again)
        return adopted
    # Now or never: no run looks for what may lie anywhere.
    searched = search_markers(place.client, place.bucket)
    place = replace(place, older_keys=tuple(dict.fromkeys((*place.older_keys, *searched.keys))))
    found = inspect(place)
    _unless_refused(place, found, again)
    marker = _agree(place, found, by, again)
    try:
        _write(place, marker, found.marker)
    except MarkerTaken as error:
        # Whoever it was: what the two sides say now decides.
        try:
            return check(place)
        except AdoptionRefused as refused:
            raise refused from error
    except MarkerNotWritten as error:
        raise MarkerNotWritten(
            f"{error} The adoption ended half-way: the database has its half, and without the "
            "marker no live run begins. Mend that, and repeat: filejobs bucket adopt"
        ) from error
    return replace(check(place), searched=searched)


def _unless_refused(place: AdoptionTarget, found: Inspection, again: str | None) -> Adopted | None:
    """What belongs together already; None where an adoption is what is missing.

    Raises:
        AdoptionRefused: Something else stands against it.
    """
    try:
        return judge(place, found)
    except (NotAdopted, PrefixesNotAdopted):
        return None
    except (WrongDatabase, DatabaseRestored, LeftBehind):
        if again is None:
            raise
        return None


def _vouch(place: AdoptionTarget, by: str, reason: str) -> None:
    """Forget that rows and objects did not fit together, and write down who says that they do.

    That it is said now is what stands for the clocks, too, after a long silence.
    """
    with place.database.transaction(place.connection) as cursor:
        event = {
            "kind": "bucket.doubt_dismissed",
            "installation": place.installation,
            **place.row_key,
            "found_by_runs": forget_doubts(cursor, place.row_key),
            "reason": reason,
            "by": by,
        }
        cursor.execute(_VOUCH, {**place.row_key, "by": by})
        append(cursor, [event])


def _as_it_is(place: AdoptionTarget, adopted: Adopted) -> bool:
    marker, timeline = adopted.marker, adopted.server.timeline
    return (
        marker.key == place.marker_key
        and marker.owns == place.owns
        and timeline in (None, marker.timeline)
    )


def _write(place: AdoptionTarget, marker: Marker, before: Marker | None) -> None:
    """Write this installation's marker at the fixed place, over the one that was read there.

    One that an older version wrote elsewhere stays as it is, and no longer counts.

    Raises:
        AdoptionRefused: See `write_new_marker` and `replace_marker`.
    """
    if before is None or before.key != place.marker_key:
        write_new_marker(place.client, place.bucket, place.marker_key, marker)
    else:
        replace_marker(place.client, place.bucket, place.marker_key, marker, before)


def _agree(place: AdoptionTarget, found: Inspection, by: str, again: str | None) -> Marker:
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
                "timeline": found.server.timeline,
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
            "owns": list(place.owns),
            "database": str(found.identity),
            "timeline": None if found.server.timeline is None else str(found.server.timeline),
            "counter": str(written[0]),
            "by": by,
        }
        if again is not None:
            forget_doubts(cursor, place.row_key)
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
        owns=place.owns,
        timeline=found.server.timeline,
    )


def raise_counter(place: AdoptionTarget, adopted: Adopted) -> Adopted:
    """Count one more live run: in the database, committed, and then in the marker.

    The marker gets this server's timeline with it: so a promoted server takes its bucket over. One
    that an older version wrote moves to the fixed place.

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
                "timeline": adopted.server.timeline,
            },
        )
        raised = cursor.fetchone()
    if raised is None:
        raise DatabaseRestored(
            f"The database's counter for bucket {place.bucket!r} fell below "
            f"{adopted.row.counter} while this run worked, or its row is gone."
        )
    before = adopted.marker
    marker = replace(
        before,
        counter=raised[0],
        owns=place.owns if before.owns is None else before.owns,
        timeline=adopted.server.timeline,
    )
    try:
        _write(place, marker, before)
    except MarkerTaken as error:
        raise MarkerTaken(
            f"{error} A live run counts in it right before it deletes, and so only one may be at "
            "work: look who else works on this bucket. Nothing was deleted."
        ) from error
    now = check(place)
    if now.marker.counter < now.row.counter:
        # Where conditions are ignored, a write may have passed over a later one unseen.
        raise MarkerTaken(
            f"Another live run counts itself in bucket {place.bucket!r} at the same moment. "
            "Nothing was deleted."
        )
    return now


def remember_probe(place: AdoptionTarget, found: Probe) -> None:
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


def _require_same_installation(place: AdoptionTarget, found: Inspection) -> None:
    row = found.row
    if row is not None and row.installation != place.installation:
        raise BucketOfAnotherInstallation(
            f"On this schema the installation {row.installation!r} has adopted bucket "
            f"{place.bucket!r}, and the settings say {place.installation!r}. Two installations on "
            "one schema would delete each other's objects: give each a schema of its own."
        )
    claimed = [marker for marker in found.others if _overlaps(marker.owns, place.owns)]
    if found.marker is not None and found.marker.installation != place.installation:
        claimed.append(found.marker)
    for marker in claimed:
        raise WrongBucket(
            f"Bucket {place.bucket!r} belongs to the installation {marker.installation!r} "
            f"({_environment(marker.environment)}, database {marker.database}), which owns "
            f"{_in_words(marker.owns)} there, adopted by {marker.adopted_by} at "
            f"{marker.adopted_at}; its marker is {marker.key!r}. The settings say "
            f"{place.installation!r} and own {_in_words(place.owns)}: this is the wrong bucket, or "
            "the wrong settings. Nothing overrides that."
        )


def _overlaps(claimed: Sequence[str] | None, owned: Sequence[str]) -> bool:
    """Whether two installations would meet; one that an older version adopted may own anything."""
    if claimed is None:
        return bool(owned)
    return any(overlap(one, other) for one in claimed for other in owned)


def _require_adopted_prefixes(place: AdoptionTarget, marker: Marker) -> None:
    if marker.owns is None:
        return
    more = [
        prefix for prefix in place.owns if not any(prefix.startswith(one) for one in marker.owns)
    ]
    if more:
        raise PrefixesNotAdopted(
            f"The settings own {_in_words(more)} of bucket {place.bucket!r}, and its marker says "
            f"{_in_words(marker.owns)}, by which other installations go. If that is meant, say so: "
            "filejobs bucket adopt"
        )


def _in_words(owns: Sequence[str] | None) -> str:
    if owns is None or "" in owns:
        return "the whole bucket"
    return ", ".join(map(repr, owns)) or "nothing"


def _environment(environment: str | None) -> str:
    return "no environment" if environment is None else f"the environment {environment!r}"
