"""`audit_trim` as an op."""

from datetime import timedelta

import dagster as dg
from pydantic import Field

from filejobs_dagster.jobs import (
    audit_setup,
    audit_trim,
)
from filejobs_dagster.jobs.audit_troubles import teaching
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
    AuditTrimSettings,
    Loaded,
    Settings,
    format_duration,
    parse_duration,
)

MOST_EVENTS = 100_000_000
MOST_EVENTS_IN_A_BATCH = 1_000_000


class AuditTrimConfig(CollectorConfig):
    """Limits of one run of audit_trim."""

    dry_run: bool = Field(
        default=True,
        description="true: verify, say what would go or be refused, remove nothing. "
        "false: remove. (`allow_live: false` in filejobs.yaml forbids false.)",
    )
    limit: int = Field(
        default=1_000_000,
        description="Most events to remove in this run, over all chains, 1 to 100,000,000. What "
        "is left is reported as truncated.",
    )
    batch_size: int = Field(
        default=10_000,
        description="Events in one transaction, each with a receipt of its own, 1 to 1,000,000.",
    )
    max_runtime: str = Field(
        default="30m",
        description="No further batch is begun after this time, with a unit: 30m, 2h; at most 24h.",
    )

    def mistakes(self) -> list[str]:
        """What is out of bounds."""
        return [
            *outside("limit", self.limit, MOST_EVENTS),
            *outside("batch_size", self.batch_size, MOST_EVENTS_IN_A_BATCH),
            *too_long("max_runtime", self.max_runtime, MOST_RUNTIME, least=timedelta(seconds=1)),
        ]


def audit_trim_config(settings: Settings | None) -> type[AuditTrimConfig]:
    """The config class with the operator's limits as its defaults."""
    configured = None if settings is None else settings.jobs.get("audit_trim")
    if not isinstance(configured, AuditTrimSettings):
        return AuditTrimConfig
    return with_defaults(
        AuditTrimConfig,
        limit=configured.limit,
        batch_size=configured.batch_size,
        max_runtime=format_duration(configured.max_runtime),
    )


def audit_trim_op(loaded: Loaded, registered: RegisteredJob) -> dg.OpDefinition:
    """The op, with the operator's limits as the defaults of its config."""

    def op(context: dg.OpExecutionContext, config: AuditTrimConfig) -> None:
        settings = settings_for(loaded, registered.name)

        def body(run: RunContext) -> Outcome:
            with teaching():
                policy = audit_setup.trim_policy(settings)
            request = audit_trim.Request(
                limit=config.limit,
                batch_size=config.batch_size,
                max_runtime=parse_duration(config.max_runtime),
            )
            return audit_trim.run(run, request, policy)

        execute(context, settings, config, registered.name, body)

    op.__annotations__["config"] = as_it_stands(
        audit_trim_config(loaded.settings), mode_in_words(loaded, registered.name)
    )
    return dg.op(name=registered.name, description=registered.summary)(op)
