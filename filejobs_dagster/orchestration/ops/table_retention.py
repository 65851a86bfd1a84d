"""`table_retention` as an op."""

from datetime import timedelta

import dagster as dg
from pydantic import Field

from filejobs_dagster.jobs import table_retention
from filejobs_dagster.jobs.context import RunContext
from filejobs_dagster.ledger.outcome import Outcome
from filejobs_dagster.orchestration.config import (
    MOST_RUNTIME,
    CollectorConfig,
    as_it_stands,
    outside,
    too_long,
    with_defaults,
)
from filejobs_dagster.orchestration.descriptions import mode_in_words
from filejobs_dagster.orchestration.execution import execute, settings_for
from filejobs_dagster.registry import RegisteredJob
from filejobs_dagster.settings import (
    Loaded,
    Settings,
    TableRetentionSettings,
    format_duration,
    parse_duration,
)

MOST_ROWS = 100_000_000


class TableRetentionConfig(CollectorConfig):
    """Which rules one run carries out, and how far it goes."""

    dry_run: bool = Field(
        default=True,
        description="true: count what is due, change nothing. false: delete and scrub. "
        "(`allow_live: false` in filejobs.yaml forbids false.)",
    )
    rules: list[str] = Field(
        default=[],
        description="Names of the rules to carry out; empty for all. A run of some of them does "
        "not count as a run of the job.",
    )
    limit: int = Field(
        default=1_000_000,
        description="Most rows to delete and scrub in this run, over all rules, 1 to 100,000,000. "
        "What is left is reported as truncated.",
    )
    max_runtime: str = Field(
        default="30m",
        description="No further batch is begun after this time, with a unit: 30m, 2h; at most 24h.",
    )

    def mistakes(self) -> list[str]:
        """What is out of bounds."""
        return [
            *outside("limit", self.limit, MOST_ROWS),
            *too_long("max_runtime", self.max_runtime, MOST_RUNTIME, least=timedelta(seconds=1)),
        ]


def table_retention_config(settings: Settings | None) -> type[TableRetentionConfig]:
    """The config class with the operator's limits as its defaults."""
    configured = None if settings is None else settings.jobs.get("table_retention")
    if not isinstance(configured, TableRetentionSettings):
        return TableRetentionConfig
    return with_defaults(
        TableRetentionConfig,
        limit=configured.limit,
        max_runtime=format_duration(configured.max_runtime),
    )


def table_retention_op(loaded: Loaded, registered: RegisteredJob) -> dg.OpDefinition:
    """The op, with the operator's limits as the defaults of its config."""

    def op(context: dg.OpExecutionContext, config: TableRetentionConfig) -> None:
        settings = settings_for(loaded, registered.name)
        configured = settings.jobs[registered.name]
        if not isinstance(configured, TableRetentionSettings):  # pragma: no cover - by the model
            raise TypeError(type(configured).__name__)

        def body(run: RunContext) -> Outcome:
            request = table_retention.Request(
                rules=configured.rules,
                only=tuple(config.rules),
                limit=config.limit,
                max_runtime=parse_duration(config.max_runtime),
            )
            return table_retention.run(run, request)

        execute(context, settings, config, registered.name, body)

    op.__annotations__["config"] = as_it_stands(
        table_retention_config(loaded.settings), mode_in_words(loaded, registered.name)
    )
    return dg.op(name=registered.name, description=registered.summary)(op)
