"""A settings file, a database, and a way to call the command as its user does."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from psycopg.types.json import Jsonb
from typer.testing import CliRunner, Result

from filejobs_dagster.cli.main import app

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg

EVERYTHING = {"window": {"covers": "everything"}}


@dataclass
class Desk:
    """Where somebody types `filejobs`.

    Attributes:
        path: The settings file.
        connection: To the migrated database that it names.
        document: What the file holds; call `write` after a change.
    """

    path: Path
    connection: psycopg.Connection
    document: dict[str, Any] = field(default_factory=dict)

    def write(self) -> None:
        self.path.write_text(yaml.safe_dump(self.document, sort_keys=False))

    def configure(self, job: str = "upload_reservations", **settings: Any) -> None:
        """Add a job to the settings, or change it."""
        asked = self.document["jobs"].setdefault(job, {"by_hand": True})
        asked.update(settings)
        self.write()

    def call(self, *arguments: str) -> Result:
        return CliRunner().invoke(app, ["--config", str(self.path), *arguments])

    def record(
        self,
        job: str = "upload_reservations",
        *,
        outcome: str = "ok",
        mode: str = "live",
        ago: timedelta = timedelta(minutes=5),
        took: timedelta = timedelta(seconds=90),
        scanned: int | None = 10,
        acted: int | None = 4,
        detail: dict[str, Any] | None = None,
        error: str | None = None,
        installation: str = "desk",
    ) -> str:
        """Write a row of job_run, and return its run id."""
        run_id = str(uuid.uuid4())
        if outcome == "failed" and error is None:
            error = "it did not work"
        self.connection.execute(
            """
            INSERT INTO job_run (run_id, installation, job, started_at, finished_at, outcome, mode,
                                 scanned, acted, detail, error)
            VALUES (%s, %s, %s, now() - %s - %s, now() - %s, %s, %s, %s, %s, %s, %s)
            """,
            (
                run_id,
                installation,
                job,
                ago,
                took,
                ago,
                outcome,
                mode,
                scanned,
                acted,
                Jsonb(EVERYTHING if detail is None else detail),
                error,
            ),
        )
        return run_id


@pytest.fixture
def desk(
    tmp_path: Path,
    database_url: str,
    connection: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> Desk:
    """Settings without buckets and with one job, run by hand and live."""
    monkeypatch.setenv("FILEJOBS_DATABASE_URL", database_url)
    desk = Desk(tmp_path / "filejobs.yaml", connection)
    desk.document = {
        "installation": "desk",
        "database": {"url": {"env": "FILEJOBS_DATABASE_URL"}},
        "buckets": {
            "uploads": {
                "bucket": "desk-uploads",
                "owns": ["files/"],
                "min_age": "48h",
                "endpoint_url": "http://127.0.0.1:9",
                "region": "us-east-1",
            }
        },
        "jobs": {"upload_reservations": {"by_hand": True, "mode": "live"}},
    }
    desk.write()
    return desk


@pytest.fixture
def unreachable(monkeypatch: pytest.MonkeyPatch) -> str:
    """A password in a database URL that nobody answers at."""
    password = "hunter2-and-a-long-tail"
    monkeypatch.setenv(
        "FILEJOBS_DATABASE_URL", f"postgresql://collector:{password}@127.0.0.1:9/files"
    )
    return password
