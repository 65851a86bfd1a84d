"""Uploads of a test, and a cleaner that runs the job on them without Dagster."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from tenacity import wait_none

from filejobs_dagster.jobs import upload_cleanup
from filejobs_dagster.jobs.lifecycle import Intervals, RunSpec, run_job
from filejobs_dagster.jobs.upload_cleanup import Storage, UploadCleanupRun
from filejobs_dagster.ledger.outcome import EVERYTHING, Mode, Trigger, Window
from filejobs_dagster.ledger.progress import RunIdentity
from filejobs_dagster.objects.gate import Gate
from filejobs_dagster.references.check import ReferenceCheck

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.run_context import RunContext
    from tests.installation import Installation

QUICK = Intervals(heartbeat=timedelta(seconds=0.2), final_word=timedelta(seconds=3))

MakeGate = Callable[["S3Client", Any, ReferenceCheck], Gate]


def careful_gate(client: S3Client, bucket: Any, references: ReferenceCheck) -> Gate:
    return Gate(client, bucket, references, wait=wait_none())


@dataclass(frozen=True)
class Begun:
    """One row of `upload`."""

    id: uuid.UUID
    key: str


@dataclass
class Uploads:
    """The application: it uses the functions of the migration, as any language would."""

    installation: Installation

    def begin(self, suffix: str = "") -> Begun:
        [row] = self.installation.execute(
            "SELECT id, key FROM begin_upload('files/', %s)", (suffix,)
        )
        return Begun(*row)

    def put(self, upload: Begun, body: bytes = b"bytes") -> str:
        answer = self.installation.client.put_object(
            Bucket=self.installation.bucket, Key=upload.key, Body=body
        )
        return answer["ETag"].strip('"')

    def stored(self, *, body: bytes = b"bytes", suffix: str = "") -> Begun:
        upload = self.begin(suffix)
        etag = self.put(upload, body)
        self.call("mark_stored", upload.id, etag, len(body))
        return upload

    def cancelled(self, *, body: bytes = b"bytes", suffix: str = "") -> Begun:
        """An upload in `cleanup`, and its object."""
        upload = self.stored(body=body, suffix=suffix)
        assert self.call("cancel_upload", upload.id) == "cleanup"
        return upload

    def published(self) -> Begun:
        upload = self.stored()
        assert self.call("publish_upload", upload.id, "message 17") is not None
        return upload

    def multipart(self, *parts: bytes) -> tuple[Begun, str]:
        """A row in `writing` with some parts that were never completed."""
        upload = self.begin()
        client, bucket = self.installation.client, self.installation.bucket
        made = client.create_multipart_upload(Bucket=bucket, Key=upload.key)["UploadId"]
        self.call("record_upload_id", upload.id, made)
        for number, body in enumerate(parts, start=1):
            client.upload_part(
                Bucket=bucket, Key=upload.key, UploadId=made, PartNumber=number, Body=body
            )
        return upload, made

    def call(self, function: str, *values: Any) -> Any:
        places = ", ".join(["%s"] * len(values))
        return self.installation.value(f"SELECT {function}({places})", values)

    def row(self, upload: Begun) -> dict[str, Any]:
        document: dict[str, Any] = self.installation.value(
            "SELECT to_jsonb(upload) FROM upload WHERE id = %s", (upload.id,)
        )
        return document

    def state(self, upload: Begun) -> str:
        return str(self.row(upload)["state"])

    def change(self, upload: Begun, assignments: str, *values: Any) -> None:
        """Change a row as only a test may: with the trigger on, so never against its rules."""
        self.installation.execute(
            f"UPDATE upload SET {assignments} WHERE id = %s", (*values, upload.id)
        )

    def due_now(self) -> None:
        """Let every pause be over."""
        self.installation.execute(
            "UPDATE upload SET next_attempt_at = clock_timestamp() - interval '1 second'"
            " WHERE state IN ('cleanup', 'uncertain', 'retained')"
        )
        self.installation.execute("UPDATE setback SET not_before = clock_timestamp()")

    def claimed_by_another(self, upload: Begun) -> None:
        """What a worker that has taken the row over did to it."""
        self.change(upload, "attempts = attempts + 1, claimed_by = 'another run'")


@dataclass
class Cleaner:
    """Runs the job on an installation; `client` may be prepared with faults.

    Attributes:
        installation: Whose bucket and database.
        client: For the job.
        gate: Makes the gate; a careless one for CONTROL tests.
        hook: Called with the run's context before it begins.
    """

    installation: Installation
    client: S3Client
    gate: MakeGate = careful_gate
    hook: Callable[[RunContext], None] = field(default=lambda _context: None)

    def __call__(
        self,
        *,
        mode: Mode = "live",
        window: Window = EVERYTHING,
        run_id: str | None = None,
        **limits: Any,
    ) -> Outcome:
        settings = self.installation.settings()
        bucket = settings.buckets["uploads"]
        identity = RunIdentity(
            run_id=run_id or str(uuid.uuid4()),
            installation="test",
            job="upload_cleanup",
            mode=mode,
            trigger=Trigger("cli"),
            holder="the test",
        )

        def body(run: RunContext) -> Outcome:
            self.hook(run)
            with ReferenceCheck(run.connected, bucket.sources) as references:
                storage = Storage(
                    bucket=bucket.bucket,
                    client=self.client,
                    gate=self.gate(self.client, bucket, references),
                    references=references,
                    purge_versions=bucket.purge_versions,
                )
                return upload_cleanup.run(run, UploadCleanupRun.model_construct(**limits), storage)

        run_spec = RunSpec(identity, window=window, pace=QUICK)
        return run_job(
            run_spec, self.installation.database, body, logging.getLogger("cleaner"), door=None
        )


def events(installation: Installation, kind: str) -> list[dict[str, Any]]:
    """Audit events of a kind, oldest first."""
    rows = installation.execute(
        "SELECT body::jsonb FROM audit_event WHERE body::jsonb ->> 'kind' = %s ORDER BY seq",
        (kind,),
    )
    return [row[0] for row in rows]
