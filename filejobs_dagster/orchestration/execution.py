"""From a Dagster run to a run of ours and back."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import dagster as dg

from filejobs_dagster.collector import Collector, Resources
from filejobs_dagster.door.door import Door
from filejobs_dagster.door.hold import hold_before
from filejobs_dagster.jobs.context import RunContext
from filejobs_dagster.jobs.lifecycle import NotRecorded, Ticket, conduct
from filejobs_dagster.jobs.mode import ModeDecision, UnknownMode, decide_mode
from filejobs_dagster.ledger.outcome import Outcome
from filejobs_dagster.ledger.progress import GivenUp, RunIdentity
from filejobs_dagster.ledger.sanitize import sanitize, sanitize_exception
from filejobs_dagster.ledger.words import EVERYTHING, Window
from filejobs_dagster.orchestration import tags
from filejobs_dagster.orchestration.attribution import started_by
from filejobs_dagster.orchestration.config import CollectorConfig
from filejobs_dagster.orchestration.history import DagsterHistory
from filejobs_dagster.orchestration.resources import resource_key
from filejobs_dagster.orchestration.retries import never_livelier, refuse_retry_of_cancelled
from filejobs_dagster.orchestration.shown import catalog_event, run_metadata
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.settings import Loaded, Settings, known_secrets, parse_duration

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client


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
    _refuse_mistakes(config, job)
    client = bucket_client(context, settings, collector)
    door = Door(collector, settings, client)
    refuse_retry_of_cancelled(context)
    request = config.request(collector, settings.jobs[job])
    history = DagsterHistory(context.instance, settings.installation, secrets)
    has = Resources(settings, client, history)

    def body(run: RunContext) -> Outcome:
        return collector.run(run, request, has)

    try:
        ticket = _ticket(context, settings, config, collector)
        _tag(context, config, ticket)
        outcome = conduct(ticket, Database.of(settings.database), body, context.log, door=door)
    except UnknownMode as error:
        raise dg.Failure(str(error), allow_retries=False) from None
    except (GivenUp, NotRecorded) as error:
        raise dg.Failure(sanitize(str(error), known=secrets), allow_retries=False) from None
    except Exception as error:  # noqa: BLE001 (whatever it is, Dagster must not show its causes)
        # The chain of causes stays out of Dagster's event log: it may quote a connection string.
        raise dg.Failure(sanitize_exception(error, known=secrets)) from None
    shown = run_metadata(ticket, outcome)
    if not outcome.ok:
        raise dg.Failure(outcome.error, metadata=shown, allow_retries=False)
    if not outcome.detail.get("swept") or config.narrower() is not None:
        _leave_day_unpainted(context)
    context.log_event(catalog_event(ticket, outcome))
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


def _refuse_mistakes(config: CollectorConfig, job: str) -> None:
    mistakes = config.mistakes()
    if mistakes:
        sentences = "\n".join(f"- {mistake}" for mistake in mistakes)
        raise dg.Failure(
            f"{job} refuses to start, because its run config is wrong:\n{sentences}\n"
            "Nothing was touched.",
            allow_retries=False,
        )


def _tag(context: dg.OpExecutionContext, config: CollectorConfig, ticket: Ticket) -> None:
    """Let Dagster's list of runs tell dry from live, and let the run have the time it was given.

    The tag is not `filejobs/mode`: that one asks, and "Re-execute" would copy it.
    """
    added: dict[str, str] = {tags.EFFECTIVE_MODE: ticket.identity.mode}
    longest = getattr(config, "max_runtime", None)
    if longest is not None:
        added[tags.MAX_RUNTIME] = tags.seconds_until_ended(parse_duration(longest))
    context.instance.add_run_tags(context.run_id, added)


def _ticket(
    context: dg.OpExecutionContext,
    settings: Settings,
    config: CollectorConfig,
    collector: Collector[Any, Any],
) -> Ticket:
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
    return Ticket(
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
