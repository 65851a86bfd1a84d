"""The settings file and the jobs in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.doctor.finding import Finding, failed, ok, warning

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
