"""The project's sweep, or the part of it that classifies, within a run's locks and records.

Both are dry: they delete nothing. The whole sweep also writes its marks and its list for review.
The end of what quarantine keeps is the one live part.
"""

from __future__ import annotations

import os
import time
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING

from benchmarks.canned_listing import BUCKET
from benchmarks.collector import LOG, NotTheSameWork
from benchmarks.reservations import bucket_settings
from filejobs_dagster.book.bookkeeping import Bookkeeping
from filejobs_dagster.book.totals import Totals
from filejobs_dagster.jobs import storage_orphans
from filejobs_dagster.jobs.lifecycle import RunSpec, run_job
from filejobs_dagster.jobs.storage_orphans import ReportSettings, Storage, StorageOrphansRun
from filejobs_dagster.jobs.storage_orphans.classification.records import ORPHAN, Rules
from filejobs_dagster.jobs.storage_orphans.detail import detail_of
from filejobs_dagster.jobs.storage_orphans.expiring import Copies
from filejobs_dagster.jobs.storage_orphans.one_pass import make_pass
from filejobs_dagster.jobs.storage_orphans.settings import BreakersSettings
from filejobs_dagster.jobs.storage_orphans.ticker import Ticker
from filejobs_dagster.ledger.outcome import Outcome, Trigger
from filejobs_dagster.ledger.progress import RunIdentity
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.objects.deletion_mode import DeletionMode
from filejobs_dagster.objects.gate import Gate
from filejobs_dagster.postgres.connect import Database, database_now
from filejobs_dagster.references.check import ReferenceCheck
from filejobs_dagster.references.elsewhere.search import Elsewhere
from filejobs_dagster.settings.storage import QuarantineSettings
from filejobs_dagster.streams import Scratch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from filejobs_dagster.embedded.s3 import S3Endpoint
    from filejobs_dagster.ledger.outcome import Mode
    from filejobs_dagster.run_context import RunContext

NEVER_TRIPS = BreakersSettings(
    max_orphan_fraction=1,
    max_ambiguous_fraction=1,
    max_missing_fraction=1,
    max_named_elsewhere_fraction=1,
    max_reference_shrink=1,
    max_newer=1_000_000,
)
"""They are read and said; but a bucket of nothing but orphans is to be measured, too."""


def sweep(database_url: str, server: S3Endpoint, report_to: Path) -> Outcome:
    """Run `storage_orphans` dry, from its locks to its record.

    Raises:
        NotTheSameWork: The run failed.
    """

    def work(context: RunContext, request: StorageOrphansRun, storage: Storage) -> Outcome:
        return storage_orphans.run(context, request, storage)

    request = StorageOrphansRun(report_to=ReportSettings(folder=str(report_to)))
    return conducted(database_url, server, BUCKET, request, work)


def classify_only(database_url: str, server: S3Endpoint) -> Outcome:
    """List, read the references and classify, which is the part of a sweep that grows with both.

    Raises:
        NotTheSameWork: The run failed.
    """

    def work(context: RunContext, request: StorageOrphansRun, storage: Storage) -> Outcome:
        with context.database.transaction(context.connection, read_only=True) as cursor:
            now = database_now(cursor)
        with Scratch(storage.scratch) as scratch:
            made = make_pass(
                context,
                request,
                storage,
                scratch,
                Ticker(context, lambda _facts: None),
                now=now,
                ends_at=time.monotonic() + request.max_runtime.total_seconds(),
                elsewhere=Elsewhere(context.database, storage.bucket),
            )
            found = made.found
            facts = {
                "orphans": found.classes[ORPHAN].count,
                "references": found.references,
                "missing": found.missing,
            }
            return Outcome(scanned=found.objects, acted=0, detail=facts)

    return conducted(database_url, server, BUCKET, StorageOrphansRun(), work)


def expire(database_url: str, server: S3Endpoint, bucket: str) -> Outcome:
    """Let copies in quarantine go that were kept long enough.

    Raises:
        NotTheSameWork: The run failed.
    """

    def work(context: RunContext, request: StorageOrphansRun, storage: Storage) -> Outcome:
        with context.database.transaction(context.connection, read_only=True) as cursor:
            now = database_now(cursor)
        totals = Totals(live=True)
        books = Bookkeeping(context, totals, detail_of, bucket=bucket)
        Copies(
            context,
            request,
            storage,
            books,
            rules=Rules.of(storage.bucket),
            elsewhere=Elsewhere(context.database, storage.bucket),
            ends_at=time.monotonic() + request.max_runtime.total_seconds(),
        ).expire(QuarantineSettings(), now, DeletionMode(conditional="honoured"))
        facts = books.facts["in_quarantine"]
        looked_at = facts["expired"] + facts["objects"]
        return Outcome(looked_at, 0, {"orphans": facts["expired"], "kept": facts["objects"]})

    request = StorageOrphansRun(limit=1_000_000, max_runtime=timedelta(days=1))
    return conducted(database_url, server, bucket, request, work, mode="live")


def conducted(
    database_url: str,
    server: S3Endpoint,
    bucket: str,
    request: StorageOrphansRun,
    work: Callable[[RunContext, StorageOrphansRun, Storage], Outcome],
    *,
    mode: Mode = "dry",
) -> Outcome:
    """Do some work as a run of `storage_orphans`, whose breakers never trip.

    Raises:
        NotTheSameWork: The run failed.
    """
    os.environ.update(server.environment())
    settings = bucket_settings(server, bucket)
    client = make_client(settings)

    def body(context: RunContext) -> Outcome:
        with ReferenceCheck(context.connection, settings.sources) as references:
            gate = Gate(client, settings, references)
            storage = Storage(bucket, settings, client, gate, references)
            return work(context, request.model_copy(update={"breakers": NEVER_TRIPS}), storage)

    identity = RunIdentity(
        run_id=str(uuid.uuid4()),
        installation="benchmark",
        job=storage_orphans.JOB,
        mode=mode,
        trigger=Trigger("cli", "benchmark"),
        holder="benchmark",
    )
    outcome = run_job(RunSpec(identity), Database(database_url), body, LOG, door=None)
    if not outcome.ok:
        raise NotTheSameWork(f"The sweep failed: {outcome.error}")
    return outcome
