"""The jobs of `filejobs.yaml`: when each runs, how far it goes, and when it is missed."""

# pydantic reads the annotations when the module runs, so nothing may move under TYPE_CHECKING.
# ruff: noqa: TC001, TC003
from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictInt

from filejobs_dagster.settings.cron import Cron
from filejobs_dagster.settings.durations import Duration
from filejobs_dagster.settings.orphans import BreakersSettings, ReportSettings
from filejobs_dagster.settings.other_database import OtherDatabase
from filejobs_dagster.settings.problems import mistake
from filejobs_dagster.settings.section import Found, Section
from filejobs_dagster.settings.statements import AuditStatement, CandidateQuery, ClaimStatement
from filejobs_dagster.settings.values import Text, between

_SECOND = timedelta(seconds=1)
_HOUR = timedelta(hours=1)
_SAY_WHEN = "say when: give `schedule` or `by_hand: true`"


class JobSettings(Section):
    """What every job can be told."""

    schedule: Cron | None = Field(
        default=None,
        description="When it runs: five cron fields or a macro such as @daily, in UTC. Either "
        "this or by_hand: true.",
        examples=["*/15 * * * *"],
    )
    by_hand: StrictBool = Field(
        default=False,
        description="True says that only people start this job. Stands instead of schedule.",
        examples=[True],
    )
    mode: Literal["dry", "live"] = Field(
        default="dry",
        description="Whether scheduled runs only report (dry) or delete (live). allow_live: false "
        "wins over it.",
        examples=["live"],
    )
    limit: StrictInt | None = Field(
        default=None,
        ge=1,
        le=10_000_000,
        description="The most items one run acts on. The rest waits for the next run.",
        examples=[10_000],
    )
    max_runtime: Annotated[Duration, between(_SECOND, timedelta(hours=24))] = Field(
        default=timedelta(minutes=30),
        description="How long one run may take before it stops and says so.",
        examples=["30m"],
    )
    stale_after: Annotated[Duration, between(_SECOND)] | None = Field(
        default=None,
        description="The age of the last success from which the job is stale and is raised. "
        "Without it nobody is told that the job stopped.",
        examples=["2h"],
    )

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Look at whether exactly one of `schedule` and `by_hand` is given."""
        scheduled = said.get("schedule") is not None
        by_hand = said.get("by_hand", False) is not False
        if scheduled and by_hand:
            both = "it has both `schedule` and `by_hand: true`"
            yield (), mistake(both, f"{_SAY_WHEN}, not both")
        if not scheduled and not by_hand:
            yield (), mistake("nothing says when it runs", _SAY_WHEN)


class ReservationSourceSettings(Section):
    """Reservations in a table of the operator's, instead of the project's table `file`."""

    name: Text = Field(
        description="What reports and audit events call this source.",
        examples=["documents"],
    )
    database: OtherDatabase | None = Field(
        default=None,
        description="Where the table is. Without it, in the project's own database.",
        examples=[{"url": {"env": "FILEJOBS_APP_DATABASE_URL"}}],
    )
    candidates: CandidateQuery = Field(
        description="One SELECT of id, key and due time (timestamptz), and if you like the size in "
        "bytes. No parameter and no semicolon: cutoff, order and limit are added around it.",
        examples=[
            "select id, storage_key, expires_at from public.documents where status = 'reserved'"
        ],
    )
    claim: ClaimStatement = Field(
        description="One DELETE or UPDATE that repeats every predicate and returns the key. $1 is "
        "the array of ids, $2 the cutoff.",
        examples=[
            "delete from public.documents "  # noqa: ISC004
            "where id = any($1) and status = 'reserved' and expires_at < $2 returning storage_key"
        ],
    )
    claim_checked_by_hand: StrictBool = Field(
        default=False,
        description="You have made sure that the claim leaves alone what was completed meanwhile, "
        "although a comparison with the candidate query cannot see it. Without it, live runs "
        "refuse such a claim.",
        examples=[False],
    )
    audit: AuditStatement | None = Field(
        default=None,
        description="A statement that writes an audit event of your own in the claim's "
        "transaction. $1 is the array of ids, $2 of keys, $3 the run's id.",
        examples=[
            "insert into public.audit_log (document_id, run_id) select unnest($1::uuid[]), $3"
        ],
    )


class UploadReservationsSettings(JobSettings):
    """What `upload_reservations` can be told."""

    limit: StrictInt = Field(
        default=10_000,
        ge=1,
        le=1_000_000,
        description="The most reservations one run removes. The rest waits for the next run.",
        examples=[10_000],
    )
    batch_size: StrictInt = Field(
        default=500,
        ge=1,
        le=1000,
        description="How many reservations one transaction claims.",
        examples=[500],
    )
    grace: Annotated[Duration, between(timedelta(0), timedelta(days=30))] = Field(
        default=timedelta(0),
        description="How long a reservation is still left alone after it expired.",
        examples=["10m"],
    )
    bucket: Text | None = Field(
        default=None,
        description="The entry of buckets that holds the bytes. May be left out when there is "
        "only one.",
        examples=["uploads"],
    )
    backlog_over: StrictInt | None = Field(
        default=None,
        ge=1,
        description="Start the job early when more reservations than this are due.",
        examples=[50_000],
    )
    source: ReservationSourceSettings | None = Field(
        default=None,
        description="A table of your own that holds the reservations. Without it, the project's "
        "table file.",
        examples=[
            {
                "name": "documents",
                "candidates": "select id, storage_key, expires_at from public.documents "
                "where status = 'reserved'",
                "claim": "delete from public.documents where id = any($1) and "
                "status = 'reserved' and expires_at < $2 returning storage_key",
            }
        ],
    )


class StorageOrphansSettings(JobSettings):
    """What `storage_orphans` can be told."""

    limit: StrictInt = Field(
        default=100_000,
        ge=1,
        le=10_000_000,
        description="The most orphans one run removes, the oldest first. The rest is reported and "
        "waits for the next run.",
        examples=[100_000],
    )
    batch_size: StrictInt = Field(
        default=1000,
        ge=1,
        le=1000,
        description="How many orphans one delete request names.",
        examples=[1000],
    )
    max_runtime: Annotated[Duration, between(_SECOND, timedelta(hours=24))] = Field(
        default=timedelta(hours=6),
        description="How long one run may take before it stops and says so.",
        examples=["6h"],
    )
    bucket: Text | None = Field(
        default=None,
        description="The entry of buckets that is swept. May be left out when there is only one.",
        examples=["uploads"],
    )
    confirm_after: Annotated[Duration, between(_HOUR)] = Field(
        default=timedelta(hours=24),
        description="How long ago an earlier run must have seen an object as an orphan before a "
        "run removes it; the floor is 1h.",
        examples=["24h"],
    )
    parts: StrictInt = Field(
        default=8,
        ge=1,
        le=64,
        description="How many parts of the bucket are listed side by side.",
        examples=[8],
    )
    wait_for_transactions: Annotated[Duration, between(_SECOND, _HOUR)] = Field(
        default=timedelta(seconds=60),
        description="How long a batch waits for older transactions, which could still reference "
        "its objects. Then it is left for the next run.",
        examples=["60s"],
    )
    breakers: BreakersSettings = Field(
        default_factory=BreakersSettings,
        description="From which numbers on a pass is not believed.",
        examples=[{"max_orphan_fraction": 0.1}],
    )
    report_to: ReportSettings | None = Field(
        default=None,
        description="Where each run writes its list of orphans, for a person to review and for "
        "`filejobs apply`.",
        examples=[{"folder": "/var/lib/filejobs/reports"}],
    )


class AuditSealSettings(JobSettings):
    """What `audit_seal` can be told; what it signs with and where pins go stands in `audit`."""

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Refuse a limit: a chain left out would look sealed."""
        yield from super().across(said)
        yield from _every_chain(said)


class AuditTrimSettings(JobSettings):
    """What `audit_trim` can be told; how long events are kept stands in `audit`."""

    limit: StrictInt = Field(
        default=1_000_000,
        ge=1,
        le=100_000_000,
        description="The most events one run removes, over all chains. The rest waits for the "
        "next run.",
        examples=[1_000_000],
    )
    batch_size: StrictInt = Field(
        default=10_000,
        ge=1,
        le=1_000_000,
        description="How many events one transaction removes; each has a receipt of its own.",
        examples=[10_000],
    )


class AuditVerifySettings(JobSettings):
    """What `audit_verify` can be told; whom it believes stands in `audit`."""

    mode: Literal["dry"] = Field(
        default="dry",
        description="Always dry: verifying changes nothing, so there is no live mode.",
        examples=["dry"],
    )
    check: Literal["full", "incremental", "rolling"] = Field(
        default="full",
        description="Which events are computed again: all, those behind the newest pin, or those "
        "and the part of the day.",
        examples=["rolling"],
    )

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Refuse a limit: a chain left out would look verified."""
        yield from super().across(said)
        yield from _every_chain(said)


def _every_chain(said: Mapping[str, Any]) -> Iterator[Found]:
    if said.get("limit") is not None:
        yield ("limit",), mistake("it takes every chain, whole", "leave limit out")


JOB_MODELS: dict[str, type[JobSettings]] = {
    "upload_reservations": UploadReservationsSettings,
    "storage_orphans": StorageOrphansSettings,
    "audit_seal": AuditSealSettings,
    "audit_trim": AuditTrimSettings,
    "audit_verify": AuditVerifySettings,
}
"""The jobs that can be told more than every job can."""


def model_of(job: str) -> type[JobSettings]:
    """The model of a job's settings."""
    return JOB_MODELS.get(job, JobSettings)
