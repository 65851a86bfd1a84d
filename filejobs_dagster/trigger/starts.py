"""How often runs were started over HTTP: kept in the database, counted by its clock."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from filejobs_dagster.postgres.locks import lock_number
from filejobs_dagster.postgres.rows import one

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.postgres.connect import Database

HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
KEPT_FOR = timedelta(days=1)
"""Longer than any window that is counted."""

_COUNT = """
SELECT count(*),
       ceil(extract(epoch FROM min(started_at) + %(window)s - clock_timestamp()))::bigint
  FROM (SELECT started_at
          FROM http_start
         WHERE installation = %(installation)s
           AND (%(job)s::text IS NULL OR job = %(job)s)
           AND (%(token_name)s::text IS NULL OR (token_name = %(token_name)s AND asked_live))
           AND started_at > clock_timestamp() - %(window)s
         ORDER BY started_at DESC
         LIMIT %(limit)s) AS newest
"""

_INSERT = """
INSERT INTO http_start (installation, job, token_name, asked_live, run_id)
VALUES (%(installation)s, %(job)s, %(token_name)s, %(asked_live)s, %(run_id)s)
"""

_FORGET = """
DELETE FROM http_start
 WHERE installation = %(installation)s AND started_at < clock_timestamp() - %(kept_for)s
"""


@dataclass(frozen=True)
class Limits:
    """How often.

    Attributes:
        starts_per_hour: Runs of one job, whoever asks.
        live_per_minute: Runs that one token asks to be live, of all jobs.
    """

    starts_per_hour: int
    live_per_minute: int


@dataclass(frozen=True)
class Start:
    """What is counted of one start.

    Attributes:
        installation: Whose job.
        job: Which.
        token_name: Who asked.
        asked_live: True when live was asked for by hand.
    """

    installation: str
    job: str
    token_name: str
    asked_live: bool


class StartBook:
    """The starts of an installation, open for one of them."""

    def __init__(self, cursor: psycopg.Cursor[TupleRow]) -> None:
        self._cursor = cursor

    def seconds_to_wait(self, start: Start, limits: Limits) -> int:
        """Seconds until this start would be within the limits; 0 when it is."""
        of_job = self._wait(start, HOUR, limits.starts_per_hour, job=start.job)
        if not start.asked_live:
            return of_job
        of_holder = self._wait(start, MINUTE, limits.live_per_minute, token_name=start.token_name)
        return max(of_job, of_holder)

    def _wait(
        self,
        start: Start,
        window: timedelta,
        limit: int,
        *,
        job: str | None = None,
        token_name: str | None = None,
    ) -> int:
        """Seconds until the oldest of the newest `limit` starts leaves the window."""
        self._cursor.execute(
            _COUNT,
            {
                "installation": start.installation,
                "job": job,
                "token_name": token_name,
                "window": window,
                "limit": limit,
            },
        )
        count, seconds = one(self._cursor)
        return 0 if count < limit else max(1, int(seconds))

    def enter(self, start: Start, run_id: str) -> None:
        """Count a start, and forget those that no window reaches any more."""
        who = {"installation": start.installation}
        self._cursor.execute(_FORGET, {**who, "kept_for": KEPT_FOR})
        self._cursor.execute(
            _INSERT,
            {
                **who,
                "job": start.job,
                "token_name": start.token_name,
                "asked_live": start.asked_live,
                "run_id": run_id,
            },
        )


@contextmanager
def one_at_a_time(database: Database, installation: str) -> Iterator[StartBook]:
    """Hold the installation's lock for one start; what is entered counts when this ends well.

    Raises:
        psycopg.errors.LockNotAvailable: Others have held it for `lock_timeout`.
        DatabaseUnavailable: The database is away.
    """
    with (
        database.connect("serve-trigger") as connection,
        database.transaction(connection) as cursor,
    ):
        number = lock_number(f"{database.schema}/http_start/{installation}")
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", (number,))
        yield StartBook(cursor)
