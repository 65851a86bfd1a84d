"""Reports each job's standing to the catalog, so that the overview of the web UI shows it."""

import json
from datetime import datetime, timedelta, timezone
from typing import Any

import dagster as dg

from filejobs_dagster.orchestration.standing_checks import newest_runs_of, verdicts, words
from filejobs_dagster.settings import Loaded

REPEATED_AFTER = timedelta(minutes=10)
"""An unchanged verdict is reported again after this, so that its time tells that somebody looks.

Each report is an event of about a kilobyte that Dagster keeps: every minute would be too much.
"""


def job_standing_sensor(loaded: Loaded) -> dg.SensorDefinition:
    """The sensor; it reports and never raises, which `job_freshness` does."""

    @dg.sensor(
        name="job_standing",
        minimum_interval_seconds=60,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Shows in the catalog where each job stands: a check that is red for a job "
        "that never ran, is stale, behind or failed. It reports what `filejobs status` says.",
    )
    def job_standing(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        found = verdicts(loaded)
        now = datetime.now(timezone.utc)
        known: dict[str, Any] = json.loads(context.cursor) if context.cursor else {}
        said, runs = words(found), newest_runs_of(found)
        news = [
            evaluation
            for evaluation in found
            if _is_news(
                known.get(job := evaluation.asset_key.to_user_string()), said[job], runs[job], now
            )
        ]
        for evaluation in news:
            job = evaluation.asset_key.to_user_string()
            known[job] = {"word": said[job], "run": runs[job], "at": now.isoformat()}
        remembered = {job: known[job] for job in said}
        return dg.SensorResult(
            asset_events=news,
            cursor=json.dumps(remembered),
            skip_reason=None if news else dg.SkipReason("No standing has changed."),
        )

    return job_standing


def _is_news(before: dict[str, str] | None, word: str, run: str, now: datetime) -> bool:
    """Tell whether a verdict is to be reported.

    A newer run is news whatever the word: Dagster greys a verdict that is older than it.
    """
    return (
        before is None
        or before["word"] != word
        or before.get("run") != run
        or now - datetime.fromisoformat(before["at"]) >= REPEATED_AFTER
    )
