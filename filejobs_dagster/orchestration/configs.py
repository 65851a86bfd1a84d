"""What a person may set in the Launchpad, with words that help there.

The defaults of the limits are the operator's settings, so that a run started by hand, by a
schedule and by a backfill keep the same limits; `dry_run` is true whatever the settings say.
"""

from datetime import timedelta
from typing import Any, cast

import dagster as dg
from pydantic import Field, create_model

from filejobs_dagster.settings import (
    Settings,
    UploadReservationsSettings,
    format_duration,
    parse_duration,
)

MOST_RESERVATIONS = 1_000_000
MOST_IN_A_BATCH = 1000
MOST_RUNTIME = timedelta(hours=24)
MOST_GRACE = timedelta(days=30)


class CollectorConfig(dg.Config):
    """What every collector can be told."""

    dry_run: bool = Field(
        default=True,
        description="true: report what would be collected and change nothing. "
        "false: collect. (`allow_live: false` in filejobs.yaml forbids false.)",
    )

    def mistakes(self) -> list[str]:
        """What is wrong with the values, a sentence each; empty when nothing is.

        Asked by the op itself: a validator of the class would fail before the op, and the run's
        page would open with a stack trace instead of the sentence.
        """
        return []


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
        description="Ask storage for the size of each object before it goes: one request per "
        "object, and the only way to know bytes freed and uploads that never arrived.",
    )

    def mistakes(self) -> list[str]:
        """What is out of bounds."""
        return [
            *_outside("limit", self.limit, MOST_RESERVATIONS),
            *_outside("batch_size", self.batch_size, MOST_IN_A_BATCH),
            *_too_long("grace", self.grace, MOST_GRACE, least=timedelta(0)),
            *_too_long("max_runtime", self.max_runtime, MOST_RUNTIME, least=timedelta(seconds=1)),
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


def _outside(name: str, number: int, most: int) -> list[str]:
    return [] if 1 <= number <= most else [f"{name} is {number:,}; it can be 1 to {most:,}."]


def _too_long(name: str, text: str, most: timedelta, *, least: timedelta) -> list[str]:
    try:
        duration = parse_duration(text)
    except ValueError as error:
        return [f"{name}: {error}."]
    if least <= duration <= most:
        return []
    return [f"{name} is {text}; it can be {format_duration(least)} to {format_duration(most)}."]
