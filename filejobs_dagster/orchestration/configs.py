"""What a person may set in the Launchpad, with words that help there.

The defaults of the limits are the operator's settings, so that a run started by hand, by a
schedule and by a backfill keep the same limits; `dry_run` is true whatever the settings say.
"""

from datetime import timedelta
from typing import Any, TypeVar

import dagster as dg
from pydantic import Field, create_model

from filejobs_dagster.jobs.storage_orphans import BREAKERS
from filejobs_dagster.settings import (
    AuditSealSettings,
    AuditTrimSettings,
    AuditVerifySettings,
    Settings,
    StorageOrphansSettings,
    UploadReservationsSettings,
    format_duration,
    parse_duration,
)

MOST_RESERVATIONS = 1_000_000
MOST_ORPHANS = 10_000_000
MOST_EVENTS = 100_000_000
MOST_EVENTS_IN_A_BATCH = 1_000_000
MOST_PARTS = 64
MOST_PARTS_OF_A_CHAIN = 366
CHECKS = ("full", "incremental", "rolling")
MOST_IN_A_BATCH = 1000
MOST_RUNTIME = timedelta(hours=24)
MOST_GRACE = timedelta(days=30)
LEAST_CONFIRMED = timedelta(hours=1)
MOST_CONFIRMED = timedelta(days=3650)
MOST_WAIT = timedelta(hours=1)

Config = TypeVar("Config", bound="CollectorConfig")


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
        description="Ask storage for the size of each object before it goes: at most one "
        "request an object, and the only way to know bytes freed and uploads that never arrived.",
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
            *_outside("limit", self.limit, MOST_ORPHANS),
            *_outside("batch_size", self.batch_size, MOST_IN_A_BATCH),
            *_outside("parts", self.parts, MOST_PARTS),
            *_too_long("max_runtime", self.max_runtime, MOST_RUNTIME, least=second),
            *_too_long("confirm_after", self.confirm_after, MOST_CONFIRMED, least=LEAST_CONFIRMED),
            *_too_long(
                "wait_for_transactions", self.wait_for_transactions, MOST_WAIT, least=second
            ),
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


_LONGEST_CHAIN = (
    "No further chain is begun after this time, and the run fails, with a unit: 30m, 2h; at most "
    "24h."
)


class AuditSealConfig(CollectorConfig):
    """Limits of one run of audit_seal."""

    dry_run: bool = Field(
        default=True,
        description="true: verify, say what would be sealed, write neither seal nor pin. "
        "false: seal. (`allow_live: false` in filejobs.yaml forbids false.)",
    )
    max_runtime: str = Field(default="30m", description=_LONGEST_CHAIN)

    def mistakes(self) -> list[str]:
        """What is out of bounds."""
        return _too_long("max_runtime", self.max_runtime, MOST_RUNTIME, least=timedelta(seconds=1))


def audit_seal_config(settings: Settings | None) -> type[AuditSealConfig]:
    """The config class with the operator's limits as its defaults."""
    configured = None if settings is None else settings.jobs.get("audit_seal")
    if not isinstance(configured, AuditSealSettings):
        return AuditSealConfig
    return with_defaults(AuditSealConfig, max_runtime=format_duration(configured.max_runtime))


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
            *_outside("limit", self.limit, MOST_EVENTS),
            *_outside("batch_size", self.batch_size, MOST_EVENTS_IN_A_BATCH),
            *_too_long("max_runtime", self.max_runtime, MOST_RUNTIME, least=timedelta(seconds=1)),
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
    max_runtime: str = Field(default="30m", description=_LONGEST_CHAIN)

    def mistakes(self) -> list[str]:
        """What is out of bounds."""
        unknown = [] if self.check in CHECKS else [
            f"check is {self.check!r}; it can be {', '.join(CHECKS)}."
        ]  # fmt: skip
        return [
            *unknown,
            *_outside("parts", self.parts, MOST_PARTS_OF_A_CHAIN),
            *_too_long("max_runtime", self.max_runtime, MOST_RUNTIME, least=timedelta(seconds=1)),
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


def with_defaults(base: type[Config], **defaults: Any) -> type[Config]:
    """A subclass of a config class whose defaults are other ones; bounds and words stay."""
    fields: dict[str, Any] = {}
    for name, value in defaults.items():
        inherited = base.model_fields[name]
        changed = inherited.merge_field_infos(inherited, default=value)
        fields[name] = (inherited.annotation, changed)
    return create_model(base.__name__, __base__=base, __module__=__name__, **fields)


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
