"""A failed run with no count that reads as zero."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import psycopg

from filejobs_dagster.jobs.upload_reservations import JOB
from filejobs_dagster.ledger.outcome import Outcome
from filejobs_dagster.prove import collector
from filejobs_dagster.prove.evidence import Claim, Evidence, FactValue, Side, tidy
from filejobs_dagster.prove.stage import read_standings
from filejobs_dagster.run_context import JobFailed

if TYPE_CHECKING:
    from filejobs_dagster.prove.stage import Scene, Stage

NAIVE = tidy(
    """
    SELECT coalesce(sum(scanned), 0) AS scanned, coalesce(sum(acted), 0) AS acted
      FROM job_run
     WHERE run_id = %(run_id)s
    """
)

_RECORDED = "SELECT outcome, scanned, acted FROM job_run WHERE run_id = %(run_id)s"

_CONSTRAINT = """
SELECT format('ALTER TABLE job_run ADD CONSTRAINT %I %s', conname, pg_get_constraintdef(oid))
  FROM pg_constraint
 WHERE conrelid = 'job_run'::regclass
   AND conname = 'job_run_error_iff_failed'
"""

_INSERT = """
INSERT INTO job_run (run_id, installation, job, started_at, outcome, mode, error)
VALUES (%(run_id)s, 'prove', 'upload_reservations', now(), %(outcome)s, 'live', %(error)s)
"""


def _demonstrate(stage: Stage) -> Evidence:
    with stage.scene() as scene:
        clean = _run(scene, lambda: Outcome(scanned=0, acted=0))
        broken = _run(scene, _storage_is_down)
        return Evidence(_careless(scene, clean, broken), _guarded(scene, clean, broken))


def _storage_is_down() -> Outcome:
    raise JobFailed("Storage does not answer; nothing was decided.")


def _run(scene: Scene, body: Any) -> str:
    """One run from its locks to its record, as the project makes it."""
    identity = collector.new_run()
    collector.conduct_only(scene, identity, body)
    collector.record(scene, identity)
    return identity.run_id


def _careless(scene: Scene, clean: str, broken: str) -> Side:
    (of_clean,) = scene.rows(NAIVE, {"run_id": clean})
    (of_broken,) = scene.rows(NAIVE, {"run_id": broken})
    return Side(
        "a missing count is taken for zero",
        NAIVE,
        (
            ("a pass that found nothing to do", _counts(*of_clean)),
            ("a run that failed before it looked", _counts(*of_broken)),
            ("they can be told apart", of_clean != of_broken),
        ),
        lost=of_clean == of_broken,
    )


def _guarded(scene: Scene, clean: str, broken: str) -> Side:
    (of_clean,) = scene.rows(_RECORDED, {"run_id": clean})
    (of_broken,) = scene.rows(_RECORDED, {"run_id": broken})
    refusals = (
        ("a success with an error", _refusal(scene, "ok", "it did not work")),
        ("a failure without an error", _refusal(scene, "failed", None)),
    )
    standing = read_standings(scene, [JOB]).by_job[JOB]
    kept = of_clean == ("ok", 0, 0) and of_broken == ("failed", None, None)
    facts: tuple[tuple[str, FactValue], ...] = (
        ("a pass that found nothing to do", f"{of_clean[0]}, {_counts(*of_clean[1:])}"),
        ("a run that failed before it looked", f"{of_broken[0]}, {_counts(*of_broken[1:])}"),
        *((label, refusal or "was accepted") for label, refusal in refusals),
        ("standing", f"{standing.word}: {standing.reason}"),
    )
    constraint = scene.rows(_CONSTRAINT)
    return Side(
        "zero is a claim: NULL until the run has decided something, and the table insists",
        constraint[0][0] if constraint else "(the constraint is not there)",
        facts,
        lost=not kept or not all(refusal for _, refusal in refusals) or not standing.alarming,
    )


def _refusal(scene: Scene, outcome: str, error: str | None) -> str | None:
    """What PostgreSQL says to such a record, or None when it takes it."""
    values = {"run_id": str(uuid.uuid4()), "outcome": outcome, "error": error}
    try:
        scene.rows(_INSERT, values)
    except psycopg.errors.CheckViolation as refused:
        return f"refused ({refused.sqlstate}): {refused.diag.message_primary}"
    return None


def _counts(scanned: int | None, acted: int | None) -> str:
    shown = ["NULL" if count is None else str(count) for count in (scanned, acted)]
    return f"scanned {shown[0]}, acted {shown[1]}"


CLAIM = Claim(
    "null-counts",
    "A run that failed before it looked never reads as a clean pass that found nothing.",
    _demonstrate,
)
