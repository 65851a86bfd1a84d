"""What Dagster's automatic retry must not do: turn a cancelled run back on, or a dry one live.

The daemon retries a run whose process crashed, with the tags and the config of that run. Two holes
are left to whoever receives the retry:

- A run that was told to stop and whose process was killed before it had stopped is *failed* to
  Dagster, not cancelled, so it is started once more.
- What was asked for is copied, not what it came to: a run that asked to be live and was dry because
  of `allow_live: false` would be live at the second attempt, if the veto was lifted meanwhile.
"""

from collections.abc import Iterator

import dagster as dg
from dagster._core.execution.backfill import BulkActionStatus

from filejobs_dagster.jobs.mode import ModeDecision
from filejobs_dagster.orchestration import tags

_STOPPED = (BulkActionStatus.CANCELING, BulkActionStatus.CANCELED)


def refuse_retry_of_cancelled(context: dg.OpExecutionContext) -> None:
    """Refuse an automatic retry of a run, or of a backfill, that somebody has cancelled.

    Raises:
        dagster.Failure: It is one; nothing was touched, and it is not retried again.
    """
    parent = _retried(context.run)
    if parent is None:
        return
    for repeated in _chain(context.instance, parent):
        if _was_told_to_stop(context.instance, repeated):
            raise _refusal(
                f"run {repeated}, which it repeats, was cancelled before its process ended"
            )
    backfill_id = context.run.tags.get(tags.BACKFILL)
    if backfill_id is None:
        return
    backfill = context.instance.get_backfill(backfill_id)
    if backfill is not None and backfill.status in _STOPPED:
        raise _refusal(f"backfill {backfill_id}, to which it belongs, was cancelled")


def never_livelier(run: dg.DagsterRun, decision: ModeDecision) -> ModeDecision:
    """The mode of a run; an automatic retry of a run that was dry stays dry.

    Args:
        run: As Dagster has it. A retry carries the tags of the run that it repeats, the effective
            mode among them.
        decision: The mode without regard to that.
    """
    if _retried(run) is None or run.tags.get(tags.EFFECTIVE_MODE) != "dry":
        return decision
    if decision.mode == "dry":
        return decision
    return ModeDecision("dry", "live was asked, but the run that this one repeats was dry")


def _retried(run: dg.DagsterRun) -> str | None:
    """The run that this one repeats on the daemon's own account, or None."""
    return tags.trigger_of(run.tags).name if tags.trigger_of(run.tags).kind == "retry" else None


def _chain(instance: dg.DagsterInstance, run_id: str) -> Iterator[str]:
    """A run, and the runs that it repeated on the daemon's own account, the newest first."""
    next_one: str | None = run_id
    seen: set[str] = set()
    while next_one is not None and next_one not in seen:
        seen.add(next_one)
        yield next_one
        run = instance.get_run_by_id(next_one)
        next_one = None if run is None else _retried(run)


def _was_told_to_stop(instance: dg.DagsterInstance, run_id: str) -> bool:
    told = {dg.DagsterEventType.RUN_CANCELING, dg.DagsterEventType.RUN_CANCELED}
    return bool(instance.all_logs(run_id, of_type=told))


def _refusal(why: str) -> dg.Failure:
    return dg.Failure(
        f"This automatic retry refuses to start: {why}. Start the job again if that is meant. "
        "Nothing was touched.",
        allow_retries=False,
    )
