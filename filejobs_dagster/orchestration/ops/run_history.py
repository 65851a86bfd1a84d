"""`run_history` as an op."""

from datetime import timedelta

import dagster as dg
from pydantic import Field

from filejobs_dagster.jobs import run_history
from filejobs_dagster.jobs.context import RunContext
from filejobs_dagster.ledger.outcome import Outcome
from filejobs_dagster.orchestration.config import (
    MOST_IN_A_BATCH,
    MOST_RUNTIME,
    CollectorConfig,
    as_it_stands,
    outside,
    too_long,
    with_defaults,
)
from filejobs_dagster.orchestration.descriptions import mode_in_words
from filejobs_dagster.orchestration.execution import execute, settings_for
from filejobs_dagster.orchestration.history import DagsterHistory
from filejobs_dagster.registry import RegisteredJob
from filejobs_dagster.settings import (
    Loaded,
    RunHistorySettings,
    Settings,
    format_duration,
    known_secrets,
    parse_duration,
)

MOST_RUNS = 10_000_000


class RunHistoryConfig(CollectorConfig):
    """Limits of one run of run_history; how long runs are kept stands in the settings only."""

    dry_run: bool = Field(
        default=True,
        description="true: count the runs that would go and those that are kept, remove nothing. "
        "false: remove. (`allow_live: false` in filejobs.yaml forbids false.)",
    )
    limit: int = Field(
        default=10_000,
        description="Most runs to remove in this run, 1 to 10,000,000; the oldest first. What is "
        "left is reported as truncated.",
    )
    batch_size: int = Field(
        default=100,
        description="Runs between two signs of life, 1 to 1,000. Each batch has its audit events.",
    )
    max_runtime: str = Field(
        default="30m",
        description="No further batch is begun after this time, with a unit: 30m, 2h; at most 24h.",
    )

    def mistakes(self) -> list[str]:
        """What is out of bounds."""
        return [
            *outside("limit", self.limit, MOST_RUNS),
            *outside("batch_size", self.batch_size, MOST_IN_A_BATCH),
            *too_long("max_runtime", self.max_runtime, MOST_RUNTIME, least=timedelta(seconds=1)),
        ]


def run_history_config(settings: Settings | None) -> type[RunHistoryConfig]:
    """The config class with the operator's limits as its defaults."""
    configured = None if settings is None else settings.jobs.get("run_history")
    if not isinstance(configured, RunHistorySettings):
        return RunHistoryConfig
    return with_defaults(
        RunHistoryConfig,
        limit=configured.limit,
        batch_size=configured.batch_size,
        max_runtime=format_duration(configured.max_runtime),
    )


def run_history_op(loaded: Loaded, registered: RegisteredJob) -> dg.OpDefinition:
    """The op, with the operator's limits as the defaults of its config."""

    def op(context: dg.OpExecutionContext, config: RunHistoryConfig) -> None:
        settings = settings_for(loaded, registered.name)
        configured = settings.jobs[registered.name]
        if not isinstance(configured, RunHistorySettings):  # pragma: no cover - the model decides
            raise TypeError(type(configured).__name__)
        history = DagsterHistory(context.instance, settings.installation, known_secrets(settings))

        def body(run: RunContext) -> Outcome:
            request = run_history.Request(
                keep=configured.keep,
                limit=config.limit,
                batch_size=config.batch_size,
                max_runtime=parse_duration(config.max_runtime),
            )
            return run_history.run(run, request, history)

        execute(context, settings, config, registered.name, body)

    op.__annotations__["config"] = as_it_stands(
        run_history_config(loaded.settings), mode_in_words(loaded, registered.name)
    )
    return dg.op(name=registered.name, description=registered.summary)(op)
