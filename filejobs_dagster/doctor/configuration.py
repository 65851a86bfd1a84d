"""The settings file and the jobs in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.doctor.finding import Finding, failed, ok, warning
from filejobs_dagster.registry import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import date

    from filejobs_dagster.settings import BucketSettings, Loaded, Settings, SourceSettings

_SWEEP, _TRIM = "storage_orphans", "audit_trim"


def check_settings(loaded: Loaded) -> Iterator[Finding]:
    """One finding for a right file, or one for each problem."""
    if loaded.settings is not None:
        yield ok("settings", f"{loaded.path}: installation {loaded.settings.installation}")
    for problem in loaded.problems:
        line = f" (line {problem.line})" if problem.line is not None else ""
        yield failed("settings", f"{problem.path}{line}: {problem.found}", problem.expected)


def check_idle(settings: Settings, today: date) -> Iterator[Finding]:
    """Look for lines that have no effect as things stand; what can never have one is a mistake.

    Args:
        settings: All of them.
        today: By which the first day of the Partitions tab is judged.
    """
    for path, why in (*_idle_in_buckets(settings), *_idle_beside(settings, today)):
        yield warning("settings", f"{path} does nothing: {why}", "leave it out, or do what it says")


def _idle_in_buckets(settings: Settings) -> Iterator[tuple[str, str]]:
    jobs = [name for name in settings.jobs if BY_NAME[name].deletes_bytes]
    swept = {settings.bucket_of(name)[0] for name in jobs}
    of_orphans = settings.bucket_of(_SWEEP)[0] if _SWEEP in jobs else None
    places = (settings.audit.pins, settings.audit.archive)
    kept = {place.bucket for place in places if place is not None}
    for entry, bucket in settings.buckets.items():
        path = f"buckets.{entry}"
        if entry not in swept | kept:
            yield path, "no job deletes from it, and the audit keeps nothing there"
            continue
        if entry != of_orphans:
            yield from _idle_without_sweep(path, bucket)
        for one, other in _twins(bucket.sources):
            yield f"{path}.sources[{other}]", f"sources[{one}] asks the same in the same place"


def _idle_without_sweep(path: str, bucket: BucketSettings) -> Iterator[tuple[str, str]]:
    for line in ("shape", "rewrites"):
        if getattr(bucket, line):
            yield f"{path}.{line}", f"only {_SWEEP} reads it, which does not sweep here"
    for index, source in enumerate(bucket.sources):
        if source.read_from is not None:
            where = f"{path}.sources[{index}].read_from"
            yield where, f"only the one long read of {_SWEEP} asks a replica"


def _idle_beside(settings: Settings, today: date) -> Iterator[tuple[str, str]]:
    if settings.scratch_dir is not None and _SWEEP not in settings.jobs:
        yield "scratch_dir", f"only {_SWEEP} sorts on disk"
    if settings.audit.archive is not None and _TRIM not in settings.jobs:
        yield "audit.archive", f"{_TRIM}, which writes there, is none of the jobs"
    if settings.alerts.repeat_after is not None and not settings.alerts.to:
        yield "alerts.repeat_after", "alerts.to names nobody who is told"
    if settings.backfill_from > today:
        yield "backfill_from", "it is in the future, so the Partitions tab shows no day"


def _twins(sources: Sequence[SourceSettings]) -> Iterator[tuple[int, int]]:
    """Sources that say nothing which an earlier one does not say."""
    asked = [
        (one.sql.split(), one.database, one.transforms, one.recheck_sql, one.read_from)
        for one in sources
    ]
    for index, one in enumerate(asked):
        if one in asked[:index]:
            yield asked.index(one), index


def check_jobs(settings: Settings) -> Iterator[Finding]:
    """Look at jobs whose stopping nobody would notice, and at what they are not allowed."""
    if not settings.jobs:
        yield warning("jobs", "the settings name no job", "write at least one under jobs")
        return
    unwatched = [name for name, job in settings.jobs.items() if job.stale_after is None]
    if unwatched:
        yield warning(
            "jobs",
            f"without stale_after: {', '.join(unwatched)}",
            "write stale_after, so that somebody is told when the job stops",
        )
    else:
        yield ok("jobs", ", ".join(f"{name} ({job.mode})" for name, job in settings.jobs.items()))
    if not settings.allow_live and any(job.mode == "live" for job in settings.jobs.values()):
        yield warning(
            "jobs",
            "allow_live is off, so jobs with mode: live run dry, and their standing says so",
            "set allow_live: true (and FILEJOBS_ALLOW_LIVE=1 or unset) when they may delete",
        )
