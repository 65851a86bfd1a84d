"""What a schedule or a sensor asks for, and when it should not ask."""

from datetime import datetime, timezone

import dagster as dg

from filejobs_dagster.ledger.words import Mode
from filejobs_dagster.orchestration import tags
from filejobs_dagster.registry import BY_NAME
from filejobs_dagster.settings import Settings

ACTIVE = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


def active_run(instance: dg.DagsterInstance, settings: Settings, job: str) -> str | None:
    """The id of a run of the job that is queued or running, of any window, or None."""
    runs = instance.get_runs(
        dg.RunsFilter(
            job_name=job,
            statuses=ACTIVE,
            tags={tags.INSTALLATION: settings.installation},
        ),
        limit=1,
    )
    return runs[0].run_id if runs else None


def request_run(settings: Settings, job: str, *, asked: Mode | None = None) -> dg.RunRequest:
    """One run over everything that is due, in the mode of the settings or the one asked for.

    A live run of a partitioned job carries today, so that the Partitions tab is a map of the days
    on which the job ran; a dry one carries no day, since it does not make a day done.
    """
    mode = asked or settings.jobs[job].mode
    carried = {tags.MODE: mode, tags.WINDOW: tags.COVERS_EVERYTHING}
    today = None
    if mode == "live" and BY_NAME[job].partitioned:
        today = datetime.now(timezone.utc).date().isoformat()
    return dg.RunRequest(run_key=None, tags=carried, partition_key=today)
