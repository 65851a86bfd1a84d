"""The HAVING that hides the job that never ran."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from filejobs_dagster.prove.evidence import Claim, Evidence, Side, tidy
from filejobs_dagster.prove.stage import read_standings, record_daily

if TYPE_CHECKING:
    from filejobs_dagster.ledger.standing import Standing
    from filejobs_dagster.prove.stage import Scene, Stage

FRESH, STALE, NEVER = "upload_reservations", "storage_orphans", "audit_seal"
ASKED = (FRESH, STALE, NEVER)

# LEFT JOIN keeps the job that never ran; HAVING then compares its NULL, which is not true.
NAIVE = tidy(
    """
    SELECT expected.job
      FROM unnest(%(jobs)s::text[]) AS expected (job)
      LEFT JOIN job_run ON job_run.job = expected.job AND job_run.outcome = 'ok'
     GROUP BY expected.job
    HAVING max(job_run.finished_at) < now() - interval '26 hours'
    """
)


def _demonstrate(stage: Stage) -> Evidence:
    with stage.scene() as scene:
        record_daily(scene, FRESH, mode="live", days=5, newest=timedelta(hours=1))
        record_daily(scene, STALE, mode="live", days=5, newest=timedelta(days=3))
        return Evidence(_careless(scene), _guarded(scene))


def _careless(scene: Scene) -> Side:
    named = {row[0] for row in scene.rows(NAIVE, {"jobs": list(ASKED)})}
    return Side(
        "the natural query for jobs that are late",
        NAIVE,
        (
            ("jobs that are asked about", ", ".join(ASKED)),
            ("jobs that it names", ", ".join(sorted(named)) or "none"),
            (f"{NEVER}, which never ran", "named" if NEVER in named else "silently dropped"),
        ),
        lost=STALE in named and NEVER not in named,
    )


def _guarded(scene: Scene) -> Side:
    reading = read_standings(scene, ASKED)
    named = {job for job, standing in reading.by_job.items() if standing.alarming}
    return Side(
        "one row per job of the registry, whatever was recorded",
        reading.statement,
        (
            ("jobs that it names", ", ".join(sorted(named)) or "none"),
            *((job, _said(reading.by_job.get(job))) for job in ASKED),
        ),
        lost=named != {STALE, NEVER},
    )


def _said(standing: Standing | None) -> str:
    return "no word of it" if standing is None else f"{standing.word}: {standing.reason}"


CLAIM = Claim(
    "never-run",
    "A job that has never run is named at once, beside those that are late.",
    _demonstrate,
)
