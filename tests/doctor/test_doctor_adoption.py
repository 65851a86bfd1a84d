"""What the doctor says of a bucket's marker, and of what its server does with a condition."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from typer.testing import CliRunner

from filejobs_dagster.cli.main import app
from filejobs_dagster.doctor.examination import examine
from filejobs_dagster.settings import read_settings

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg
    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.doctor.finding import Finding
    from filejobs_dagster.embedded.s3 import EmbeddedS3

pytestmark = pytest.mark.thorough

MARKER = "door marker"
SERVER = "door server"
PROBE = "probe uploads"


class Patient:
    """An installation, and what the doctor says of its bucket."""

    def __init__(self, path: Path, bucket: str, endpoint_url: str) -> None:
        self.path = path
        self.document: dict[str, Any] = {
            "installation": "patient",
            "database": {"url": {"env": "FILEJOBS_DATABASE_URL"}},
            "buckets": {
                "uploads": {
                    "bucket": bucket,
                    "endpoint_url": endpoint_url,
                    "region": "us-east-1",
                    "access_key_id": {"env": "FILEJOBS_S3_ACCESS_KEY_ID"},
                    "secret_access_key": {"env": "FILEJOBS_S3_SECRET_ACCESS_KEY"},
                    "addressing": "path",
                    "owns": ["files/"],
                    "min_age": "48h",
                    "max_attempts": 1,
                }
            },
            "jobs": {"storage_orphans": {"by_hand": True, "mode": "live"}},
        }

    def call(self, *arguments: str) -> Any:
        self.path.write_text(yaml.safe_dump(self.document))
        return CliRunner().invoke(app, ["--config", str(self.path), *arguments])

    def finding(self, check: str, *, probe: bool = False) -> Finding | None:
        self.path.write_text(yaml.safe_dump(self.document))
        found = examine(read_settings(self.path), os.environ, probe=probe)
        return next((finding for finding in found if finding.check == check), None)


@pytest.fixture
def patient(
    tmp_path: Path,
    database_url: str,
    bucket: str,
    s3_server: EmbeddedS3,
    monkeypatch: pytest.MonkeyPatch,
) -> Patient:
    monkeypatch.setenv("FILEJOBS_DATABASE_URL", database_url)
    monkeypatch.setenv("FILEJOBS_S3_ACCESS_KEY_ID", "key-of-the-patient")
    monkeypatch.setenv("FILEJOBS_S3_SECRET_ACCESS_KEY", "secret-of-the-patient")
    return Patient(tmp_path / "filejobs.yaml", bucket, s3_server.endpoint_url)


@pytest.mark.parametrize(
    ("jobs", "verdict"),
    [
        ({"storage_orphans": {"by_hand": True, "mode": "live"}}, "failed"),
        ({"storage_orphans": {"by_hand": True}}, "warning"),
        ({"multipart_uploads": {"by_hand": True, "mode": "live"}}, "failed"),
        ({"upload_reservations": {"by_hand": True, "mode": "live"}}, "failed"),
        ({"upload_reservations": {"by_hand": True}}, "warning"),
        ({"run_history": {"by_hand": True, "keep": "90d"}}, "ok"),
        (
            {
                "run_history": {"by_hand": True, "keep": "90d", "mode": "live"},
                "storage_orphans": {"by_hand": True},
            },
            "warning",
        ),
    ],
)
def test_a_bucket_that_nobody_adopted_matters_as_much_as_the_job_that_deletes_from_it(
    patient: Patient, jobs: dict[str, Any], verdict: str
) -> None:
    patient.document["jobs"] = jobs
    finding = patient.finding(MARKER)
    assert finding is not None
    assert finding.verdict == verdict


def test_an_adopted_bucket_is_well_and_the_doctor_probes_only_when_told_to(
    patient: Patient, bucket: str, s3_client: S3Client, connection: psycopg.Connection
) -> None:
    patient.call("bucket", "adopt")
    finding = patient.finding(MARKER)
    assert finding is not None
    assert (finding.verdict, "counter 1" in finding.found) == ("ok", True)
    condition = patient.finding(SERVER)
    assert condition is not None
    assert "not tried yet" in condition.found
    kept = "SELECT conditional_delete FROM bucket_adoption"
    assert connection.execute(kept).fetchone() == (None,)

    said = patient.call("doctor", "--probe")

    assert "only in requests for one object" in said.stdout
    assert connection.execute(kept).fetchone() == ("single only",)
    listed = s3_client.list_objects_v2(Bucket=bucket)["Contents"]
    assert [entry["Key"] for entry in listed] == ["filejobs-adopted/patient.json"]
    condition = patient.finding(SERVER)
    assert condition is not None
    assert "(tried 2" in condition.found


def test_a_bucket_that_nobody_adopted_is_not_probed(
    patient: Patient, bucket: str, s3_client: S3Client
) -> None:
    finding = patient.finding(PROBE, probe=True)
    assert finding is not None
    assert finding.verdict == "skipped"
    assert "Contents" not in s3_client.list_objects_v2(Bucket=bucket)


def test_a_bucket_of_somebody_else_fails_and_is_not_probed(
    patient: Patient, connection: psycopg.Connection
) -> None:
    patient.call("bucket", "adopt")
    connection.execute("DELETE FROM bucket_adoption")
    patient.document["installation"] = "somebody-else"
    finding = patient.finding(MARKER, probe=True)
    assert finding is not None
    assert (finding.verdict, "belongs to the installation 'patient'" in finding.found) == (
        "failed",
        True,
    )
    probed = patient.finding(PROBE, probe=True)
    assert probed is not None
    assert probed.verdict == "skipped"
