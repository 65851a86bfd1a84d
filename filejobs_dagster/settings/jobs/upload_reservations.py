"""What `upload_reservations` can be told."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import Field, StrictBool, StrictInt

from filejobs_dagster.settings.durations import Duration
from filejobs_dagster.settings.jobs.job import JobSettings
from filejobs_dagster.settings.other_database import OtherDatabase
from filejobs_dagster.settings.section import Section
from filejobs_dagster.settings.statements import AuditStatement, CandidateQuery, ClaimStatement
from filejobs_dagster.settings.values import Text, between


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
