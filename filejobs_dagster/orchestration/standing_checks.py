"""Each job's standing as a check of its entry in the catalog: seen without opening a run.

Of what Dagster offers, a check is what tells the truth. A freshness policy is not: a job that never
ran is *unknown* to it, dry runs and days of a backfill do not count or all count, and what it shows
comes from Dagster's records, which are pruned. A check fails for a job that never ran, and its
verdict is that of `filejobs status`, read from `job_run`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import dagster as dg
import psycopg

from filejobs_dagster.alerts.conditions import kind_of
from filejobs_dagster.alerts.mutes import Mute, active, covering
from filejobs_dagster.expectations import expectations
from filejobs_dagster.ledger.standing import Standing, standings
from filejobs_dagster.postgres.connect import Database, DatabaseUnavailable
from filejobs_dagster.registry import JOBS
from filejobs_dagster.runbook import of_condition
from filejobs_dagster.settings import Loaded, SettingsError, known_secrets
from filejobs_dagster.text import format_duration, sanitize_exception

CHECK = "standing"
NEWEST_RUN = "newest recorded run"

_DESCRIPTION = (
    "Where the job stands, as `filejobs status` says it: green only after a run in the configured "
    "mode over everything that was due, within the threshold. `job_standing` looks every minute; "
    "when the time of the last look is old, the daemon is dead, and the verdict with it."
)


def checked_jobs(loaded: Loaded) -> list[str]:
    """The jobs that have a check: those of the settings; all while these are broken.

    A job that is not in the settings has none, since nobody asked for it.
    """
    return [job.name for job in JOBS if loaded.settings is None or job.name in loaded.settings.jobs]


def standing_checks(loaded: Loaded) -> list[dg.AssetChecksDefinition]:
    """The checks; *Execute* in the web UI looks at once."""
    jobs = checked_jobs(loaded)
    if not jobs:
        return []

    @dg.multi_asset_check(
        name="look_at_standing",
        description="Reads the standing of each job from job_run.",
        specs=[dg.AssetCheckSpec(CHECK, asset=job, description=_DESCRIPTION) for job in jobs],
        can_subset=True,
    )
    def look_at_standing(
        context: dg.AssetCheckExecutionContext,
    ) -> Iterable[dg.AssetCheckResult]:
        wanted = {key.asset_key.to_user_string() for key in context.selected_asset_check_keys}
        for verdict in verdicts(loaded):
            if verdict.asset_key.to_user_string() in wanted:
                yield dg.AssetCheckResult(
                    passed=verdict.passed,
                    asset_key=verdict.asset_key,
                    check_name=CHECK,
                    metadata=verdict.metadata,
                    severity=verdict.severity,
                    description=verdict.description,
                )

    return [look_at_standing]


def verdicts(loaded: Loaded) -> list[dg.AssetCheckEvaluation]:
    """One verdict a job; each fails when the standing cannot be known."""
    jobs = checked_jobs(loaded)
    try:
        found, mutes = _standings(loaded)
    except SettingsError as error:
        return [_unknown(job, f"filejobs.yaml has mistakes:\n{error}", "settings") for job in jobs]
    except (psycopg.Error, DatabaseUnavailable) as error:
        secrets = () if loaded.settings is None else known_secrets(loaded.settings)
        said = sanitize_exception(error, known=secrets)
        return [_unknown(job, f"the database does not answer: {said}", "database") for job in jobs]
    return [_verdict(standing, mutes) for standing in found if standing.job in jobs]


def _standings(loaded: Loaded) -> tuple[Sequence[Standing], Sequence[Mute]]:
    settings = loaded.require()
    with (
        Database.of(settings.database).connect("job_standing") as connection,
        Database.of(settings.database).transaction(connection, read_only=True) as cursor,
    ):
        found = standings(cursor, settings.installation, expectations(settings))
        return found, active(cursor, settings.installation)


def _unknown(job: str, why: str, kind: str) -> dg.AssetCheckEvaluation:
    return dg.AssetCheckEvaluation(
        asset_key=dg.AssetKey(job),
        check_name=CHECK,
        passed=False,
        severity=dg.AssetCheckSeverity.ERROR,
        description=f"unknown: {why}{_what_now(of_condition(kind))}",
        metadata={"standing": "unknown"},
    )


def _verdict(standing: Standing, mutes: Sequence[Mute]) -> dg.AssetCheckEvaluation:
    loud = standing.severity != "warning"
    muted = covering(mutes, standing.job, kind_of(standing))
    silent = "" if muted is None else f" (told to nobody: muted {muted.told})"
    return dg.AssetCheckEvaluation(
        asset_key=dg.AssetKey(standing.job),
        check_name=CHECK,
        passed=not standing.alarming,
        severity=dg.AssetCheckSeverity.ERROR if loud else dg.AssetCheckSeverity.WARN,
        description=_as_markdown(
            f"{standing.word}: {standing.reason}{silent}{_what_now(standing.see)}"
        ),
        metadata=dict(_facts(standing, muted)),
    )


def _what_now(see: str) -> str:
    return f". See {see}" if see else ""


def _as_markdown(text: str) -> str:
    """The text without a link, an image or HTML in it: the web UI reads a description as Markdown.

    A reason may quote an error, an error may quote a key, and a key is whatever somebody named it.
    """
    return re.sub(r"([\\\[<`])", r"\\\1", text)


def _facts(standing: Standing, muted: Mute | None) -> Iterator[tuple[str, Any]]:
    yield "standing", standing.word
    if muted is not None:
        yield "muted", muted.told
    yield "why", standing.reason
    yield "configured mode", standing.mode
    yield NEWEST_RUN, "none" if standing.last_run is None else standing.last_run.run_id
    yield "last success that counts", _when(standing.last_success)
    yield "last live success", _when(standing.last_live_success)
    threshold = standing.stale_after
    yield "threshold", "none in the settings" if threshold is None else format_duration(threshold)
    yield "failures since", standing.consecutive_failures


def _when(run: Any) -> Any:
    if run is None:
        return "never"
    ended: datetime = run.finished_at
    return dg.MetadataValue.timestamp(ended.timestamp())


def newest_runs_of(evaluations: Iterable[dg.AssetCheckEvaluation]) -> Mapping[str, str]:
    """Job to the run that was recorded last, as the verdict saw it."""
    found = {}
    for evaluation in evaluations:
        run = evaluation.metadata.get(NEWEST_RUN)
        found[evaluation.asset_key.to_user_string()] = "unknown" if run is None else str(run.value)
    return found


def words(evaluations: Iterable[dg.AssetCheckEvaluation]) -> Mapping[str, str]:
    """Job to its word, and whether it is muted: what must change for a verdict to be news."""
    return {
        evaluation.asset_key.to_user_string(): str(evaluation.metadata["standing"].value)
        + (" muted" if "muted" in evaluation.metadata else "")
        for evaluation in evaluations
    }
