"""`filejobs apply`: a list that a dry run wrote, reviewed, and handed back."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest
from moto.core.models import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends
from typer.testing import CliRunner

from filejobs_dagster.cli.main import app
from tests.installation import Installation, make_installation

if TYPE_CHECKING:
    from pathlib import Path

    from mypy_boto3_s3 import S3Client
    from typer.testing import Result

    from filejobs_dagster.embedded.s3 import EmbeddedS3

pytestmark = pytest.mark.thorough

ORPHANS = ("files/a", "files/b")


@pytest.fixture
def installation(
    tmp_path: Path, database_url: str, bucket: str, s3_client: S3Client, s3_server: EmbeddedS3,
    monkeypatch: pytest.MonkeyPatch,
) -> Installation:  # fmt: skip
    installation = make_installation(tmp_path, database_url, bucket, s3_client, s3_server)
    installation.document["jobs"] = {
        "storage_orphans": {
            "by_hand": True,
            "confirm_after": "1h",
            "report_to": {"folder": str(tmp_path / "lists")},
            "breakers": {"max_orphan_fraction": 1},
        }
    }
    installation.write()
    for name, value in installation.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    for key in (*ORPHANS, "files/used"):
        s3_client.put_object(Bucket=bucket, Key=key, Body=b"bytes")
    # The embedded server is this process's, so an object can be made older than it is.
    for found in s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[bucket].keys.values():
        found.last_modified = datetime.now(timezone.utc).replace(tzinfo=None) - timedelta(days=5)
    installation.execute("INSERT INTO file (state, storage_key) VALUES ('ready', 'files/used')")
    return installation


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def first_list(installation: Installation) -> Path:
    """What a dry run wrote two hours ago."""
    import dagster as dg  # noqa: PLC0415 (seconds that only these tests need)

    from filejobs_dagster.orchestration.in_process import execute_here  # noqa: PLC0415

    with dg.DagsterInstance.ephemeral() as instance:
        error, shown = execute_here(instance, installation.loaded(), "storage_orphans", {})
    assert error is None
    assert shown["orphans"] == len(ORPHANS)
    installation.execute("UPDATE orphan_candidate SET first_seen_at = now() - interval '2 hours'")
    installation.execute("UPDATE orphan_pass SET at = at - interval '2 hours'")
    [path] = (installation.folder / "lists").iterdir()
    return path


def test_a_reviewed_list_is_applied_first_dry_and_then_live(installation: Installation) -> None:
    path = first_list(installation)
    path.write_text(path.read_text().replace("remove,files/b", "keep,files/b"))

    dry = call("apply", str(path))
    assert dry.exit_code == 0, dry.output
    assert "would remove 1 objects; --live removes them" in dry.stdout
    assert "DAGSTER_HOME is not set" in dry.stderr
    assert installation.keys() == {*ORPHANS, "files/used"}

    refused = call("apply", str(path), "--live")
    assert refused.exit_code == 1
    assert "filejobs bucket adopt" in refused.stderr

    assert call("bucket", "adopt").exit_code == 0
    live = call("apply", str(path), "--live")
    assert live.exit_code == 0, live.output
    assert "removed 1 objects, 5 bytes freed" in live.stdout
    assert installation.keys() == {"files/b", "files/used"}
    [*_, record] = installation.progress()
    assert record["detail"]["window"]["covers"].startswith("the reviewed list of run ")


def test_a_live_one_that_was_dry_is_not_said_to_have_removed_anything(
    installation: Installation,
) -> None:
    path = first_list(installation)
    assert call("bucket", "adopt").exit_code == 0
    assert call("hold", "storage_orphans", "--why", "a customer misses files").exit_code == 0
    held = call("apply", str(path), "--live")
    assert held.exit_code == 1
    assert "would remove 2 objects\n" in held.stdout
    assert "was dry, and removed nothing" in held.stderr
    assert "a customer misses files" in held.stderr
    assert installation.keys() == {*ORPHANS, "files/used"}


def test_a_list_that_is_not_there_or_not_ours_is_refused(installation: Installation) -> None:
    path = first_list(installation)
    missing = call("apply", str(path.with_name("nothing.csv")))
    assert missing.exit_code == 1
    assert "could not be read" in missing.stderr
    path.write_text(path.read_text().replace("# installation,test", "# installation,other"))
    foreign = call("apply", str(path))
    assert foreign.exit_code == 1
    assert "of the installation 'other'" in foreign.stderr


def test_a_versioned_bucket_is_not_said_to_have_freed_anything(installation: Installation) -> None:
    installation.client.put_bucket_versioning(
        Bucket=installation.bucket, VersioningConfiguration={"Status": "Enabled"}
    )
    report = first_list(installation)
    assert call("bucket", "adopt").exit_code == 0
    live = call("apply", str(report), "--live")
    assert live.exit_code == 0, live.output
    assert "removed 2 objects, 0 bytes freed; 2 got a delete marker" in live.stdout
    again = call("apply", str(report))
    assert "would remove 0 objects; the log says why" in again.stdout
