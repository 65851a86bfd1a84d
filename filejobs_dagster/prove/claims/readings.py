"""What two of the claims about standing share: history, and the project's reading of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from filejobs_dagster.ledger.standing import Expectation, Standing, standings
from filejobs_dagster.prove.observe import those_that, watch
from filejobs_dagster.prove.store import INSTALLATION

if TYPE_CHECKING:
    from collections.abc import Sequence

    from filejobs_dagster.ledger.words import Mode
    from filejobs_dagster.prove.stage import Scene

STALE_AFTER = timedelta(hours=26)

_RECORD_DAILY = """
INSERT INTO job_run
    (run_id, installation, job, started_at, finished_at, outcome, mode, scanned, acted, detail)
SELECT %(job)s || '/' || day, %(installation)s, %(job)s,
       now() - (%(newest)s + day * interval '1 day') - interval '1 minute',
       now() - (%(newest)s + day * interval '1 day'),
       'ok', %(mode)s, 12, CASE WHEN %(mode)s = 'live' THEN 12 ELSE 0 END,
       '{"window": {"covers": "everything"}}'
  FROM generate_series(%(days)s::integer - 1, 0, -1) AS day
"""


@dataclass(frozen=True)
class Reading:
    """What the project says of some jobs.

    Attributes:
        statement: The query that it executed.
        by_job: Each job's standing.
    """

    statement: str
    by_job: dict[str, Standing]


def record_daily(
    scene: Scene, job: str, *, mode: Mode, days: int, newest: timedelta = timedelta(0)
) -> None:
    """Record one successful run a day, the newest of them `newest` ago."""
    scene.rows(
        _RECORD_DAILY,
        {
            "job": job,
            "installation": INSTALLATION,
            "mode": mode,
            "days": days,
            "newest": newest,
        },
    )


def read_standings(scene: Scene, jobs: Sequence[str], mode: Mode = "live") -> Reading:
    """Ask the project how the jobs stand, each with a threshold of `STALE_AFTER`."""
    expected = [
        Expectation(job, configured=True, mode=mode, stale_after=STALE_AFTER) for job in jobs
    ]
    with scene.connect("standing") as connection:
        statements = watch(connection)
        with scene.database.transaction(connection, read_only=True) as cursor:
            found = standings(cursor, INSTALLATION, expected)
    return Reading(
        those_that(statements, "SELECT expected.job"),
        {standing.job: standing for standing in found},
    )
