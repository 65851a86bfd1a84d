"""`deleted_files` as an op."""

from datetime import timedelta

import dagster as dg
from pydantic import Field

from filejobs_dagster.jobs import deleted_files
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
    DeletedFilesSettings,
    Loaded,
    Settings,
    format_duration,
    parse_duration,
)

MOST_FILES = 1_000_000


class DeletedFilesConfig(CollectorConfig):
    """Limits of one run of deleted_files.

    The restore window is none of them: no run may take what its owner can still restore.
    """

    limit: int = Field(
        default=10_000,
        description="Most deleted files to collect in this run, 1 to 1,000,000; the oldest first. "
        "What is left is reported as truncated.",
    )
    batch_size: int = Field(
        default=500,
        description="Deleted files in one transaction, 1 to 1,000. Smaller batches hold row locks "
        "for a shorter time.",
    )
    max_runtime: str = Field(
        default="30m",
        description="No further batch is begun after this time, with a unit: 30m, 2h; at most 24h.",
    )
    count_bytes: bool = Field(
        default=True,
        description="Ask storage for the size of each object before it goes: at most one "
        "request an object, and the only way to know bytes freed and objects that were missing.",
    )

    def mistakes(self) -> list[str]:
        """What is out of bounds."""
        return [
            *outside("limit", self.limit, MOST_FILES),
            *outside("batch_size", self.batch_size, MOST_IN_A_BATCH),
            *too_long("max_runtime", self.max_runtime, MOST_RUNTIME, least=timedelta(seconds=1)),
        ]


def deleted_files_config(settings: Settings | None) -> type[DeletedFilesConfig]:
    """The config class with the operator's limits as its defaults."""
    configured = None if settings is None else settings.jobs.get("deleted_files")
    if not isinstance(configured, DeletedFilesSettings):
        return DeletedFilesConfig
    return with_defaults(
        DeletedFilesConfig,
        limit=configured.limit,
        batch_size=configured.batch_size,
        max_runtime=format_duration(configured.max_runtime),
    )


def deleted_files_op(loaded: Loaded, registered: RegisteredJob) -> dg.OpDefinition:
    """The op, with the operator's limits as the defaults of its config."""
    needed = set()
    if loaded.settings is not None and registered.name in loaded.settings.jobs:
        needed = {resource_key(loaded.settings.bucket_of(registered.name)[0])}

    def op(context: dg.OpExecutionContext, config: DeletedFilesConfig) -> None:
        settings = settings_for(loaded, registered.name)
        entry, bucket = settings.bucket_of(registered.name)
        client = getattr(context.resources, resource_key(entry))

        def body(run: RunContext) -> Outcome:
            request = _request(settings, config)
            with ReferenceCheck(
                run.connection, bucket.sources, schema=run.database.schema
            ) as references:
                gate = Gate(client, bucket, references)
                storage = deleted_files.Storage(bucket.bucket, client, gate, references)
                return deleted_files.run(run, request, storage)

        execute(context, settings, config, registered.name, body)

    op.__annotations__["config"] = as_it_stands(
        deleted_files_config(loaded.settings), mode_in_words(loaded, registered.name)
    )
    decorate = dg.op(
        name=registered.name,
        description=registered.summary,
        required_resource_keys=needed,
    )
    return decorate(op)


def _request(settings: Settings, config: DeletedFilesConfig) -> deleted_files.Request:
    configured = settings.jobs["deleted_files"]
    if not isinstance(configured, DeletedFilesSettings):
        raise TypeError("the settings of deleted_files have another type")
    return deleted_files.Request(
        restore_window=configured.restore_window,
        derived=configured.derived,
        limit=config.limit,
        batch_size=config.batch_size,
        max_runtime=parse_duration(config.max_runtime),
        count_bytes=config.count_bytes,
    )
