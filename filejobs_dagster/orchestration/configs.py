"""What a person may set in the Launchpad, with words that help there.

The defaults of the limits are the operator's settings, so that a run started by hand, by a
schedule and by a backfill keep the same limits; `dry_run` is true whatever the settings say.
"""

from datetime import timedelta
from typing import Any, cast

import dagster as dg
from pydantic import Field, create_model, field_validator

from filejobs_dagster.settings import (
    Settings,
    UploadReservationsSettings,
    format_duration,
    parse_duration,
)

MOST_RUNTIME = timedelta(hours=24)
MOST_GRACE = timedelta(days=30)


class CollectorConfig(dg.Config):
    """What every collector can be told."""

    dry_run: bool = Field(
        default=True,
        description="true: report what would be collected and change nothing. "
        "false: collect. (`allow_live: false` in filejobs.yaml forbids false.)",
    )


class UploadReservationsConfig(CollectorConfig):
    """Limits of one run of upload_reservations."""

    limit: int = Field(
        default=10_000,
        ge=1,
        le=1_000_000,
        description="Most reservations to collect in this run, 1 to 1,000,000; the oldest first. "
        "What is left is reported as truncated.",
    )
    batch_size: int = Field(
        default=500,
        ge=1,
        le=1000,
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
        description="Ask storage for the size of each object before it goes: one request per "
        "object, and the only way to know bytes freed and uploads that never arrived.",
    )

    @field_validator("grace")
    @classmethod
    def _grace(cls, text: str) -> str:
        return _within(text, "grace", MOST_GRACE)

    @field_validator("max_runtime")
    @classmethod
    def _max_runtime(cls, text: str) -> str:
        return _within(text, "max_runtime", MOST_RUNTIME)


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


def with_defaults(
    base: type[UploadReservationsConfig], **defaults: Any
) -> type[UploadReservationsConfig]:
    """A subclass of a config class whose defaults are other ones; bounds and words stay."""
    fields: dict[str, Any] = {}
    for name, value in defaults.items():
        inherited = base.model_fields[name]
        changed = inherited.merge_field_infos(inherited, default=value)
        fields[name] = (inherited.annotation, changed)
    made = create_model(base.__name__, __base__=base, __module__=__name__, **fields)
    return cast("type[UploadReservationsConfig]", made)


def _within(text: str, name: str, most: timedelta) -> str:
    duration = parse_duration(text)
    if duration > most:
        raise ValueError(f"{name} is {text}; it can be at most {format_duration(most)}")
    return text
