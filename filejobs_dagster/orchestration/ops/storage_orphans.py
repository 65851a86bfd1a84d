"""`storage_orphans` as an op."""

from datetime import timedelta
from pathlib import Path

import dagster as dg
from pydantic import Field

from filejobs_dagster.jobs import (
    storage_orphans,
)
from filejobs_dagster.jobs.context import RunContext
from filejobs_dagster.jobs.storage_orphans import BREAKERS
from filejobs_dagster.ledger.outcome import Outcome
from filejobs_dagster.objects.gate import Gate
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
from filejobs_dagster.orchestration.resources import resource_key
from filejobs_dagster.references.check import ReferenceCheck
from filejobs_dagster.registry import RegisteredJob
from filejobs_dagster.settings import (
    Loaded,
    Settings,
    StorageOrphansSettings,
    format_duration,
    parse_duration,
)

MOST_ORPHANS = 10_000_000
MOST_PARTS = 64
LEAST_CONFIRMED = timedelta(hours=1)
MOST_CONFIRMED = timedelta(days=3650)
MOST_WAIT = timedelta(hours=1)


class BreakersOverride(dg.Config):
    """Breakers that one run may pass over."""

    breakers: list[str] = Field(
        default=[],
        description=f"Names of breakers whose numbers are right although they trip: "
        f"{', '.join(BREAKERS)}. The bucket's marker cannot be passed over.",
    )
    reason: str = Field(
        default="",
        description="Why. Needed with breakers; it is recorded in the run and in the audit log.",
    )


class StorageOrphansConfig(CollectorConfig):
    """Limits of one run of storage_orphans."""

    limit: int = Field(
        default=100_000,
        description="Most orphans to remove in this run, 1 to 10,000,000; the oldest first. What "
        "is left is reported as deferred.",
    )
    batch_size: int = Field(
        default=1000,
        description="Orphans in one delete request, 1 to 1,000.",
    )
    max_runtime: str = Field(
        default="6h",
        description="No further batch is begun after this time, and a pass that is not complete "
        "is given up, with a unit: 30m, 6h; at most 24h.",
    )
    confirm_after: str = Field(
        default="24h",
        description="How long ago an earlier run must have seen an orphan, with a unit: 24h, 7d; "
        "at least 1h.",
    )
    parts: int = Field(
        default=8,
        description="Parts of the bucket that are listed side by side, 1 to 64.",
    )
    wait_for_transactions: str = Field(
        default="60s",
        description="How long a batch waits for older transactions, which could still refer to "
        "its objects, with a unit: 60s, 5m; at most 1h. Then it is left for the next run.",
    )
    reviewed: str = Field(
        default="",
        description="A list that an earlier run wrote and a person has reviewed: a path on the "
        "machine that runs this, or s3://BUCKET/KEY. Only what it says to remove, and what this "
        "run finds to be an orphan too, may go. Empty: everything that is due.",
    )
    override: BreakersOverride = Field(
        default=BreakersOverride(),
        description="Breakers that this one run may pass over.",
    )

    def mistakes(self) -> list[str]:
        """What is out of bounds."""
        second = timedelta(seconds=1)
        return [
            *outside("limit", self.limit, MOST_ORPHANS),
            *outside("batch_size", self.batch_size, MOST_IN_A_BATCH),
            *outside("parts", self.parts, MOST_PARTS),
            *too_long("max_runtime", self.max_runtime, MOST_RUNTIME, least=second),
            *too_long("confirm_after", self.confirm_after, MOST_CONFIRMED, least=LEAST_CONFIRMED),
            *too_long("wait_for_transactions", self.wait_for_transactions, MOST_WAIT, least=second),
        ]


def storage_orphans_config(settings: Settings | None) -> type[StorageOrphansConfig]:
    """The config class with the operator's limits as its defaults."""
    configured = None if settings is None else settings.jobs.get("storage_orphans")
    if not isinstance(configured, StorageOrphansSettings):
        return StorageOrphansConfig
    return with_defaults(
        StorageOrphansConfig,
        limit=configured.limit,
        batch_size=configured.batch_size,
        max_runtime=format_duration(configured.max_runtime),
        confirm_after=format_duration(configured.confirm_after),
        parts=configured.parts,
        wait_for_transactions=format_duration(configured.wait_for_transactions),
    )


def storage_orphans_op(loaded: Loaded, registered: RegisteredJob) -> dg.OpDefinition:
    """The op, with the operator's limits as the defaults of its config."""
    needed = set()
    if loaded.settings is not None and registered.name in loaded.settings.jobs:
        needed = {resource_key(loaded.settings.bucket_of(registered.name)[0])}

    def op(context: dg.OpExecutionContext, config: StorageOrphansConfig) -> None:
        settings = settings_for(loaded, registered.name)
        entry, bucket = settings.bucket_of(registered.name)
        client = getattr(context.resources, resource_key(entry))

        def body(run: RunContext) -> Outcome:
            with ReferenceCheck(
                run.connection, bucket.sources, schema=run.database.schema
            ) as references:
                storage = storage_orphans.Storage(
                    entry=entry,
                    bucket=bucket,
                    client=client,
                    gate=Gate(client, bucket, references),
                    references=references,
                )
                return storage_orphans.run(run, _orphans_request(settings, config), storage)

        execute(context, settings, config, registered.name, body)

    op.__annotations__["config"] = as_it_stands(
        storage_orphans_config(loaded.settings), mode_in_words(loaded, registered.name)
    )
    decorate = dg.op(
        name=registered.name,
        description=registered.summary,
        required_resource_keys=needed,
    )
    return decorate(op)


def _orphans_request(settings: Settings, config: StorageOrphansConfig) -> storage_orphans.Request:
    configured = settings.jobs["storage_orphans"]
    if not isinstance(configured, StorageOrphansSettings):  # pragma: no cover - the model decides
        raise TypeError(type(configured).__name__)
    report = configured.report_to
    return storage_orphans.Request(
        limit=config.limit,
        batch_size=config.batch_size,
        max_runtime=parse_duration(config.max_runtime),
        confirm_after=parse_duration(config.confirm_after),
        parts=config.parts,
        wait_for_transactions=parse_duration(config.wait_for_transactions),
        breakers=configured.breakers,
        override=storage_orphans.Override(tuple(config.override.breakers), config.override.reason),
        report_to=None
        if report is None
        else storage_orphans.ReportPlace(
            None if report.folder is None else Path(report.folder), report.prefix
        ),
        reviewed=config.reviewed or None,
        scratch=None if settings.scratch_dir is None else Path(settings.scratch_dir),
    )
