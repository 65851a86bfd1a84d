"""The settings file and the jobs in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.doctor.finding import Finding, failed, ok, warning
from filejobs_dagster.registry import BY_NAME, JOBS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import date

    from filejobs_dagster.settings import BucketSettings, Loaded, Settings, SourceSettings


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
    places = (settings.audit.pins, settings.audit.archive)
    kept = {place.bucket for place in places if place is not None}
    for entry, bucket in settings.buckets.items():
        path = f"buckets.{entry}"
        if entry not in swept | kept:
            yield path, "no job deletes from it, and the audit keeps nothing there"
            continue
        yield from _unread(path, entry, bucket, settings)
        for one, other in _twins(bucket.sources):
            yield f"{path}.sources[{other}]", f"sources[{one}] asks the same in the same place"


def _unread(
    path: str, entry: str, bucket: BucketSettings, settings: Settings
) -> Iterator[tuple[str, str]]:
    """What a bucket says to a job that does not work on it."""
    said = {line: f"{path}.{line}" for line in ("shape", "rewrites") if getattr(bucket, line)}
    for index, source in enumerate(bucket.sources):
        if source.read_from is not None:
            said.setdefault("read_from", f"{path}.sources[{index}].read_from")
    for line, where in said.items():
        reader = _reader(line)
        if reader not in settings.jobs or settings.bucket_of(reader)[0] != entry:
            yield where, f"only {reader} reads it, which does not work on this bucket"


def _reader(line: str) -> str:
    """The one job that reads a line of the settings outside of its own part."""
    return next(job.name for job in JOBS if line in job.reads)


def _idle_beside(settings: Settings, today: date) -> Iterator[tuple[str, str]]:
    said = {"scratch_dir": settings.scratch_dir, "audit.archive": settings.audit.archive}
    for line, value in said.items():
        if value is not None and _reader(line) not in settings.jobs:
            yield line, f"only {_reader(line)} reads it, which is none of the jobs"
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
