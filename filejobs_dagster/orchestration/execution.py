"""From a Dagster run to a run of ours and back."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import dagster as dg
from dagster._core.execution.backfill import BulkActionStatus

from filejobs_dagster.collector import Collector, Resources
from filejobs_dagster.door.door import Door
from filejobs_dagster.door.hold import hold_before
from filejobs_dagster.jobs.lifecycle import (
    ModeDecision,
    NotRecorded,
    RunSpec,
    UnknownMode,
    decide_mode,
    run_job,
)
from filejobs_dagster.ledger.outcome import EVERYTHING, Outcome, Window
from filejobs_dagster.ledger.progress import GivenUp, RunIdentity
from filejobs_dagster.orchestration import tags
from filejobs_dagster.orchestration.attribution import started_by
from filejobs_dagster.orchestration.config import CollectorConfig
from filejobs_dagster.orchestration.history import DagsterHistory
from filejobs_dagster.orchestration.metadata import catalog_event, run_metadata
from filejobs_dagster.orchestration.resources import resource_key
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.run_context import RunContext
from filejobs_dagster.settings import Loaded, Settings, known_secrets, parse_duration
from filejobs_dagster.text import sanitize, sanitize_exception

if TYPE_CHECKING:
    # An installation has no stubs.
    from mypy_boto3_s3 import S3Client

# What Dagster's automatic retry must not do: turn a cancelled run back on, or a dry one live.
#
# The daemon retries a run whose process crashed, with the tags and the config of that run. Two
# holes are left to whoever receives the retry:
#
# - A run that was told to stop and whose process was killed before it had stopped is *failed* to
# Dagster, not cancelled, so it is started once more.
# - What was asked for is copied, not what it came to: a run that asked to be live and was dry
#   because
# of `allow_live: false` would be live at the second attempt, if the veto was lifted meanwhile.

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


def settings_for(loaded: Loaded, job: str) -> Settings:
    """The settings, or a failed run that names every mistake in them.

    Raises:
        dagster.Failure: The settings are broken, or the job does not stand in them.
    """
    if loaded.settings is None:
        mistakes = "\n".join(f"- {problem}" for problem in loaded.problems)
        raise dg.Failure(
            f"{job} refuses to start: {loaded.path.name} has mistakes.\n{mistakes}\n"
            "Mend them and reload the code location; `filejobs doctor` checks the file.",
            allow_retries=False,
        )
    if job not in loaded.settings.jobs:
        raise dg.Failure(
            f"{job} refuses to start: it does not stand under `jobs:` in {loaded.path.name}. "
            "Add it there with a `schedule`, or with `by_hand: true`.",
            allow_retries=False,
        )
    return loaded.settings


def execute(
    context: dg.OpExecutionContext,
    settings: Settings,
    config: CollectorConfig,
    collector: Collector[Any, Any],
) -> None:
    """Run a job within its life cycle, show what it found, and fail when it failed.

    Raises:
        dagster.Failure: The job failed, was refused, or could not be recorded.
    """
    secrets, job = known_secrets(settings), collector.name
    _refuse(config.mistakes(), job)
    client = bucket_client(context, settings, collector)
    door = Door(collector, settings, client)
    refuse_retry_of_cancelled(context)
    history = DagsterHistory(context.instance, settings.installation, secrets)
    has = Resources(settings, client, history)

    try:
        run_spec = _run_spec(context, settings, config, collector)
        live = run_spec.identity.mode == "live"
        if live:
            _refuse(config.beyond(settings, job), job)
        request = config.request(collector, settings, live=live)

        def body(run: RunContext) -> Outcome:
            return collector.run(run, request, has)

        _tag(context, config, run_spec)
        outcome = run_job(run_spec, Database.of(settings.database), body, context.log, door=door)
    except dg.Failure:
        raise
    except UnknownMode as error:
        raise dg.Failure(str(error), allow_retries=False) from None
    except (GivenUp, NotRecorded) as error:
        raise dg.Failure(sanitize(str(error), known=secrets), allow_retries=False) from None
    except Exception as error:  # noqa: BLE001 (whatever it is, Dagster must not show its causes)
        # The chain of causes stays out of Dagster's event log: it may quote a connection string.
        raise dg.Failure(sanitize_exception(error, known=secrets)) from None
    shown = run_metadata(run_spec, outcome)
    if not outcome.ok:
        raise dg.Failure(outcome.error, metadata=shown, allow_retries=False)
    if not outcome.detail.get("swept") or config.narrower() is not None:
        _leave_day_unpainted(context)
    context.log_event(catalog_event(run_spec, outcome))
    context.add_output_metadata(shown)


def bucket_client(
    context: dg.OpExecutionContext, settings: Settings, collector: Collector[Any, Any]
) -> "S3Client | None":
    """The client of the bucket that a job deletes from; None for a job that deletes no bytes."""
    if not collector.deletes_bytes:
        return None
    entry, _ = settings.bucket_of(collector.name)
    client: S3Client = getattr(context.resources, resource_key(entry))
    return client


def _refuse(mistakes: list[str], job: str) -> None:
    if mistakes:
        sentences = "\n".join(f"- {mistake}" for mistake in mistakes)
        raise dg.Failure(
            f"{job} refuses to start, because its run config is wrong:\n{sentences}\n"
            "Nothing was touched.",
            allow_retries=False,
        )


def _tag(context: dg.OpExecutionContext, config: CollectorConfig, run_spec: RunSpec) -> None:
    """Let Dagster's list of runs tell dry from live, and let the run have the time it was given.

    The tag is not `filejobs/mode`: that one asks, and "Re-execute" would copy it.
    """
    added: dict[str, str] = {tags.EFFECTIVE_MODE: run_spec.identity.mode}
    longest = getattr(config, "max_runtime", None)
    if longest is not None:
        added[tags.MAX_RUNTIME] = tags.seconds_until_ended(parse_duration(longest))
    context.instance.add_run_tags(context.run_id, added)


def _run_spec(
    context: dg.OpExecutionContext,
    settings: Settings,
    config: CollectorConfig,
    collector: Collector[Any, Any],
) -> RunSpec:
    decision = decide_mode(
        allow_live=settings.allow_live,
        config_dry_run=config.dry_run if _says_dry_run(context) else None,
        tag=context.run.tags.get(tags.MODE),
    )
    decision = never_livelier(context.run, decision)
    if decision.mode == "live" and context.run.tags.get(tags.ALLOW_LIVE) == "false":
        decision = ModeDecision(
            "dry",
            "live was asked, but allow_live was false, or the file had mistakes, when the code "
            "server read filejobs.yaml; reload the code location",
        )
    if decision.mode == "live":
        held = hold_before(Database.of(settings.database), settings.installation, collector.name)
        if held is not None:
            decision = ModeDecision("dry", f"live was asked, but {held}")
    if collector.read_only and decision.mode == "live":
        decision = ModeDecision("dry", f"{collector.name} changes nothing, so it has no live runs")
    if decision.reason is not None:
        context.log.warning("This run is %s: %s.", decision.mode, decision.reason)
    identity = RunIdentity(
        run_id=context.run_id,
        installation=settings.installation,
        job=collector.name,
        mode=decision.mode,
        trigger=tags.trigger_of(context.run.tags),
        holder=tags.holder(),
        started_by=started_by(context.instance, context.run),
    )
    return RunSpec(
        identity,
        by_hand=tags.is_by_hand(context.run.tags),
        window=_window(context, config),
        mode_reason=decision.reason,
        known_secrets=known_secrets(settings),
        settings=settings.digest,
        limited_to=config.limited_to(),
        ended=lambda: _ended(context),
    )


def _ended(context: dg.OpExecutionContext) -> str | None:
    """How Dagster calls this run over: ended by force, its process goes on until it looks."""
    run = context.instance.get_run_by_id(context.run_id)
    if run is None or not run.is_finished:
        return None
    return f"Dagster calls it {run.status.value}"


def _says_dry_run(context: dg.OpExecutionContext) -> bool:
    """Tell whether the run config itself says `dry_run`.

    The config object cannot tell: Dagster leaves a value that equals its default out of
    `model_fields_set`, so an explicit `dry_run: true` looks like none.
    """
    run_config: Mapping[str, Any] = context.run.run_config
    of_op = run_config.get("ops", {}).get(context.op.name) or {}
    return "dry_run" in (of_op.get("config") or {})


def _leave_day_unpainted(context: dg.OpExecutionContext) -> None:
    """Keep a success that did not sweep its day off the Partitions tab.

    Dagster shows a day as done when a successful run carries the day and the name of the job's
    partition set. Only a live run that left nothing may say that; another name takes this one off
    the map, and the day stays in the run's own tags.
    """
    if context.has_partition_key:
        context.instance.add_run_tags(context.run_id, {tags.PARTITION_SET: "did not sweep its day"})


def _window(context: dg.OpExecutionContext, config: CollectorConfig) -> Window:
    """A day, when the run carries one for more than the Partitions tab; and what is left alone."""
    narrower = config.narrower()
    whole = not context.has_partition_key or (
        context.run.tags.get(tags.WINDOW) == tags.COVERS_EVERYTHING
    )
    if whole:
        return EVERYTHING if narrower is None else Window(label=narrower)
    day = context.partition_time_window
    label = context.partition_key if narrower is None else f"{context.partition_key} {narrower}"
    return Window(begins=day.start, ends=day.end, label=label)
