"""An installation of one test's own: database, bucket, settings file, environment."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import psycopg
import yaml

from filejobs_dagster.door.adoption import AdoptionTarget, adopt
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.settings import Loaded, Settings, load_settings, read_settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.s3 import EmbeddedS3

MARKERS = "filejobs-adopted"
NOW = datetime.now(timezone.utc)
ACCESS_KEY, SECRET_KEY = "test-access-key", "test-secret-key-of-the-tests"


@dataclass
class Installation:
    """What a test works with."""

    folder: Path
    database_url: str
    bucket: str
    client: S3Client
    endpoint_url: str
    document: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.document = self.document or {
            "installation": "test",
            "database": {"url": {"env": "FILEJOBS_DATABASE_URL"}},
            "buckets": {
                "uploads": {
                    "bucket": self.bucket,
                    "endpoint_url": self.endpoint_url,
                    "region": "us-east-1",
                    "access_key_id": {"env": "FILEJOBS_S3_ACCESS_KEY_ID"},
                    "secret_access_key": {"env": "FILEJOBS_S3_SECRET_ACCESS_KEY"},
                    "addressing": "path",
                    "owns": ["files/"],
                    "protect": ["files/brand/"],
                    "min_age": "48h",
                    "delete": "at_once",
                    "max_attempts": 2,
                }
            },
            "jobs": {"upload_reservations": {"schedule": "*/15 * * * *", "mode": "live"}},
        }

    def keeps(self, keep: str | None = "30d", *, bring_back: bool = True) -> None:
        """Quarantine what goes; None says nothing of it, as files did before there was one."""
        uploads = self.document["buckets"]["uploads"]
        uploads.pop("delete", None)
        if keep is not None:
            uploads["quarantine"] = {"keep": keep, "bring_back": bring_back}

    @property
    def settings_path(self) -> Path:
        return self.folder / "filejobs.yaml"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "FILEJOBS_CONFIG": str(self.settings_path),
            "FILEJOBS_DATABASE_URL": self.database_url,
            "FILEJOBS_S3_ACCESS_KEY_ID": ACCESS_KEY,
            "FILEJOBS_S3_SECRET_ACCESS_KEY": SECRET_KEY,
        }

    def job(self, **changes: Any) -> None:
        """Change what the settings say of upload_reservations."""
        self.document["jobs"]["upload_reservations"].update(changes)

    def write(self) -> Path:
        # Replaced as a whole: another thread of the test may be reading it.
        draft = self.settings_path.with_name(f"{uuid.uuid4().hex}.yaml")
        draft.write_text(yaml.safe_dump(self.document, sort_keys=False))
        return draft.replace(self.settings_path)

    def settings(self, environment: Mapping[str, str] | None = None) -> Settings:
        return load_settings(self.write(), environment or self.environment)

    def loaded(self, environment: Mapping[str, str] | None = None) -> Loaded:
        return read_settings(self.write(), environment or self.environment)

    @property
    def database(self) -> Database:
        return Database(self.database_url)

    def adopt(self, environment: str | None = None) -> None:
        """Write the marker of the bucket, once; it takes no setting but the bucket's."""
        settings = self.settings().model_copy(update={"environment": environment})
        with self.database.connect("adopt") as connection:
            bucket = settings.buckets["uploads"]
            adopt(
                AdoptionTarget.of(settings, bucket, self.client, self.database, connection),
                by="the test",
            )

    # --- the file feature ---------------------------------------------------------------------

    def reserve(
        self,
        key: str,
        *,
        due_ago: timedelta = timedelta(hours=1),
        body: bytes | None = b"bytes",
        state: str = "pending",
        expires: bool = True,
    ) -> uuid.UUID:
        """One row of `file`, and its object unless `body` is None."""
        if body is not None:
            self.client.put_object(Bucket=self.bucket, Key=key, Body=body)
        identity = uuid.uuid4()
        self.execute(
            "INSERT INTO file (id, state, storage_key, upload_expires_at)"
            " VALUES (%s, %s, %s, CASE WHEN %s THEN now() - %s END)",
            (identity, state, key, expires, due_ago),
        )
        return identity

    def reserve_many(self, keys: Iterable[str], *, due_ago: timedelta = timedelta(hours=1)) -> None:
        """Rows only, in one statement; each due a little later than the one before."""
        self.execute(
            "INSERT INTO file (storage_key, upload_expires_at)"
            " SELECT key, now() - %s + n * interval '1 millisecond'"
            " FROM unnest(%s::text[]) WITH ORDINALITY AS given (key, n)",
            (due_ago, list(keys)),
        )

    def execute(self, statement: str, values: Any = None) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else []

    def sql(self, *texts: str) -> None:
        """Whole texts of SQL, each with as many statements as it likes."""
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            for text in texts:
                connection.execute(text.encode())

    def value(self, statement: str, values: Any = None) -> Any:
        return self.execute(statement, values)[0][0]

    def has_row(self, key: str) -> bool:
        return bool(self.execute("SELECT 1 FROM file WHERE storage_key = %s", (key,)))

    def has_object(self, key: str) -> bool:
        return key in self.keys()

    def keys(self) -> set[str]:
        """Every key of the bucket but the marker's, which is there as soon as it is adopted."""
        found: set[str] = set()
        for page in self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket):
            found.update(entry["Key"] for entry in page.get("Contents", []))
        return {key for key in found if not key.startswith(MARKERS)}

    def records(self) -> list[dict[str, Any]]:
        """The rows of job_run, oldest first."""
        with (
            psycopg.connect(self.database_url) as connection,
            connection.cursor(row_factory=psycopg.rows.dict_row) as cursor,
        ):
            return cursor.execute("SELECT * FROM job_run ORDER BY id").fetchall()

    def progress(self) -> list[dict[str, Any]]:
        """The rows of job_progress, oldest first."""
        with (
            psycopg.connect(self.database_url) as connection,
            connection.cursor(row_factory=psycopg.rows.dict_row) as cursor,
        ):
            return cursor.execute("SELECT * FROM job_progress ORDER BY started_at").fetchall()


def make_installation(
    folder: Path, database_url: str, bucket: str, client: S3Client, server: EmbeddedS3
) -> Installation:
    return Installation(folder, database_url, bucket, client, server.endpoint_url)
