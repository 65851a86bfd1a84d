"""Clocks that agree: the database's, this machine's, each bucket's, and all of them with our past.

What is old enough is judged by the database's clock. What is judged was dated by that clock, by
the servers of the buckets, and by machines such as this one, and one of them that is a month ahead
makes what is two seconds old look like something that nobody wants.

What nobody notices here:

- All clocks that were asked jump together, as those of one machine do on which everything runs, by
  less than a pause that is believed: see `OUTAGE`. A bucket elsewhere is the witness.
- Rows and objects that were dated while a clock was wrong, once it is right again.
- A server that dates the parts of multipart uploads by another clock than its objects.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from filejobs_dagster.door.belonging import adoption_target_of
from filejobs_dagster.door.guard import Guard, Refusal
from filejobs_dagster.objects.errors import described
from filejobs_dagster.objects.listing import ListingFailed, date_of, read_server_date
from filejobs_dagster.postgres.connect import database_now
from filejobs_dagster.registry import JOB_NAMES
from filejobs_dagster.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from filejobs_dagster.collector import Touch
    from filejobs_dagster.door.guard import BucketAt, Look

MOST_APART = timedelta(minutes=5)
"""How far two clocks may be apart."""

NOTICEABLE = timedelta(minutes=1)
"""From here on times in logs no longer fit together, which refuses nothing and is worth a word."""

WITH_A_WITNESS = 3
"""Of so many clocks that agree none can be the one that is wrong: what differs from them is."""

OUTAGE = timedelta(days=14)
"""For so long nothing of ours need be at work; or for the shortest `stale_after`, where every one
is longer. Behind a longer silence the clocks, which all agree, may have jumped together, and what
was made a moment ago looks that old. Then somebody says that the time is right."""

SYNCHRONISE = (
    "What is old enough cannot be told until all of them follow the same time (NTP). Nothing was "
    "touched."
)

# One look into the index (installation, job, finished_at DESC, id DESC) per job; of runs at work
# the partial index holds a handful; the other tables have a row for each chain and each bucket.
_NEWEST_RECORD = """
SELECT what, least(moment, '9999-12-30')
  FROM (SELECT 'run ' || run.run_id || ' of ' || wanted.job, run.finished_at
          FROM unnest(%(jobs)s::text[]) AS wanted (job)
         CROSS JOIN LATERAL (
                SELECT run_id, finished_at
                  FROM job_run
                 WHERE installation = %(installation)s AND job = wanted.job
                 ORDER BY finished_at DESC, id DESC
                 LIMIT 1) AS run
         UNION ALL
        SELECT 'the sign of life of run ' || run_id || ' of ' || job, heartbeat_at
          FROM job_progress
         WHERE installation = %(installation)s AND closed_at IS NULL
         UNION ALL
        SELECT 'the newest event of the audit chain ' || chain_id, head_at
          FROM audit_chain
         UNION ALL
        SELECT 'the adoption of bucket ' || bucket, adopted_at
          FROM bucket_adoption) AS record (what, moment)
 ORDER BY moment DESC
 LIMIT 1
"""

# The longest time without any record since somebody, or a live run that was let in and went well,
# last stood for the clock: such a run when it began, since clocks may jump while it works. Whoever
# is refused is recorded as well, and is no proof of anything.
_SILENCE = """
WITH proven AS (
    SELECT max(moment) AS moment
      FROM (SELECT adopted_at
              FROM bucket_adoption
             WHERE installation = %(installation)s
             UNION ALL
            SELECT run.started_at
              FROM unnest(%(jobs)s::text[]) AS wanted (job)
             CROSS JOIN LATERAL (
                    SELECT started_at
                      FROM job_run
                     WHERE installation = %(installation)s AND job = wanted.job
                       AND mode = 'live' AND outcome = 'ok' AND finished_at <= %(now)s
                     ORDER BY finished_at DESC, id DESC
                     LIMIT 1) AS run) AS known (moment)
     WHERE moment <= %(now)s
), known AS (
    SELECT moment FROM proven
     UNION ALL
    SELECT finished_at
      FROM proven, job_run
     WHERE installation = %(installation)s AND job = ANY(%(jobs)s)
       AND finished_at > proven.moment AND finished_at <= %(now)s
     UNION ALL
    SELECT %(now)s
)
SELECT since, until
  FROM (SELECT lag(moment) OVER (ORDER BY moment) AS since, moment AS until
          FROM known
         WHERE moment IS NOT NULL) AS silence
 WHERE until - since > %(longest)s
   AND EXISTS (SELECT FROM bucket_adoption WHERE installation = %(installation)s)
 ORDER BY until - since DESC
 LIMIT 1
"""


@dataclass(frozen=True)
class Reading:
    """What a clock said, and when that was by the monotonic clock of this process.

    Attributes:
        whose: Of whom, for messages.
        moment: What it said, with its time zone.
        asked_at: Before it was asked; seconds of `time.monotonic`.
        told_at: After it had answered.
    """

    whose: str
    moment: datetime
    asked_at: float
    told_at: float

    @classmethod
    def of(cls, whose: str, ask: Callable[[], datetime]) -> Reading:
        """Ask a clock."""
        asked_at = time.monotonic()
        return cls(whose, ask(), asked_at, time.monotonic())

    def apart(self, other: Reading) -> timedelta:
        """How far the two clocks are apart at least; the answers may have taken their time."""
        between = timedelta(seconds=self.told_at - other.asked_at)
        least = self.moment - other.moment - between
        most = least + timedelta(
            seconds=self.told_at - self.asked_at + other.told_at - other.asked_at
        )
        return max(least, -most, timedelta(0))

    def agrees(self, other: Reading) -> bool:
        """True when they are not too far apart."""
        return self.apart(other) <= MOST_APART

    def now(self) -> datetime:
        """What this clock says now, unless it has jumped; never later than that."""
        return self.moment + timedelta(seconds=time.monotonic() - self.told_at)

    def __str__(self) -> str:
        """For a sentence."""
        return f"by {self.whose} it is {_utc(self.moment)}"


@dataclass(frozen=True)
class Record:
    """The newest moment that our own tables know of.

    Attributes:
        what: What was recorded.
        moment: When, by the database's clock of that time.
    """

    what: str
    moment: datetime

    def __str__(self) -> str:
        """For a sentence."""
        return f"our newest record ({self.what}) is of {_utc(self.moment)}"


class Clocks(Guard):
    """What is old enough is judged by clocks that follow the same time."""

    name = "clocks"
    protects: frozenset[Touch] = frozenset({"rows", "objects", "multipart uploads", "chain"})

    def __init__(
        self, this_machine: Callable[[], datetime] = lambda: datetime.now(timezone.utc)
    ) -> None:
        """Prepare; nothing is asked.

        Args:
            this_machine: Its clock.
        """
        self._this_machine = this_machine

    def look(self, at: Look) -> str:
        """Compare all clocks with each other and with our own past, and remember the database's."""
        database, record = _database(at)
        readings = [database, Reading.of("this machine", self._this_machine)]
        not_asked: list[str] = []
        for bucket in at.buckets:
            found = _bucket(bucket)
            if isinstance(found, Reading):
                readings.append(found)
            elif bucket.deletes:
                raise Refusal(found, "Nothing was touched.")
            else:
                not_asked.append(f"bucket {bucket.entry} was not asked ({found})")
        if not all(each.agrees(database) for each in readings):
            raise Refusal(_disagreement(readings, record), SYNCHRONISE)
        _require_no_silence(at, database)
        remarks = [each for each in (_noticeable(readings), _ahead(readings, record)) if each]
        for remark in remarks:
            at.log.warning("%s.", remark)
        not_asked += remarks
        at.kept[self.name] = database
        return "; ".join([_agreement(readings), *not_asked])

    def enter(self, at: Look) -> None:
        """See by the marker, which was written a moment ago, how the server dates its objects."""
        for bucket in at.buckets:
            if bucket.entry in at.counted:
                _require_dates_of_now(at, bucket)

    def prove(self, at: Look) -> None:
        """Compare the database's clock with the time that has gone by since the run came in."""
        before = at.kept.get(self.name)
        if not isinstance(before, Reading):
            return
        now, _ = _database(at, with_record=False)
        if not now.agrees(before):
            raise Refusal(
                f"A clock jumped while this run worked: by the database it is {_utc(now.moment)}, "
                f"and by the time that has gone by since {_utc(before.moment)} it should be "
                f"{_utc(before.now())}.",
                "Nothing more is deleted. See that the clocks are right (NTP); where this machine "
                "was asleep meanwhile, nothing is wrong. The next run goes on with what is left.",
            )


def proven_now(at: Look) -> datetime | None:
    """The database's time, by the clock that was compared and the time that has gone by since.

    Returns:
        None where no clocks were compared, or where they did not agree.
    """
    reading = at.kept.get(Clocks.name)
    return reading.now() if isinstance(reading, Reading) else None


# Asking -----------------------------------------------------------------------------------------


def _database(at: Look, *, with_record: bool = True) -> tuple[Reading, Record | None]:
    with at.database.transaction(at.connection, read_only=True) as cursor:
        reading = Reading.of("the database", lambda: database_now(cursor))
        if not with_record:
            return reading, None
        values = {"jobs": list(JOB_NAMES), "installation": at.settings.installation}
        row = cursor.execute(_NEWEST_RECORD, values).fetchone()
    return reading, None if row is None else Record(*row)


def _bucket(bucket: BucketAt) -> Reading | str:
    """What its server's clock says, or why that is not known."""
    name = bucket.settings.bucket
    asked_at = time.monotonic()
    try:
        date = read_server_date(bucket.client, name)
    except ListingFailed as error:
        return str(error)
    if date is None:
        return (
            f"The server of bucket {name!r} does not say what time it is (its answers have no "
            "Date), so the age of its objects is not known."
        )
    # It says whole seconds, and began to answer in one of them.
    return Reading(f"the server of bucket {name!r}", date, asked_at - 1, time.monotonic())


# Judging ----------------------------------------------------------------------------------------


def _agreement(readings: Sequence[Reading]) -> str:
    database, *others = readings
    apart = ", ".join(
        f"{other.whose} {other.apart(database).total_seconds():.1f} s apart" for other in others
    )
    return f"{database}; {apart}"


def _disagreement(readings: Sequence[Reading], record: Record | None) -> str:
    """All times, and which of the clocks is probably wrong."""
    said = (
        f"The clocks are too far apart: {', '.join(map(str, readings))}; at most five minutes are "
        "tolerated."
    )
    camp = max(([other for other in readings if other.agrees(one)] for one in readings), key=len)
    if 2 * len(camp) > len(readings):
        wrong = ", ".join(each.whose for each in readings if each not in camp)
        said += f" The others agree, so it is most likely the clock of {wrong} that is wrong."
    else:
        said += " They do not tell which of them is wrong."
    return said if record is None else f"{said} For comparison, {record}."


def _noticeable(readings: Sequence[Reading]) -> str | None:
    """A remark about clocks that are near enough, and not the same."""
    database = readings[0]
    furthest = max(readings, key=database.apart)
    if database.apart(furthest) <= NOTICEABLE:
        return None
    return f"{database}, and {furthest}: synchronise both clocks (NTP)"


def _ahead(readings: Sequence[Reading], record: Record | None) -> str | None:
    """A remark about a record of the future that clocks which agree speak against.

    Raises:
        Refusal: There is such a record, and no third clock that tells who is wrong.
    """
    database = readings[0]
    if record is None or record.moment <= database.now() + MOST_APART:
        return None
    if len(readings) >= WITH_A_WITNESS:
        return (
            f"{record}, which is in the future by all {len(readings)} clocks: it was written while "
            "a clock was ahead"
        )
    raise Refusal(
        f"Either the clock went back or a record of the future stands there: {record}, and "
        f"{', '.join(map(str, readings))}.",
        "If the clocks are wrong, set them (NTP). If they are right, the record was written while "
        "a clock was ahead; a bucket in the settings whose server can be asked is the witness "
        "that this takes. Nothing was touched.",
    )


def _require_no_silence(at: Look, database: Reading) -> None:
    """Make sure that the clocks, which agree, have not jumped together.

    Where no job has a `stale_after` nobody has said how often anything runs, and any pause is one.
    Where no bucket is adopted nobody could say that the time is right.

    Raises:
        Refusal: For longer than anybody expects there is no record at all.
    """
    expected = [job.stale_after for job in at.settings.jobs.values() if job.stale_after is not None]
    if not expected:
        return
    longest = max(OUTAGE, min(expected))
    values = {
        "jobs": list(JOB_NAMES),
        "installation": at.settings.installation,
        "now": database.moment,
        "longest": longest,
    }
    with at.database.transaction(at.connection, read_only=True) as cursor:
        row = cursor.execute(_SILENCE, values).fetchone()
    if row is not None:
        since, until = row
        raise Refusal(
            f"Either nothing ran for {format_duration(timedelta(days=(until - since).days))}, or "
            f"all clocks jumped together: they agree that it is {_utc(database.moment)}, and "
            f"between {_utc(since)} and {_utc(until)} there is no record of any job. By clocks "
            "that are ahead, what was made a moment ago looks due.",
            "Look at a clock that has nothing to do with these machines. If it is wrong, set it "
            f"(NTP). If that is the time, say so: {THE_TIME_IS_RIGHT}. Nothing was touched.",
        )


THE_TIME_IS_RIGHT = "filejobs bucket adopt --again --reason '…'"
"""The command by which somebody stands for the clocks."""


def _require_dates_of_now(at: Look, bucket: BucketAt) -> None:
    """Make sure that the marker, which was written a moment ago, does not look old.

    Raises:
        Refusal: It does, or it has no date.
    """
    client, name, key = (
        bucket.client,
        bucket.settings.bucket,
        adoption_target_of(at, bucket).marker_key,
    )
    try:
        head = client.head_object(Bucket=name, Key=key)
    except Exception as error:
        raise Refusal(
            f"How the server of bucket {name!r} dates its objects could not be seen by the marker "
            f"{key!r}, which this run has just written: {described(error)}.",
            "Nothing was touched.",
        ) from error
    date = date_of(head["ResponseMetadata"]["HTTPHeaders"])
    dates: dict[str, datetime | None] = {"HEAD": head.get("LastModified")}
    try:
        listed = client.list_objects_v2(Bucket=name, Prefix=key, MaxKeys=1)
    except ClientError as error:
        # Whoever may list owned prefixes only is told apart from HEAD object by object.
        at.log.info("The marker could not be listed: %s", described(error))
    else:
        for entry in listed.get("Contents", []):
            if entry["Key"] == key:
                dates["the listing"] = entry.get("LastModified")
    for where, modified in dates.items():
        if date is None or modified is None or abs(modified - date) > MOST_APART:
            raise Refusal(
                f"The server of bucket {name!r} does not date its objects by its own clock: the "
                f"marker {key!r} was written a moment ago, when by its Date it was "
                f"{_utc(date)}, and {where} says {_utc(modified)}.",
                "The age of its objects is not known. A server that calls its local time UTC does "
                "that: set its time zone to UTC. Nothing was touched.",
            )


def _utc(moment: datetime | None) -> str:
    if moment is None:
        return "nothing"
    return f"{moment.astimezone(timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
