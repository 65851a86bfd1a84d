"""The project's collector with its locks, its audit and its progress, as every door runs it."""

from __future__ import annotations

import logging
import os
import uuid
from typing import TYPE_CHECKING

from benchmarks.reservations import bucket_settings
from filejobs_dagster.jobs import upload_reservations
from filejobs_dagster.jobs.lifecycle import RunSpec, run_job
from filejobs_dagster.ledger.outcome import Trigger
from filejobs_dagster.ledger.progress import RunIdentity
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.objects.gate import Gate
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.references.check import ReferenceCheck

if TYPE_CHECKING:
    from filejobs_dagster.embedded.s3 import S3Endpoint
    from filejobs_dagster.jobs.upload_reservations import UploadReservationsRun
    from filejobs_dagster.ledger.outcome import Mode, Outcome
    from filejobs_dagster.run_context import RunContext

LOG = logging.getLogger("benchmarks.collector")
LOG.addHandler(logging.NullHandler())
LOG.propagate = False


class NotTheSameWork(Exception):
    """A side of a comparison did not do what the other did, so there is nothing to compare."""


def collect(
    database_url: str,
    server: S3Endpoint,
    bucket: str,
    request: UploadReservationsRun,
    *,
    mode: Mode = "live",
) -> Outcome:
    """Run `upload_reservations` from its locks to its final word.

    Raises:
        NotTheSameWork: The run failed.
    """
    os.environ.update(server.environment())
    settings = bucket_settings(server, bucket)
    client = make_client(settings)

    def body(context: RunContext) -> Outcome:
        references = ReferenceCheck(context.connection, settings.sources)
        gate = Gate(client, settings, references)
        storage = upload_reservations.Storage(bucket, client, gate, references)
        return upload_reservations.run(context, request, storage)

    identity = RunIdentity(
        run_id=str(uuid.uuid4()),
        installation="benchmark",
        job=upload_reservations.JOB,
        mode=mode,
        trigger=Trigger("cli", "benchmark"),
        holder="benchmark",
    )
    outcome = run_job(RunSpec(identity), Database(database_url), body, LOG, door=None)
    if not outcome.ok:
        raise NotTheSameWork(f"The collector failed: {outcome.error}")
    return outcome
