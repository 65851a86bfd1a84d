"""An installation in which each of the ten jobs has something to do, as often as one asks.

What no setting may allow (an orphan of a minute, a history of seconds) is allowed here, so that
whole jobs run by their own commands in front of servers whose clocks nobody bends.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg
from typer.testing import CliRunner

from filejobs_dagster.audit.note import generate, private_text
from filejobs_dagster.cli.main import app
from filejobs_dagster.jobs.storage_orphans import expiring
from filejobs_dagster.objects.quarantine import copies_below
from filejobs_dagster.orchestration.config import Choice
from filejobs_dagster.registry import JOB_NAMES
from filejobs_dagster.settings.values import Bounds
from filejobs_dagster.uploads import Uploads
from tests.installation import Installation

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest
    from typer.testing import Result

    from filejobs_dagster.objects.quarantine import Copy

SIGNER = generate("test/audit")

SHOP = """
CREATE SCHEMA shop;
CREATE TABLE shop.account (id serial PRIMARY KEY, avatar_key text);
CREATE TABLE shop.session (id serial PRIMARY KEY, expires_at timestamptz NOT NULL);
CREATE INDEX ON shop.session (expires_at, id);
INSERT INTO shop.account (avatar_key) VALUES ('files/avatar');
"""

JOBS: dict[str, dict[str, Any]] = {
    "storage_orphans": {
        "confirm_after": "0s",
        "breakers": {
            "max_orphan_fraction": 1,
            "max_reference_shrink": 1,
            "max_missing_fraction": 1,
            "max_named_elsewhere_fraction": 1,
            "max_newer": 1_000_000,
        },
    },
    "deleted_files": {"restore_window": "1d"},
    "multipart_uploads": {"idle_for": "0s"},
    "run_history": {"keep": "1s"},
    "audit_verify": {"mode": "dry"},
    "table_retention": {
        "rules": [
            {
                "name": "expired sessions",
                "table": "shop.session",
                "time": "expires_at",
                "delete_after": "1d",
            }
        ]
    },
}


def call(*arguments: str) -> Result:
    """What a command says, in this process."""
    return CliRunner().invoke(app, list(arguments))


def live(job: str) -> tuple[str, ...]:
    """The command that runs a job as far as it goes."""
    return ("run", job) if job == "audit_verify" else ("run", job, "--live")


class EveryJob(Installation):
    """The installation.

    Attributes:
        instance: Where Dagster keeps its runs.
    """

    instance: dg.DagsterInstance

    def prepare(self, patch: pytest.MonkeyPatch) -> None:
        """Write settings of all jobs, and take what holds a test up out of the way."""
        patch.setattr(Bounds, "__call__", lambda _self, value, _info: value)
        patch.setattr(Choice, "mistakes", lambda _self, _said: ())
        patch.setattr(expiring, "copies_below", _older)
        uploads = self.document["buckets"]["uploads"]
        uploads |= {"min_age": "0s", "sources": [
            {"name": "avatars", "sql": "select avatar_key from shop.account"}
        ]}  # fmt: skip
        self.keeps("1s")
        self.document["jobs"] = {
            job: {"by_hand": True, "mode": "live", **JOBS.get(job, {})} for job in JOB_NAMES
        }
        self.document["audit"] = {
            "signing_key": {"env": "FILEJOBS_AUDIT_KEY"},
            "public_keys": [{"key": str(SIGNER.verifier)}],
            "pins": {"folder": str(self.folder / "pins")},
            "retention": "1s",
        }
        self.write()
        for name, value in self.environment.items():
            patch.setenv(name, value)
        patch.setenv("FILEJOBS_AUDIT_KEY", private_text(SIGNER))

    def fill(self) -> None:
        """Give each job something to do; what is an orphan was seen by an earlier run."""
        name = uuid.uuid4().hex
        for key in ("files/avatar", f"files/{name}/deleted", f"files/{name}/orphan"):
            self.client.put_object(Bucket=self.bucket, Key=key, Body=b"bytes")
        self.client.create_multipart_upload(Bucket=self.bucket, Key=f"files/{name}/parts")
        self.reserve(f"files/{name}/reserved", due_ago=timedelta(days=3))
        self.execute(
            "INSERT INTO file (state, storage_key, deleted_at)"
            " VALUES ('deleted', %s, now() - interval '30 days')",
            (f"files/{name}/deleted",),
        )
        self.reserve(f"files/{name}/never-arrived", due_ago=timedelta(days=3), body=None)
        self.reserve(f"files/brand/{name}", due_ago=timedelta(days=3))
        self.cancel()
        self.execute("DELETE FROM alert_condition")
        self.execute("INSERT INTO shop.session (expires_at) VALUES (now() - interval '9 days')")
        self.instance.run_storage.add_run(
            dg.DagsterRun(
                job_name="upload_reservations",
                status=dg.DagsterRunStatus.FAILURE,
                tags={"filejobs/installation": "test"},
            )
        )

    def cancel(self) -> None:
        """An upload that names the version that it stored, and was given up."""
        with self.database.connect("application") as connection:
            uploads = Uploads(connection)
            begun = uploads.begin("files/")
            connection.commit()
            stored = self.client.put_object(Bucket=self.bucket, Key=begun.key, Body=b"bytes")
            uploads.mark_stored(
                begun.id, etag=stored["ETag"], version_id=stored.get("VersionId"), size_bytes=5
            )
            uploads.cancel(begun.id)
            connection.commit()


def _older(*arguments: Any) -> Iterator[list[Copy]]:
    """Copies as if each had been made forty days ago."""
    for page in copies_below(*arguments):
        yield [replace(it, since=it.since - timedelta(days=40)) for it in page]
