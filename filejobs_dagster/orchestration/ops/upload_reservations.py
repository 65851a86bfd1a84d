"""`upload_reservations` as an op."""

from datetime import timedelta

import dagster as dg
from pydantic import Field

from filejobs_dagster.jobs import (
    upload_reservations,
)
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
    Settings,
    UploadReservationsSettings,
    format_duration,
    parse_duration,
    reservation_source,
)

MOST_RESERVATIONS = 1_000_000
MOST_GRACE = timedelta(days=30)


class UploadReservationsConfig(CollectorConfig):
    """Limits of one run of upload_reservations."""

    limit: int = Field(
        default=10_000,
        description="Most reservations to collect in this run, 1 to 1,000,000; the oldest first. "
        "What is left is reported as truncated.",
    )
    batch_size: int = Field(
        default=500,
        description="Reservations in one transaction and objects in one delete request, 1 to "
        "1,000. Smaller batches hold row locks for a shorter time.",
    )
    grace: str = Field(
        default="0s",
        description="How long after its expiry a reservation is still left alone, with a unit: "
        "0s, 15m, 2h; at most 30d.",
    )
    max_runtime: str = Field(
        default="30m",
        description="No further batch is begun after this time, with a unit: 30m, 2h; at most 24h.",
    )
    count_bytes: bool = Field(
        default=True,
        description="Ask storage for the size of each object before it goes: at most one "
        "request an object, and the only way to know bytes freed and uploads that never arrived.",
    )

    def narrower(self) -> str | None:
        """A longer grace leaves more alone."""
        return self.longer_than_the_settings("grace")

    def mistakes(self) -> list[str]:
        """What is out of bounds."""
        return [
            *outside("limit", self.limit, MOST_RESERVATIONS),
            *outside("batch_size", self.batch_size, MOST_IN_A_BATCH),
            *too_long("grace", self.grace, MOST_GRACE, least=timedelta(0)),
            *too_long("max_runtime", self.max_runtime, MOST_RUNTIME, least=timedelta(seconds=1)),
        ]


def upload_reservations_config(settings: Settings | None) -> type[UploadReservationsConfig]:
    """The config class with the operator's limits as its defaults."""
    configured = None if settings is None else settings.jobs.get("upload_reservations")
    if not isinstance(configured, UploadReservationsSettings):
        return UploadReservationsConfig
    return with_defaults(
        UploadReservationsConfig,
        limit=configured.limit,
        batch_size=configured.batch_size,
        grace=format_duration(configured.grace),
        max_runtime=format_duration(configured.max_runtime),
    )


def upload_reservations_op(loaded: Loaded, registered: RegisteredJob) -> dg.OpDefinition:
    """The op, with the operator's limits as the defaults of its config."""
    needed = set()
    if loaded.settings is not None and registered.name in loaded.settings.jobs:
        needed = {resource_key(loaded.settings.bucket_of(registered.name)[0])}

    def op(context: dg.OpExecutionContext, config: UploadReservationsConfig) -> None:
        settings = settings_for(loaded, registered.name)
        entry, bucket = settings.bucket_of(registered.name)
        client = getattr(context.resources, resource_key(entry))

        def body(run: RunContext) -> Outcome:
            request = upload_reservations.Request(
                limit=config.limit,
                batch_size=config.batch_size,
                grace=parse_duration(config.grace),
                max_runtime=parse_duration(config.max_runtime),
                count_bytes=config.count_bytes,
            )
            with (
                ReferenceCheck(
                    run.connection, bucket.sources, schema=run.database.schema
                ) as references,
                upload_reservations.opened_source(
                    reservation_source(settings), run.database, run.connection
                ) as source,
            ):
                gate = Gate(client, bucket, references)
                storage = upload_reservations.Storage(bucket.bucket, client, gate, references)
                return upload_reservations.run(run, request, storage, source)

        execute(context, settings, config, registered.name, body)

    op.__annotations__["config"] = as_it_stands(
        upload_reservations_config(loaded.settings), mode_in_words(loaded, registered.name)
    )
    decorate = dg.op(
        name=registered.name,
        description=registered.summary,
        required_resource_keys=needed,
    )
    return decorate(op)
