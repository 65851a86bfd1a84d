"""upload_reservations: takes away reservations whose upload never finished.

A reservation is a `file` row in state `pending` with `upload_expires_at`, or a row of the
operator's that their own statements call one. Its client may be slow rather than gone, and complete
the upload at any moment, so:

- The claim is the write. Candidates are only a guess; the claim repeats every predicate, and a
  row that it does not return belongs to somebody else, together with its bytes.
- Row, commit, bytes. A crash in between leaves an object without a row, which storage_orphans
  takes; never a row without an object.
- The audit events of the claimed rows, and the intent to delete their objects, commit with the
  claim; the intent right before it, where the rows are in another database.
- Bytes that storage did not let go are counted as left, never as collected. When storage rejects
  a whole batch, no further row is claimed and the run fails.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from filejobs_dagster.collector import Collector, EarlyStart, Examination
from filejobs_dagster.jobs.collecting import Storage
from filejobs_dagster.jobs.upload_reservations.settings import (
    JOB,
    UploadReservationsRun,
    UploadReservationsSettings,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from filejobs_dagster.collector import Resources
    from filejobs_dagster.doctor.finding import Finding
    from filejobs_dagster.jobs.upload_reservations.file_table import ReservationSource
    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.postgres.connect import Connection, Database
    from filejobs_dagster.run_context import RunContext
    from filejobs_dagster.settings import Settings

__all__ = ["COLLECTOR", "JOB", "Storage", "UploadReservationsRun", "run"]

NO_USE_IN_TRYING_SOONER = timedelta(minutes=15)
"""After a run that collected nothing, the backlog alone is no reason to start another."""


def run(
    context: RunContext,
    request: UploadReservationsRun,
    storage: Storage,
    sources: Sequence[ReservationSource] = (),
) -> Outcome:
    """Collect, or in a dry run report, the reservations that are due.

    Args:
        context: The run.
        request: Its limits.
        storage: Where the bytes are.
        sources: Where the reservations are, from `opened_sources`; none for the table `file`.

    Returns:
        The outcome: failed when every item failed.

    Raises:
        JobFailed: Storage rejected a batch, a source of references could not be read, or the
            source of reservations cannot be used as it is.
        BucketUnavailable: The bucket cannot be reached; nothing was claimed.
        ReferencesUnknown: A source could not be read; nothing was claimed.
    """
    from filejobs_dagster.jobs.upload_reservations.collection import Collection  # noqa: PLC0415

    return Collection(context, request, storage, sources, grace=request.grace).run()


def _run(run_context: RunContext, request: UploadReservationsRun, has: Resources) -> Outcome:
    from filejobs_dagster.jobs.upload_reservations.opening import opened_sources  # noqa: PLC0415

    with (
        has.storage(run_context) as at,
        opened_sources(request, run_context.database, lambda: run_context.connection) as sources,
    ):
        storage = Storage(
            at.bucket.bucket,
            at.client,
            at.gate,
            at.references,
            at.bucket.purge_versions,
            request.quarantine,
            at.bucket,
        )
        return run(run_context, request, storage, sources)


def _examine(settings: Settings, configured: UploadReservationsSettings) -> Examination | None:
    tables = [*configured.tables, *([configured.source] if configured.source else ())]
    if not tables:
        return None
    _, bucket = settings.bucket_of(JOB)

    def look(database: Database, connection: Connection) -> Iterable[Finding]:
        # The parser of SQL takes a tenth of a second that other settings should not wait for.
        from filejobs_dagster.doctor.reservations import check_reservation_source  # noqa: PLC0415

        for table in tables:
            yield from check_reservation_source(table, bucket.sources, database, connection)

    return Examination(f"reservations {', '.join(table.name for table in tables)}", look)


def _due(settings: Settings, configured: UploadReservationsSettings) -> EarlyStart | None:
    most = configured.backlog_over
    if most is None:
        return None

    def why_not(database: Database, connection: Connection) -> str | None:
        from filejobs_dagster.jobs.upload_reservations.opening import opened_sources  # noqa: PLC0415
        from filejobs_dagster.ledger.runs import newest_runs  # noqa: PLC0415

        with opened_sources(configured, database, connection) as sources:
            due = sum(source.count_due(configured.grace, most=most + 1) for source in sources)
        if due <= most:
            return f"{due:,} reservations are due, not more than {most:,}."
        with database.transaction(connection, read_only=True) as cursor:
            recent = newest_runs(
                cursor, settings.installation, job=JOB, limit=1, since=NO_USE_IN_TRYING_SOONER
            )
        if recent and not recent[0].acted:
            return f"Run {recent[0].run_id} of {JOB} has just made no difference."
        return None

    return EarlyStart(
        suffix="backlog",
        every=timedelta(minutes=1),
        description=f"Starts {JOB} early when more than {most:,} reservations are due. Only for a "
        "live job, and not when its last run made no difference.",
        if_dry="A dry run would leave the backlog as it is.",
        why_not=why_not,
    )


COLLECTOR = Collector(
    name=JOB,
    summary="Removes reservations whose upload never finished, and the bytes that did arrive.",
    touches=frozenset({"rows", "objects"}),
    partitioned=True,
    settings=UploadReservationsSettings,
    request=UploadReservationsRun,
    run=_run,
    privileges=(("file", "UPDATE"), ("file", "DELETE")),
    examine=_examine,
    due=_due,
)
