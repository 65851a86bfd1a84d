"""Deleted files of an installation, and running the job on them without Dagster."""

from __future__ import annotations

import logging
import uuid
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from filejobs_dagster.jobs import deleted_files
from filejobs_dagster.jobs.deleted_files.settings import DerivedSettings
from filejobs_dagster.jobs.lifecycle import Intervals, RunSpec, run_job
from filejobs_dagster.ledger.outcome import EVERYTHING, Mode, Trigger, Window
from filejobs_dagster.ledger.progress import RunIdentity
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.objects.gate import Gate
from filejobs_dagster.references.check import ReferenceCheck

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.ledger.outcome import Outcome
    from tests.installation import Installation

DAY = timedelta(days=1)
WINDOW = 30 * DAY
QUICK = Intervals(heartbeat=timedelta(seconds=0.2), final_word=timedelta(seconds=3))

THUMBNAILS = DerivedSettings(
    name="thumbnails", sql="select storage_key from thumbnail where file_id = any($1)"
)
THUMBNAIL_TABLE = (
    "CREATE TABLE thumbnail (id bigserial PRIMARY KEY,"
    " file_id uuid REFERENCES file ON DELETE CASCADE, storage_key text NOT NULL)"
)
THUMBNAIL_SOURCE = {"name": "thumbnails", "sql": "select storage_key from thumbnail", "min_rows": 0}


@dataclass
class Files:
    """Deleted files, and the job; `client` may be prepared with faults."""

    installation: Installation
    client: S3Client
    derived: list[DerivedSettings] = field(default_factory=list)
    lock_timeout: timedelta = timedelta(seconds=5)

    def __call__(
        self,
        *,
        mode: Mode = "live",
        run_id: str | None = None,
        window: Window = EVERYTHING,
        **changes: Any,
    ) -> Outcome:
        bucket = self.installation.settings().buckets["uploads"]
        identity = RunIdentity(
            run_id=run_id or str(uuid.uuid4()),
            installation="test",
            job="deleted_files",
            mode=mode,
            trigger=Trigger("cli"),
            holder="the test",
        )
        request = deleted_files.DeletedFilesRun.model_construct(
            **{"restore_window": WINDOW, "derived": self.derived, **changes}
        )

        def body(run: Any) -> Outcome:
            with ReferenceCheck(run.connected, bucket.sources) as checks:
                gate = Gate(self.client, bucket, checks)
                storage = deleted_files.Storage(
                    bucket.bucket,
                    self.client,
                    gate,
                    checks,
                    bucket.purge_versions,
                    bool(changes.get("quarantine")),
                    bucket,
                )
                return deleted_files.run(run, request, storage)

        run_spec = RunSpec(identity, window=window, pace=QUICK)
        database = replace(self.installation.database, lock_timeout=self.lock_timeout)
        return run_job(run_spec, database, body, logging.getLogger("collector"), door=None)

    # --- the file feature ---------------------------------------------------------------------

    def put(self, *keys: str, body: bytes = b"bytes") -> None:
        for key in keys:
            self.installation.client.put_object(Bucket=self.installation.bucket, Key=key, Body=body)

    def delete(
        self,
        key: str,
        *,
        ago: timedelta | None = WINDOW + DAY,
        retained: timedelta | None = None,
        body: bytes | None = b"bytes",
        state: str = "deleted",
    ) -> uuid.UUID:
        """One row, deleted so long ago, retained until so long from now; its object with `body`."""
        if body is not None:
            self.put(key, body=body)
        identity: uuid.UUID = self.installation.value(
            "INSERT INTO file (state, storage_key, deleted_at, retain_until)"
            " VALUES (%s, %s, now() - %s::interval, now() + %s::interval) RETURNING id",
            (state, key, ago, retained),
        )
        return identity

    def delete_many(self, keys: list[str], *, ago: timedelta = WINDOW + DAY) -> None:
        """Rows only; each a little later than the one before."""
        self.installation.execute(
            "INSERT INTO file (state, storage_key, deleted_at)"
            " SELECT 'deleted', key, now() - %s + n * interval '1 millisecond'"
            " FROM unnest(%s::text[]) WITH ORDINALITY AS given (key, n)",
            (ago, keys),
        )

    def with_thumbnails(self) -> None:
        """A table of derived objects that the job knows, and the gate too."""
        self.installation.execute(THUMBNAIL_TABLE)
        self.installation.document["buckets"]["uploads"]["sources"] = [THUMBNAIL_SOURCE]
        self.derived = [THUMBNAILS]

    def thumbnail(self, file: uuid.UUID, key: str, *, body: bytes = b"tiny") -> None:
        self.put(key, body=body)
        self.installation.execute(
            "INSERT INTO thumbnail (file_id, storage_key) VALUES (%s, %s)", (file, key)
        )

    def restore(self, file: uuid.UUID) -> bool:
        restored: bool = self.installation.value("SELECT restore_file(%s)", (file,))
        return restored

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        bodies = self.installation.execute("SELECT body::jsonb FROM audit_event ORDER BY seq")
        return [body for (body,) in bodies if not kinds or body["kind"] in kinds]

    def keys(self) -> set[str]:
        return self.installation.keys()

    def rows(self) -> set[str]:
        return {key for (key,) in self.installation.execute("SELECT storage_key FROM file")}


def files_of(installation: Installation) -> Files:
    return Files(installation, make_client(installation.settings().buckets["uploads"]))
