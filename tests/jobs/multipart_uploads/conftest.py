"""Running multipart_uploads without Dagster, on a server that does what a test tells it to."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tenacity import wait_none

from filejobs_dagster.door.door import Door
from filejobs_dagster.jobs import multipart_uploads
from filejobs_dagster.jobs.lifecycle import Intervals, RunSpec, run_job
from filejobs_dagster.jobs.multipart_uploads import MultipartUploadsRun, Storage
from filejobs_dagster.ledger.outcome import Mode, Trigger
from filejobs_dagster.ledger.progress import RunIdentity
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.objects.gate import Gate
from filejobs_dagster.references.check import ReferenceCheck
from filejobs_dagster.registry import BY_NAME
from tests.installation import Installation
from tests.objects.buckets import BucketForTests
from tests.objects.multipart.server import MultipartServer
from tests.objects.scripted import ScriptedS3, scripted_s3

if TYPE_CHECKING:
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.run_context import RunContext

QUICK = Intervals(heartbeat=timedelta(seconds=0.2), final_word=timedelta(seconds=3))
BUCKET = "acme"

Hook = Callable[["RunContext"], None]


@dataclass
class Sweeper:
    """Runs the job on an installation.

    Attributes:
        installation: Whose bucket and database.
        client: Of the job.
        server: What the bucket holds; None on a real server.
        adopted: False leaves the bucket as it is before a live run.
        hook: Called with the run's context before it begins.
        gate: Makes the gate; a careless one for CONTROL tests.
        log: Lines of the last run.
    """

    installation: Installation
    client: S3Client
    server: MultipartServer = field(default_factory=MultipartServer)
    adopted: bool = True
    hook: Hook | None = None
    gate: type[Gate] = Gate
    log: list[str] = field(default_factory=list)

    def __call__(self, mode: Mode = "live", run_id: str | None = None, **limits: Any) -> Outcome:
        bucket = self.installation.settings().buckets["uploads"]
        identity = RunIdentity(
            run_id=run_id or str(uuid.uuid4()),
            installation="test",
            job="multipart_uploads",
            mode=mode,
            trigger=Trigger("cli"),
            holder="the test",
        )

        def body(run: RunContext) -> Outcome:
            if self.hook is not None:
                self.hook(run)
            with ReferenceCheck(run.connected, bucket.sources) as references:
                gate = self.gate(self.client, bucket, references, wait=wait_none())
                storage = Storage("uploads", bucket, self.client, gate, references)
                return multipart_uploads.run(
                    run, MultipartUploadsRun.model_construct(**limits), storage
                )

        if self.adopted and mode == "live":
            self.adopt()
        log = logging.getLogger("multipart")
        log.setLevel(logging.INFO)
        kept = _Kept(self.log)
        log.addHandler(kept)
        try:
            database = self.installation.database
            return run_job(RunSpec(identity, pace=QUICK), database, body, log, door=self.door())
        finally:
            log.removeHandler(kept)

    def door(self) -> Door:
        """What a run of the job must prove."""
        settings = self.installation.settings()
        return Door(BY_NAME["multipart_uploads"], settings, self.client, entry="uploads")

    def adopt(self) -> None:
        """Write the marker, once."""
        self.installation.adopt()

    def row(self, state: str, *, cleaned_ago: timedelta = timedelta(minutes=5)) -> tuple[str, str]:
        """A row of `upload` with a multipart upload: its key, and the upload's id."""
        [(row, key)] = self.installation.execute("SELECT id, key FROM begin_upload('files/')")
        upload_id = f"of-{row}"
        self.installation.execute("SELECT record_upload_id(%s, %s)", (row, upload_id))
        if state == "writing":
            return key, upload_id
        if state == "uncertain":
            self.installation.execute("SELECT mark_uncertain(%s, 'no answer')", (row,))
            return key, upload_id
        self.installation.execute("SELECT mark_stored(%s, 'etag', 12, NULL)", (row,))
        if state in ("cleanup", "cleaned"):
            self.installation.execute("SELECT cancel_upload(%s)", (row,))
        if state == "cleaned":
            self.installation.execute(
                "UPDATE upload SET state = 'cleaned', outcome = 'deleted',"
                " cleaned_at = clock_timestamp() - %s WHERE id = %s",
                (cleaned_ago, row),
            )
        found = self.installation.value("SELECT state FROM upload WHERE id = %s", (row,))
        assert found == state
        return key, upload_id

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The audit events of a kind, in order."""
        rows = self.installation.execute("SELECT body::jsonb FROM audit_event ORDER BY seq")
        return [body for (body,) in rows if body["kind"] == kind]

    @property
    def there(self) -> set[str]:
        """The ids of all uploads of the server."""
        return set(self.server.uploads)

    @property
    def now(self) -> datetime:
        """By the database."""
        found: datetime = self.installation.value("SELECT clock_timestamp()")
        return found


class _Kept(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record.getMessage())


@pytest.fixture(scope="module")
def _scripted() -> Iterator[ScriptedS3]:
    with scripted_s3() as scripted:
        yield scripted


@pytest.fixture(scope="module")
def _clients() -> dict[str, S3Client]:
    """Making a client takes longer than most of these tests."""
    return {}


@pytest.fixture
def scripted(_scripted: ScriptedS3) -> ScriptedS3:
    """The server with an empty bucket."""
    _scripted.requests.clear()
    _scripted.script = MultipartServer()
    return _scripted


@pytest.fixture
def installation(
    tmp_path: Path, database_url: str, scripted: ScriptedS3, _clients: dict[str, S3Client]
) -> Installation:
    installation = Installation(
        tmp_path,
        database_url,
        BUCKET,
        _clients.get("client") or make_client(BucketForTests(endpoint_url=scripted.address)),
        scripted.address,
    )
    installation.document["buckets"]["uploads"]["max_attempts"] = 1
    _clients["client"] = installation.client
    return installation


@pytest.fixture
def sweep(installation: Installation, scripted: ScriptedS3) -> Sweeper:
    assert isinstance(scripted.script, MultipartServer)
    return Sweeper(installation, installation.client, scripted.script)
