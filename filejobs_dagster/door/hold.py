"""The brake: somebody holds a job, or all of them.

A file that forbids live runs reaches a container late, and a run that is at work never. A hold
stands in the database, which every run asks before each batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from filejobs_dagster.door.guard import Guard, Refusal
from filejobs_dagster.postgres.connect import Database, DatabaseUnavailable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from psycopg.rows import TupleRow

    from filejobs_dagster.collector import Touch
    from filejobs_dagster.door.guard import Look

_OPEN = """
SELECT job, since, held_by, why
  FROM hold
 WHERE installation = %(installation)s
   AND released_at IS NULL
 ORDER BY job NULLS FIRST
"""

# Whoever held it first is named for as long as it lasts.
_HOLD = """
INSERT INTO hold (installation, job, held_by, why)
VALUES (%(installation)s, %(job)s, %(who)s, %(why)s)
    ON CONFLICT (installation, coalesce(job, '')) WHERE released_at IS NULL DO NOTHING
"""

_RELEASE = """
UPDATE hold
   SET released_at = clock_timestamp(), released_by = %(who)s
 WHERE installation = %(installation)s
   AND job IS NOT DISTINCT FROM %(job)s
   AND released_at IS NULL
RETURNING job, since, held_by, why
"""


@dataclass(frozen=True)
class Hold:
    """One open hold.

    Attributes:
        job: Which it holds; None for every job.
        since: When it began, by the database's clock.
        held_by: Who began it, such as `ada@desk`.
        why: In the words of whoever held it.
    """

    job: str | None
    since: datetime
    held_by: str
    why: str

    def __str__(self) -> str:
        """In half a sentence."""
        what = "every job" if self.job is None else self.job
        return f"{what} is held {self.told}"

    @property
    def told(self) -> str:
        """By whom, since when and why."""
        return f"by {self.held_by} since {self.since:%Y-%m-%d %H:%M} UTC: {self.why}"

    @property
    def release(self) -> str:
        """The command that ends it."""
        return "filejobs release" if self.job is None else f"filejobs release {self.job}"


class Held(Guard):
    """Nobody holds the job."""

    name = "hold"
    protects: frozenset[Touch] = frozenset(
        {"rows", "objects", "multipart uploads", "chain", "elsewhere"}
    )

    def look(self, at: Look) -> str:
        """Ask for open holds."""
        _ask(at, "Nothing was touched.")
        return "nobody holds it"

    def prove(self, at: Look) -> None:
        """Ask again: a drain takes hours, and a brake must not."""
        _ask(at, "What this run had not taken yet it leaves alone.")


def _ask(at: Look, so_far: str) -> None:
    with at.database.transaction(at.connection, read_only=True) as cursor:
        found = open_holds(cursor, at.settings.installation, at.job)
    if found:
        raise Refusal(
            f"Somebody holds it: {'; '.join(map(str, found))}.",
            f"{so_far} When it may go on: {' and '.join(f'`{it.release}`' for it in found)}.",
            doubts=False,
        )


def open_holds(
    cursor: psycopg.Cursor[TupleRow], installation: str, job: str | None = None
) -> Sequence[Hold]:
    """The holds that are open, that of every job first.

    Args:
        cursor: In a transaction of any kind.
        installation: Whose jobs.
        job: Only those that hold this one; None for all.
    """
    cursor.execute(_OPEN, {"installation": installation})
    found = [Hold(*row) for row in cursor.fetchall()]
    return [it for it in found if job is None or it.job in (None, job)]


def hold_before(database: Database, installation: str, job: str) -> Hold | None:
    """The hold under which a run is about to begin; None also while nobody can be asked.

    The run that begins then meets the guard, which lets nobody in without an answer.
    """
    try:
        with (
            database.connect(f"{job} hold") as connection,
            database.transaction(connection, read_only=True) as cursor,
        ):
            found = open_holds(cursor, installation, job)
    except (DatabaseUnavailable, psycopg.Error):
        return None
    return found[0] if found else None


def hold(
    cursor: psycopg.Cursor[TupleRow], installation: str, job: str | None, who: str, why: str
) -> bool:
    """Hold a job, or all.

    Args:
        cursor: In the caller's transaction.
        installation: Whose jobs.
        job: Which; None for every job.
        who: Such as `ada@desk`.
        why: In a sentence.

    Returns:
        False when it was held already: that hold stays as it is.
    """
    cursor.execute(_HOLD, {"installation": installation, "job": job, "who": who, "why": why})
    return cursor.rowcount == 1


def release(
    cursor: psycopg.Cursor[TupleRow], installation: str, job: str | None, who: str
) -> Hold | None:
    """End a hold; returns it, or None when there was none.

    Args:
        cursor: In the caller's transaction.
        installation: Whose jobs.
        job: As it was held; None ends that of every job, and no other.
        who: Who ends it.
    """
    cursor.execute(_RELEASE, {"installation": installation, "job": job, "who": who})
    row = cursor.fetchone()
    return None if row is None else Hold(*row)
