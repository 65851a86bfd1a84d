"""`audit_seal` as an op."""

from datetime import timedelta

import dagster as dg
from pydantic import Field

from filejobs_dagster.jobs import (
    audit_seal,
    audit_setup,
)
from filejobs_dagster.jobs.audit_troubles import teaching
from filejobs_dagster.jobs.context import RunContext
from filejobs_dagster.ledger.outcome import Outcome
from filejobs_dagster.orchestration.config import (
    LONGEST_CHAIN,
    MOST_RUNTIME,
    CollectorConfig,
    as_it_stands,
    too_long,
    with_defaults,
)
from filejobs_dagster.orchestration.descriptions import mode_in_words
from filejobs_dagster.orchestration.execution import execute, settings_for
from filejobs_dagster.registry import RegisteredJob
from filejobs_dagster.settings import (
    AuditSealSettings,
    Loaded,
    Settings,
    format_duration,
    parse_duration,
)


class AuditSealConfig(CollectorConfig):
    """Limits of one run of audit_seal."""

    dry_run: bool = Field(
        default=True,
        description="true: verify, say what would be sealed, write neither seal nor pin. "
        "false: seal. (`allow_live: false` in filejobs.yaml forbids false.)",
    )
    max_runtime: str = Field(default="30m", description=LONGEST_CHAIN)

    def mistakes(self) -> list[str]:
        """What is out of bounds."""
        return too_long("max_runtime", self.max_runtime, MOST_RUNTIME, least=timedelta(seconds=1))


def audit_seal_config(settings: Settings | None) -> type[AuditSealConfig]:
    """The config class with the operator's limits as its defaults."""
    configured = None if settings is None else settings.jobs.get("audit_seal")
    if not isinstance(configured, AuditSealSettings):
        return AuditSealConfig
    return with_defaults(AuditSealConfig, max_runtime=format_duration(configured.max_runtime))


def audit_seal_op(loaded: Loaded, registered: RegisteredJob) -> dg.OpDefinition:
    """The op, with the operator's limits as the defaults of its config."""

    def op(context: dg.OpExecutionContext, config: AuditSealConfig) -> None:
        settings = settings_for(loaded, registered.name)

        def body(run: RunContext) -> Outcome:
            with teaching():
                policy = audit_setup.seal_policy(settings)
            request = audit_seal.Request(max_runtime=parse_duration(config.max_runtime))
            return audit_seal.run(run, request, policy)

        execute(context, settings, config, registered.name, body)

    op.__annotations__["config"] = as_it_stands(
        audit_seal_config(loaded.settings), mode_in_words(loaded, registered.name)
    )
    return dg.op(name=registered.name, description=registered.summary)(op)
