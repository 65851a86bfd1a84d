"""`multipart_uploads` as an op."""

from datetime import timedelta

import dagster as dg
from pydantic import Field

from filejobs_dagster.jobs import multipart_uploads
from filejobs_dagster.jobs.context import RunContext
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
    MultipartUploadsSettings,
    Settings,
    format_duration,
    parse_duration,
)

MOST_UPLOADS = 1_000_000
LEAST_IDLE = timedelta(days=1)
MOST_IDLE = timedelta(days=3650)
MOST_ASKED_AGAIN = timedelta(days=365)


class MultipartUploadsConfig(CollectorConfig):
    """Limits of one run of multipart_uploads."""

    limit: int = Field(
        default=10_000,
        description="Most multipart uploads to abort in this run, 1 to 1,000,000. What is left is "
        "reported as truncated.",
    )
    batch_size: int = Field(
        default=100,
        description="Multipart uploads that share one intent in the audit log, 1 to 1,000.",
    )
    idle_for: str = Field(
        default="7d",
        description="How old the newest part of an upload must be before it is aborted, and "
        "without parts its initiation, with a unit: 24h, 7d; at least 24h.",
    )
    ask_again_for: str = Field(
        default="7d",
        description="How long after a row of `upload` was cleaned its multipart upload is still "
        "asked for by its id, with a unit: 0s, 7d; at most 365d.",
    )
    max_runtime: str = Field(
        default="2h",
        description="No further upload is aborted after this time, with a unit: 30m, 2h; at most "
        "24h.",
    )

    def narrower(self) -> str | None:
        """A longer idle_for leaves more alone."""
        return self.longer_than_the_settings("idle_for")

    def mistakes(self) -> list[str]:
        """What is out of bounds."""
        return [
            *outside("limit", self.limit, MOST_UPLOADS),
            *outside("batch_size", self.batch_size, MOST_IN_A_BATCH),
            *too_long("idle_for", self.idle_for, MOST_IDLE, least=LEAST_IDLE),
            *too_long("ask_again_for", self.ask_again_for, MOST_ASKED_AGAIN, least=timedelta(0)),
            *too_long("max_runtime", self.max_runtime, MOST_RUNTIME, least=timedelta(seconds=1)),
        ]


def multipart_uploads_config(settings: Settings | None) -> type[MultipartUploadsConfig]:
    """The config class with the operator's limits as its defaults."""
    configured = None if settings is None else settings.jobs.get("multipart_uploads")
    if not isinstance(configured, MultipartUploadsSettings):
        return MultipartUploadsConfig
    return with_defaults(
        MultipartUploadsConfig,
        limit=configured.limit,
        batch_size=configured.batch_size,
        idle_for=format_duration(configured.idle_for),
        ask_again_for=format_duration(configured.ask_again_for),
        max_runtime=format_duration(configured.max_runtime),
    )


def multipart_uploads_op(loaded: Loaded, registered: RegisteredJob) -> dg.OpDefinition:
    """The op, with the operator's limits as the defaults of its config."""
    needed = set()
    if loaded.settings is not None and registered.name in loaded.settings.jobs:
        needed = {resource_key(loaded.settings.bucket_of(registered.name)[0])}

    def op(context: dg.OpExecutionContext, config: MultipartUploadsConfig) -> None:
        settings = settings_for(loaded, registered.name)
        entry, bucket = settings.bucket_of(registered.name)
        client = getattr(context.resources, resource_key(entry))

        def body(run: RunContext) -> Outcome:
            request = multipart_uploads.Request(
                limit=config.limit,
                batch_size=config.batch_size,
                idle_for=parse_duration(config.idle_for),
                ask_again_for=parse_duration(config.ask_again_for),
                max_runtime=parse_duration(config.max_runtime),
            )
            with ReferenceCheck(
                run.connection, bucket.sources, schema=run.database.schema
            ) as references:
                storage = multipart_uploads.Storage(
                    entry=entry,
                    bucket=bucket,
                    client=client,
                    gate=Gate(client, bucket, references),
                    references=references,
                )
                return multipart_uploads.run(run, request, storage)

        execute(context, settings, config, registered.name, body)

    op.__annotations__["config"] = as_it_stands(
        multipart_uploads_config(loaded.settings), mode_in_words(loaded, registered.name)
    )
    decorate = dg.op(
        name=registered.name,
        description=registered.summary,
        required_resource_keys=needed,
    )
    return decorate(op)
