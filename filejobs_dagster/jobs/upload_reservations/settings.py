"""What `upload_reservations` can be told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, StrictBool, StrictInt

from filejobs_dagster.settings.problems import mistake
from filejobs_dagster.settings.rules import repeated_names
from filejobs_dagster.settings.secrets import OtherDatabase
from filejobs_dagster.settings.section import (
    Around,
    Asked,
    Found,
    OneRun,
    Run,
    Section,
    items,
    part,
)
from filejobs_dagster.settings.statements import AuditStatement, CandidateQuery, ClaimStatement
from filejobs_dagster.settings.tables import CollectingSettings, TableSettings
from filejobs_dagster.settings.values import Duration, Text, between

if TYPE_CHECKING:
    from filejobs_dagster.settings.secrets import Secret

JOB = "upload_reservations"


class ReservationTableSettings(TableSettings):
    """A table of the operator's that holds reservations."""

    after: Annotated[Duration, between(timedelta(0))] = Field(
        description="How long after the time in `due` a reservation has expired. 0s where "
        "the column is a deadline; by what an upload may take where it is a beginning.",
        examples=["2d"],
    )


class ReservationSourceSettings(Section):
    """Reservations by statements of the operator's own, which nobody has written from one `where`.

    For what a declared table cannot say: the claim is the operator's, and so is its safety.
    """

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


class UploadReservationsSettings(CollectingSettings):
    """What `upload_reservations` can be told."""

    limit: Annotated[
        StrictInt,
        Run(
            "Most reservations to collect in this run, {least} to {most}; the oldest first. What "
            "is left is reported as truncated.",
            safer="less",
        ),
    ] = Field(
        default=10_000,
        ge=1,
        le=1_000_000,
        description="The most reservations one run removes. The rest waits for the next run.",
        examples=[10_000],
    )
    batch_size: Annotated[
        StrictInt,
        Run(
            "Reservations in one transaction and objects in one delete request, {least} to {most}. "
            "Smaller batches hold row locks for a shorter time.",
            safer="less",
        ),
    ] = Field(
        default=500,
        ge=1,
        le=1000,
        description="How many reservations one transaction claims.",
        examples=[500],
    )
    grace: Annotated[
        Duration,
        between(timedelta(0), timedelta(days=30)),
        Run(
            "How long after its expiry a reservation is still left alone, with a unit: 0s, 15m, "
            "2h; at most {most}.",
            safer="more",
        ),
    ] = Field(
        default=timedelta(0),
        description="How long a reservation is still left alone after it expired.",
        examples=["10m"],
    )
    backlog_over: StrictInt | None = Field(
        default=None,
        ge=1,
        description="Start the job early when more reservations than this are due.",
        examples=[50_000],
    )
    tables: list[ReservationTableSettings] = Field(
        default_factory=list,
        description="Tables of your own that hold reservations. With any, or with source, the "
        "project's table file is left alone.",
        examples=[
            [
                {
                    "name": "documents",
                    "table": "public.documents",
                    "key": "storage_key",
                    "due": "expires_at",
                    "after": "0s",
                    "where": "status = 'reserved'",
                }
            ]
        ],
    )
    source: ReservationSourceSettings | None = Field(
        default=None,
        description="Reservations of your own by two statements, where a declared table cannot say "
        "it. Write tables instead where you can.",
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

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Look at when it runs, and at the names of tables."""
        yield from super().across(said)
        tables = items(said.get("tables"))
        yield from repeated_names(tables, "tables", "table")
        name = part(said.get("source"), "name")
        if name is not None and name in [part(table, "name") for table in tables]:
            yield (
                ("source", "name"),
                mistake("a table has the same name", "give each a name of its own"),
            )

    @classmethod
    def beside(cls, said: Mapping[str, Any], around: Around) -> Iterator[Found]:
        """Find a table in a database that no source of its bucket is asked in."""
        table = part(said, "source")
        if table is None or around.entry is None:
            return
        sources = around.buckets[around.entry].get("sources")
        places = [part(one, "database") for one in items(sources)]
        if part(table, "database") not in places:
            yield (
                ("jobs", JOB, "source"),
                mistake(
                    f"buckets.{around.entry}.sources has no query in the same database, so the "
                    "gate would not know which keys the table still names",
                    "add a source whose query returns the key of every row that still needs its "
                    "object, with the same `database`",
                ),
            )

    def addresses(self) -> Iterator[Secret]:
        """The databases of the operator's tables."""
        yield from super().addresses()
        if self.source is not None and self.source.database is not None:
            yield self.source.database.url

    def declared(self) -> Iterator[TableSettings]:
        """The operator's tables of reservations."""
        yield from self.tables

    def asked(self) -> Iterator[Asked]:
        """The tables, and the statements of the source."""
        yield from super().asked()
        if self.source is not None:
            texts = (self.source.candidates, self.source.claim, self.source.audit)
            for text in filter(None, texts):
                yield Asked(f"source {self.source.name}", self.source.database, statement=text)


class UploadReservationsRun(OneRun, UploadReservationsSettings):
    """What one run does."""

    count_bytes: Annotated[
        StrictBool,
        Run(
            "Ask storage for the size of each object before it goes: at most one request an "
            "object, and the only way to know bytes freed and uploads that never arrived.",
            safer="either",
        ),
    ] = True
