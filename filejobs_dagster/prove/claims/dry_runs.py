"""Dry runs that look healthy on a job that was meant to sweep."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from filejobs_dagster.jobs.upload_reservations import JOB
from filejobs_dagster.jobs.upload_reservations.statements import count_due
from filejobs_dagster.prove import collector
from filejobs_dagster.prove.evidence import Claim, Evidence, NotShown, Side, tidy
from filejobs_dagster.prove.stage import read_standings, record_daily

if TYPE_CHECKING:
    from filejobs_dagster.prove.stage import Scene, Stage

DAYS = 42
WAITING = 25

NAIVE = tidy(
    """
    SELECT count(*) FILTER (WHERE outcome = 'ok') AS succeeded,
           count(*) FILTER (WHERE outcome = 'failed') AS failed,
           max(finished_at) > now() - interval '26 hours' AS is_recent
      FROM job_run
     WHERE job = %(job)s
    """
)


def _demonstrate(stage: Stage) -> Evidence:
    store = stage.store()
    with stage.scene() as scene:
        for number in range(WAITING):
            collector.reserve(scene, store, f"files/left-{number}", b"left behind")
        record_daily(scene, JOB, mode="dry", days=DAYS, newest=timedelta(hours=23))
        identity = collector.new_run("dry")
        outcome = collector.collect(scene.database, store, identity)
        if not outcome.ok:
            raise NotShown(f"the dry run failed: {outcome.error}")
        collector.record(scene, identity)
        return Evidence(_careless(scene), _guarded(scene))


def _careless(scene: Scene) -> Side:
    ((succeeded, failed, is_recent),) = scene.rows(NAIVE, {"job": JOB})
    waiting = _waiting(scene)
    healthy = bool(succeeded) and not failed and bool(is_recent)
    return Side(
        "it ran lately and nothing failed",
        NAIVE,
        (
            ("runs that succeeded", succeeded),
            ("runs that failed", failed),
            ("the last one is recent", bool(is_recent)),
            ("so the job looks", "healthy" if healthy else "unhealthy"),
            ("reservations still waiting to be swept", waiting),
        ),
        lost=healthy and waiting == WAITING,
    )


def _guarded(scene: Scene) -> Side:
    reading = read_standings(scene, [JOB])
    standing = reading.by_job[JOB]
    return Side(
        "only sweeping counts as sweeping: successful runs in the configured mode",
        reading.statement,
        (
            ("standing", standing.word),
            ("severity", standing.severity),
            ("reason", standing.reason),
            ("last run", None if standing.last_run is None else standing.last_run.mode),
            ("last success that counts", "there is one" if standing.last_success else None),
        ),
        lost=not standing.alarming,
    )


def _waiting(scene: Scene) -> int:
    with (
        scene.connect("observer") as connection,
        scene.database.transaction(connection, read_only=True) as cursor,
    ):
        return count_due(cursor, timedelta(0), most=WAITING + 1)


CLAIM = Claim(
    "dry-runs",
    "Six weeks of successful dry runs on a job that is configured live are not read as swept.",
    _demonstrate,
)
