"""The daemon: the heartbeats that its parts write into Dagster's storage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

from filejobs_dagster.health.answer import no, yes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from filejobs_dagster.health.answer import Answer
    from filejobs_dagster.health.dagster_storage import DagsterStorage

EXPECTED_DAEMONS = ("SENSOR", "SCHEDULER", "BACKFILL", "QUEUED_RUN_COORDINATOR", "MONITORING")
"""The parts that the project's dagster.yaml turns on and that this project needs."""

# The column `timestamp` has no time zone and holds the writer's session's; the body has the epoch.
_HEARTBEATS = """
SELECT daemon_type,
       extract(epoch FROM clock_timestamp())::float8 - (body::jsonb ->> 'timestamp')::float8
  FROM daemon_heartbeats
"""


def daemon(
    storage: DagsterStorage,
    tolerance: timedelta,
    expected: Sequence[str] = EXPECTED_DAEMONS,
) -> Answer:
    """Ask when each part of the daemon last showed itself; they do so every 30 seconds.

    Args:
        storage: Where heartbeats are.
        tolerance: How old the newest heartbeat of each part may be, by the storage's clock.
        expected: Parts that must show themselves.
    """
    try:
        with storage.cursor() as cursor:
            cursor.execute(_HEARTBEATS)
            ages: dict[str, float] = dict(cursor.fetchall())
    except psycopg.errors.UndefinedTable:
        return no("Dagster's storage has no heartbeats yet: no daemon ever ran")
    except psycopg.Error as error:
        return no(f"the daemon's heartbeats cannot be read: {storage.why(error)}")
    silent = [part for part in expected if ages.get(part, float("inf")) > tolerance.total_seconds()]
    if silent:
        said = ", ".join(f"{part} {_since(ages.get(part))}" for part in silent)
        limit = f"{tolerance.total_seconds():.0f} s"
        return no(f"the daemon is silent: {said}; tolerated are {limit}")
    oldest = max((ages[part] for part in expected), default=0.0)
    return yes(f"the daemon showed itself {max(0.0, oldest):.0f} s ago")


def _since(age: float | None) -> str:
    return "never" if age is None else f"for {age:.0f} s"
