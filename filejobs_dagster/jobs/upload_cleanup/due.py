"""How much is due right now, for the sensor that starts the job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from filejobs_dagster.jobs.upload_cleanup.statements import no_pause
from filejobs_dagster.postgres.rows import one

if TYPE_CHECKING:
    from datetime import timedelta

    import psycopg
    from psycopg.rows import TupleRow

_NO_PAUSE = no_pause("(SELECT clock_timestamp())")

# Sub-selects, evaluated once: a volatile function cannot be an index condition.
_DUE = f"""
SELECT (SELECT count(*)
          FROM (SELECT FROM upload
                 WHERE state = 'cleanup' AND dead_at IS NULL
                   AND NOT legal_hold
                   AND (retained_until IS NULL OR retained_until <= (SELECT clock_timestamp()))
                   AND next_attempt_at <= (SELECT clock_timestamp())
                   AND {_NO_PAUSE}
                 ORDER BY next_attempt_at, id
                 LIMIT %(most)s) AS cleanup),
       (SELECT count(*)
          FROM (SELECT FROM upload
                 WHERE state = 'uncertain'
                   AND next_attempt_at <= (SELECT clock_timestamp())
                   AND {_NO_PAUSE}
                 ORDER BY next_attempt_at, id
                 LIMIT %(most)s) AS uncertain),
       (SELECT count(*)
          FROM (SELECT FROM upload
                 WHERE state = 'writing'
                   AND activity_at < (SELECT clock_timestamp() - %(writing_limit)s)
                 ORDER BY activity_at, id
                 LIMIT %(most)s) AS silent),
       (SELECT count(*)
          FROM (SELECT FROM upload
                 WHERE state = 'retained'
                   AND coalesce(next_attempt_at, retained_until, collectable_at)
                       <= (SELECT clock_timestamp())
                   AND (retained_until IS NULL OR retained_until <= (SELECT clock_timestamp()))
                   AND {_NO_PAUSE}
                 LIMIT %(most)s) AS retained)
"""  # noqa: S608 (our own text)


@dataclass(frozen=True)
class Due:
    """Rows that a run would look at now, each kind counted up to a limit.

    Attributes:
        cleanup: To be removed.
        uncertain: To be asked about.
        silent: Writers that gave no sign of life for too long.
        retained: Locks that may be over.
    """

    cleanup: int
    uncertain: int
    silent: int
    retained: int

    @property
    def anything(self) -> bool:
        """True when a run would find something to do."""
        return bool(self.cleanup or self.uncertain or self.silent or self.retained)

    def __str__(self) -> str:
        """For a tick."""
        return (
            f"{self.cleanup:,} to clean up, {self.uncertain:,} uncertain, {self.silent:,} silent, "
            f"{self.retained:,} retained"
        )


def count_due(
    cursor: psycopg.Cursor[TupleRow], writing_limit: timedelta, *, most: int = 1000
) -> Due:
    """Count what is due by the database's clock, each kind up to `most`."""
    cursor.execute(_DUE, {"writing_limit": writing_limit, "most": most})
    return Due(*one(cursor))
