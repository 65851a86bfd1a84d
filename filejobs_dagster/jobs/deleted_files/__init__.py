"""deleted_files: takes away soft-deleted files whose restore window is over.

A deleted file is a `file` row in state `deleted` with `deleted_at`. Somebody may restore it at any
moment while the row is there, and other rows may name its object or objects made from it, so:

- The claim is the write. Candidates are only a guess; the claim repeats every predicate, and a row
  that it does not return was restored, or is held by somebody else, and keeps its bytes.
- Row, commit, bytes. A crash in between leaves objects without a row, which storage_orphans takes;
  never a row without its object.
- Rows that name derived objects go with their file, by a cascade. Their keys are read before, in
  the claim's transaction and under the file's lock, which a foreign key's own lock cannot pass: a
  derived row that commits meanwhile makes the claim leave its file, and a later one is refused.
  Keys that are named by the same query after the claim still stay: their rows outlived the file.
- The audit events of the claimed rows, and the intent to delete all of these objects, commit with
  the claim. Then each passes the gate: an object that another row names stays.
- A row without `deleted_at` is never taken; every run counts them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.collector import Collector, Examination
from filejobs_dagster.jobs.collecting import Storage
from filejobs_dagster.jobs.deleted_files.settings import JOB, DeletedFilesRun, DeletedFilesSettings

if TYPE_CHECKING:
    from collections.abc import Iterable

    from filejobs_dagster.collector import Resources
    from filejobs_dagster.doctor.finding import Finding
    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.postgres.connect import Connection, Database
    from filejobs_dagster.run_context import RunContext
    from filejobs_dagster.settings import Settings

__all__ = ["COLLECTOR", "JOB", "DeletedFilesRun", "Storage", "run"]


def run(context: RunContext, request: DeletedFilesRun, storage: Storage) -> Outcome:
    """Collect, or in a dry run report, the deleted files that are due.

    Args:
        context: The run.
        request: The restore window, the queries of derived objects, and its limits.
        storage: Where the bytes are.

    Returns:
        The outcome: failed when every item failed.

    Raises:
        JobFailed: Storage rejected a batch, a source of references could not be read, or a query of
            derived objects cannot be used as it is.
        BucketUnavailable: The bucket cannot be reached; nothing was claimed.
        ReferencesUnknown: A source could not be read; nothing was claimed.
    """
    from filejobs_dagster.jobs.deleted_files.collection import Collection  # noqa: PLC0415 (boto3)

    if request.tables:
        return _run_over_tables(context, request, storage)
    return Collection(context, request, storage).run()


def _run(run_context: RunContext, request: DeletedFilesRun, has: Resources) -> Outcome:
    with has.storage(run_context) as at:
        storage = Storage(
            at.bucket.bucket,
            at.client,
            at.gate,
            at.references,
            at.bucket.purge_versions,
            request.quarantine,
            at.bucket,
        )
        return run(run_context, request, storage)


def _run_over_tables(context: RunContext, request: DeletedFilesRun, storage: Storage) -> Outcome:
    """Collect soft-deleted rows of the operator's tables, as reservations of theirs are."""
    from filejobs_dagster.jobs.deleted_files.collection import MISSING  # noqa: PLC0415 (boto3)
    from filejobs_dagster.jobs.upload_reservations.collection import (  # noqa: PLC0415
        Collection,
        Words,
    )
    from filejobs_dagster.jobs.upload_reservations.opening import opened_tables  # noqa: PLC0415

    words = Words("deleted rows", "deleted_file.collected", "collectable_at", MISSING)
    window = request.restore_window
    wanted = [(table, max(table.after or window, window)) for table in request.tables]
    with opened_tables(
        wanted, context.database, lambda: context.connection, leave_out=request.rows_left_out
    ) as tables:
        return Collection(context, request, storage, tables, words=words).run(
            restore_window_seconds=round(request.restore_window.total_seconds())
        )


def _examine(settings: Settings, configured: DeletedFilesSettings) -> Examination:
    _, bucket = settings.bucket_of(JOB)

    def look(database: Database, connection: Connection) -> Iterable[Finding]:
        if configured.tables:
            from filejobs_dagster.doctor.reservations import (  # noqa: PLC0415 (sqlglot)
                check_reservation_source,
            )

            for table in configured.tables:
                yield from check_reservation_source(
                    table, bucket.sources, database, connection, rows="deleted rows"
                )
            return
        from filejobs_dagster.doctor.deleted_files import (  # noqa: PLC0415 (sqlglot)
            check_deleted_files,
        )

        yield from check_deleted_files(configured, bucket.sources, database, connection)

    return Examination(JOB, look)


COLLECTOR = Collector(
    name=JOB,
    summary="Removes soft-deleted files whose restore window is over.",
    touches=frozenset({"rows", "objects"}),
    partitioned=True,
    settings=DeletedFilesSettings,
    request=DeletedFilesRun,
    run=_run,
    privileges=(("file", "UPDATE"), ("file", "DELETE")),
    examine=_examine,
)
