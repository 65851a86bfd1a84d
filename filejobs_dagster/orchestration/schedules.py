"""Schedules, for the jobs whose settings give one."""

import dagster as dg

from filejobs_dagster.orchestration.requests import active_run, request_run
from filejobs_dagster.registry import BY_NAME
from filejobs_dagster.settings import Loaded, Settings


def all_schedules(loaded: Loaded, jobs: dict[str, dg.JobDefinition]) -> list[dg.ScheduleDefinition]:
    """One schedule for each job of the settings that has one; none when they are broken."""
    if loaded.settings is None:
        return []
    settings = loaded.settings
    return [
        _schedule(settings, job, configured.schedule, jobs[job])
        for job, configured in settings.jobs.items()
        if configured.schedule is not None and job in jobs
    ]


def _schedule(
    settings: Settings, job: str, cron: str, definition: dg.JobDefinition
) -> dg.ScheduleDefinition:
    @dg.schedule(
        name=f"{job}_schedule",
        job=definition,
        cron_schedule=cron,
        execution_timezone=settings.jobs[job].time_zone,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=(
            f"{BY_NAME[job].summary} Runs {settings.jobs[job].mode} over everything that is due; "
            "a tick that was missed is not repeated, the next one covers it."
        ),
    )
    def schedule(
        context: dg.ScheduleEvaluationContext,
    ) -> dg.RunRequest | dg.SkipReason:
        active = active_run(context.instance, settings, job)
        if active is not None:
            return dg.SkipReason(f"Run {active} of {job} is queued or running.")
        return request_run(settings, job)

    return schedule
