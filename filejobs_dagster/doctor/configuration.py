"""The settings file and the jobs in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.doctor.finding import Finding, failed, ok, warning
from filejobs_dagster.registry import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.settings import Loaded, Settings


def check_settings(loaded: Loaded) -> Iterator[Finding]:
    """One finding for a right file, or one for each problem."""
    if loaded.settings is not None:
        yield ok("settings", f"{loaded.path}: installation {loaded.settings.installation}")
    for problem in loaded.problems:
        line = f" (line {problem.line})" if problem.line is not None else ""
        yield failed("settings", f"{problem.path}{line}: {problem.found}", problem.expected)


def check_jobs(settings: Settings) -> Iterator[Finding]:
    """Look at jobs that cannot run, and at jobs whose stopping nobody would notice."""
    if not settings.jobs:
        yield warning("jobs", "the settings name no job", "write at least one under jobs")
        return
    missing = [name for name in settings.jobs if not BY_NAME[name].built]
    if missing:
        yield warning(
            "jobs",
            f"this version has no code for {', '.join(missing)}",
            "such a job fails as soon as it is started; take it out of the settings until then",
        )
    unwatched = [name for name, job in settings.jobs.items() if job.stale_after is None]
    if unwatched:
        yield warning(
            "jobs",
            f"without stale_after: {', '.join(unwatched)}",
            "write stale_after, so that somebody is told when the job stops",
        )
    if not missing and not unwatched:
        yield ok("jobs", ", ".join(f"{name} ({job.mode})" for name, job in settings.jobs.items()))
    if not settings.allow_live and any(job.mode == "live" for job in settings.jobs.values()):
        yield warning(
            "jobs",
            "allow_live is off, so jobs with mode: live run dry, and their standing says so",
            "set allow_live: true (and FILEJOBS_ALLOW_LIVE=1 or unset) when they may delete",
        )
