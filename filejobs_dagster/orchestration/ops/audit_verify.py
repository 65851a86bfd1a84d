"""`audit_verify` as an op."""

from datetime import timedelta

import dagster as dg
from pydantic import Field

from filejobs_dagster.jobs import (
    audit_setup,
    audit_verify,
)
from filejobs_dagster.jobs.audit_troubles import teaching
from filejobs_dagster.jobs.context import RunContext
from filejobs_dagster.ledger.outcome import Outcome
from filejobs_dagster.orchestration.config import (
    LONGEST_CHAIN,
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
    AuditVerifySettings,
    Loaded,
    Settings,
    format_duration,
    parse_duration,
)

MOST_PARTS_OF_A_CHAIN = 366
CHECKS = ("full", "incremental", "rolling")


class AuditVerifyConfig(CollectorConfig):
    """What one run of audit_verify computes again."""

    dry_run: bool = Field(
        default=True,
        description="Verifying changes nothing, so every run of it is a dry one, whatever stands "
        "here, and counts as having verified.",
    )
    check: str = Field(
        default="full",
        description="full: every event. incremental: those behind the newest pin. rolling: those, "
        "and one part of the others each day.",
    )
    parts: int = Field(
        default=7,
        description="In how many parts a rolling check takes what is sealed, 1 to 366.",
    )
    max_runtime: str = Field(default="30m", description=LONGEST_CHAIN)

    def mistakes(self) -> list[str]:
        """What is out of bounds."""
        unknown = [] if self.check in CHECKS else [
            f"check is {self.check!r}; it can be {', '.join(CHECKS)}."
        ]  # fmt: skip
        return [
            *unknown,
            *outside("parts", self.parts, MOST_PARTS_OF_A_CHAIN),
            *too_long("max_runtime", self.max_runtime, MOST_RUNTIME, least=timedelta(seconds=1)),
        ]


def audit_verify_config(settings: Settings | None) -> type[AuditVerifyConfig]:
    """The config class with the operator's choice as its defaults."""
    configured = None if settings is None else settings.jobs.get("audit_verify")
    if settings is None or not isinstance(configured, AuditVerifySettings):
        return AuditVerifyConfig
    return with_defaults(
        AuditVerifyConfig,
        check=configured.check,
        parts=settings.audit.rolling,
        max_runtime=format_duration(configured.max_runtime),
    )


def audit_verify_op(loaded: Loaded, registered: RegisteredJob) -> dg.OpDefinition:
    """The op, with the operator's limits as the defaults of its config."""

    def op(context: dg.OpExecutionContext, config: AuditVerifyConfig) -> None:
        settings = settings_for(loaded, registered.name)

        def body(run: RunContext) -> Outcome:
            with teaching():
                policy = audit_setup.verify_policy(settings)
            request = audit_verify.Request(
                check=audit_verify.check_named(config.check),
                parts=config.parts,
                max_runtime=parse_duration(config.max_runtime),
            )
            return audit_verify.run(run, request, policy)

        execute(context, settings, config, registered.name, body)

    op.__annotations__["config"] = as_it_stands(
        audit_verify_config(loaded.settings), mode_in_words(loaded, registered.name)
    )
    return dg.op(name=registered.name, description=registered.summary)(op)
