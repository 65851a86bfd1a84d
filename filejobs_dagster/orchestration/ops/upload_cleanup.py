"""`upload_cleanup` as an op."""

from datetime import timedelta

import dagster as dg
from pydantic import Field

from filejobs_dagster.jobs import upload_cleanup
from filejobs_dagster.jobs.context import RunContext
from filejobs_dagster.jobs.upload_cleanup.request import BackOff
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
    UploadCleanupSettings,
    format_duration,
    parse_duration,
)

MOST_UPLOADS = 1_000_000
LEAST_WRITING = timedelta(days=1)
MOST_WRITING = timedelta(days=365)


class UploadCleanupConfig(CollectorConfig):
    """Limits of one run of upload_cleanup."""

    limit: int = Field(
        default=10_000,
        description="Most cancelled uploads to take in this run, 1 to 1,000,000, those first that "
        "are due the longest. What is left is reported as truncated.",
    )
    batch_size: int = Field(
        default=100,
        description="Uploads in one transaction and objects in one delete request, 1 to 1,000.",
    )
    writing_limit: str = Field(
        default="7d",
        description="A writer that gave no sign of life for longer is uncertain, and storage is "
        "asked about its object, with a unit: 24h, 7d; at least 24h, at most 365d.",
    )
    max_runtime: str = Field(
        default="30m",
        description="No further batch is begun after this time, with a unit: 30m, 2h; at most 24h.",
    )

    def mistakes(self) -> list[str]:
        """What is out of bounds."""
        return [
            *outside("limit", self.limit, MOST_UPLOADS),
            *outside("batch_size", self.batch_size, MOST_IN_A_BATCH),
            *too_long("writing_limit", self.writing_limit, MOST_WRITING, least=LEAST_WRITING),
            *too_long("max_runtime", self.max_runtime, MOST_RUNTIME, least=timedelta(seconds=1)),
        ]


def upload_cleanup_config(settings: Settings | None) -> type[UploadCleanupConfig]:
    """The config class with the operator's limits as its defaults."""
    configured = None if settings is None else settings.jobs.get("upload_cleanup")
    if not isinstance(configured, UploadCleanupSettings):
        return UploadCleanupConfig
    return with_defaults(
        UploadCleanupConfig,
        limit=configured.limit,
        batch_size=configured.batch_size,
        writing_limit=format_duration(configured.writing_limit),
        max_runtime=format_duration(configured.max_runtime),
    )


def upload_cleanup_op(loaded: Loaded, registered: RegisteredJob) -> dg.OpDefinition:
    """The op, with the operator's limits as the defaults of its config."""
    needed = set()
    if loaded.settings is not None and registered.name in loaded.settings.jobs:
        needed = {resource_key(loaded.settings.bucket_of(registered.name)[0])}

    def op(context: dg.OpExecutionContext, config: UploadCleanupConfig) -> None:
        settings = settings_for(loaded, registered.name)
        entry, bucket = settings.bucket_of(registered.name)
        client = getattr(context.resources, resource_key(entry))

        def body(run: RunContext) -> Outcome:
            with ReferenceCheck(
                run.connection, bucket.sources, schema=run.database.schema
            ) as references:
                storage = upload_cleanup.Storage(
                    bucket=bucket.bucket,
                    client=client,
                    gate=Gate(client, bucket, references),
                    references=references,
                    purge_versions=bucket.purge_versions,
                    endpoint_url=bucket.endpoint_url,
                )
                return upload_cleanup.run(run, _request(settings, config), storage)

        execute(context, settings, config, registered.name, body)

    op.__annotations__["config"] = as_it_stands(
        upload_cleanup_config(loaded.settings), mode_in_words(loaded, registered.name)
    )
    decorate = dg.op(
        name=registered.name,
        description=registered.summary,
        required_resource_keys=needed,
    )
    return decorate(op)


def _request(settings: Settings, config: UploadCleanupConfig) -> upload_cleanup.Request:
    configured = settings.jobs["upload_cleanup"]
    if not isinstance(configured, UploadCleanupSettings):  # pragma: no cover - the model decides
        raise TypeError(type(configured).__name__)
    return upload_cleanup.Request(
        limit=config.limit,
        batch_size=config.batch_size,
        max_runtime=parse_duration(config.max_runtime),
        back_off=BackOff(
            first=configured.retry_after,
            longest=configured.retry_at_most,
            max_attempts=configured.max_attempts,
        ),
        writing_limit=parse_duration(config.writing_limit),
        settle_after=configured.settle_after,
    )
