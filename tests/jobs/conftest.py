"""Running upload_reservations without Dagster."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from filejobs_dagster.jobs import upload_reservations
from filejobs_dagster.jobs.lifecycle import Intervals, RunSpec, run_job
from filejobs_dagster.jobs.upload_reservations import Storage, UploadReservationsRun
from filejobs_dagster.jobs.upload_reservations.opening import opened_sources
from filejobs_dagster.jobs.upload_reservations.settings import UploadReservationsSettings
from filejobs_dagster.ledger.outcome import EVERYTHING, Mode, Trigger, Window
from filejobs_dagster.ledger.progress import RunIdentity
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.objects.gate import Gate
from filejobs_dagster.references.check import ReferenceCheck
from tests.installation import Installation, make_installation

if TYPE_CHECKING:
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.s3 import EmbeddedS3
    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.run_context import RunContext

QUICK = Intervals(heartbeat=timedelta(seconds=0.2), final_word=timedelta(seconds=3))

Hook = Callable[["RunContext"], None]


@dataclass
class Collector:
    """Runs the job on an installation; `client` may be prepared with faults."""

    installation: Installation
    client: S3Client
    hooks: dict[str, Hook] = field(default_factory=dict)

    def __call__(
        self,
        *,
        mode: Mode = "live",
        run_id: str | None = None,
        window: Window = EVERYTHING,
        **limits: Any,
    ) -> Outcome:
        settings = self.installation.settings()
        bucket = settings.buckets["uploads"]
        identity = RunIdentity(
            run_id=run_id or str(uuid.uuid4()),
            installation="test",
            job="upload_reservations",
            mode=mode,
            trigger=Trigger("cli"),
            holder="the test",
        )

        def body(run: RunContext) -> Outcome:
            configured = settings.jobs["upload_reservations"]
            assert isinstance(configured, UploadReservationsSettings)
            own = configured.source is not None or configured.tables
            with (
                ReferenceCheck(run.connected, bucket.sources) as checks,
                opened_sources(configured, run.database, lambda: run.connection) as sources,
            ):
                gate = Gate(self.client, bucket, checks)
                storage = Storage(
                    bucket.bucket,
                    self.client,
                    gate,
                    checks,
                    bucket.purge_versions,
                    bool(limits.get("quarantine")),
                    bucket,
                )
                # None: what the job does when nobody names a source.
                return upload_reservations.run(
                    run,
                    UploadReservationsRun.model_construct(**limits),
                    storage,
                    sources if own else (),
                )

        run_spec = RunSpec(identity, window=window, pace=QUICK)
        log = logging.getLogger("collector")
        return run_job(run_spec, self.installation.database, body, log, door=None)


@pytest.fixture
def installation(
    tmp_path: Path, database_url: str, bucket: str, s3_client: S3Client, s3_server: EmbeddedS3
) -> Installation:
    return make_installation(tmp_path, database_url, bucket, s3_client, s3_server)


@pytest.fixture
def collect(installation: Installation) -> Collector:
    return Collector(installation, make_client(installation.settings().buckets["uploads"]))
