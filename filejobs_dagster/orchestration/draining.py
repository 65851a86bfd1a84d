"""The queue held for all, so that the code server can be replaced without a run that fails.

A code server that was told to end still waits for its runs, and refuses new ones: the daemon then
fails what stands in the queue, after five attempts of half a minute. Nothing of Dagster's own
pauses a queue, so the project's coordinator asks Dagster's storage, at each look of the daemon,
whether somebody holds it. What is queued meanwhile, by schedules, backfills and retries, waits.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from filejobs_dagster.postgres.connect import Database, one

if TYPE_CHECKING:
    # `filejobs status` asks who holds the queue, and does without Dagster.
    import dagster as dg

KEY = "filejobs/drain"


@dataclass(frozen=True)
class Pause:
    """Who holds the queue, and since when."""

    by: str
    since: datetime

    def __str__(self) -> str:
        return f"the queue is held by {self.by} since {self.since:%Y-%m-%d %H:%M} UTC"

    def and_how_to_end_it(self) -> str:
        """One sentence, and the command."""
        return f"No run begins: {self}. `filejobs drain --resume` ends it."


def pause_of(instance: dg.DagsterInstance) -> Pause | None:
    """Who holds the queue of an instance, or None."""
    return _read(instance.daemon_cursor_storage.get_cursor_values({KEY}).get(KEY))


def pause_at(url: str) -> Pause | None:
    """Who holds the queue whose storage is at an address; None also where there are no tables yet.

    Raises:
        DatabaseUnavailable: It cannot be reached.
        psycopg.Error: It cannot be read.
    """
    database = Database(url)
    with (
        database.connect("draining") as connection,
        database.transaction(connection, read_only=True) as cursor,
    ):
        cursor.execute("SET LOCAL search_path TO DEFAULT")
        cursor.execute("SELECT to_regclass('kvs') IS NOT NULL")
        if not one(cursor)[0]:
            return None
        cursor.execute("SELECT (SELECT value FROM kvs WHERE key = %s)", (KEY,))
        return _read(one(cursor)[0])


def _read(kept: str | None) -> Pause | None:
    if not kept:
        return None
    said = json.loads(kept)
    return Pause(str(said["by"]), datetime.fromtimestamp(float(said["since"]), timezone.utc))


def pause(instance: dg.DagsterInstance, by: str) -> Pause:
    """Hold the queue; who holds it already goes on holding it."""
    held = pause_of(instance)
    if held is not None:
        return held
    said = json.dumps({"by": by, "since": time.time()})
    instance.daemon_cursor_storage.set_cursor_values({KEY: said})
    return Pause(by, datetime.now(timezone.utc))


def resume(instance: dg.DagsterInstance) -> Pause | None:
    """Let the queue go on, and return who held it."""
    held = pause_of(instance)
    instance.daemon_cursor_storage.set_cursor_values({KEY: ""})
    return held


def holds(instance: dg.DagsterInstance) -> bool:
    """Whether the daemon will let nothing through, as it reads the instance's limits."""
    queue = instance.get_concurrency_config().run_queue_config
    return queue is not None and queue.max_concurrent_runs == 0


def runs_at_work(instance: dg.DagsterInstance) -> list[dg.DagsterRun]:
    """Every run that a code server or a command works on, of whichever installation."""
    import dagster as dg  # noqa: PLC0415 (see above)

    at_work = (
        dg.DagsterRunStatus.STARTING,
        dg.DagsterRunStatus.STARTED,
        dg.DagsterRunStatus.CANCELING,
    )
    return list(instance.get_runs(dg.RunsFilter(statuses=list(at_work))))


def runs_waiting(instance: dg.DagsterInstance) -> int:
    """How many runs stand in the queue."""
    import dagster as dg  # noqa: PLC0415 (see above)

    return instance.get_runs_count(dg.RunsFilter(statuses=[dg.DagsterRunStatus.QUEUED]))
