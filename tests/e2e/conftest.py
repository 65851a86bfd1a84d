"""One deployment for a test, with everything that it started ended afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.alerts.receiver import Receiver, receiving
from tests.e2e.deployment import Deployment
from tests.installation import make_installation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.s3 import EmbeddedS3


@pytest.fixture
def deployment(
    tmp_path: Path,
    database_url: str,
    empty_database_url: str,
    bucket: str,
    s3_client: S3Client,
    s3_server: EmbeddedS3,
) -> Iterator[Deployment]:
    installation = make_installation(tmp_path, database_url, bucket, s3_client, s3_server)
    installation.adopt()
    made = Deployment(installation, tmp_path / "dagster_home", empty_database_url)
    yield made
    made.stop()


@pytest.fixture
def receiver(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """Whom the deployment tells."""
    with receiving() as receiver:
        monkeypatch.setenv("FILEJOBS_ALERT_URL", receiver.url)
        monkeypatch.setenv("FILEJOBS_HEARTBEAT_URL", receiver.heartbeat_url)
        deployment.installation.document["alerts"] = {
            "to": [{"name": "on-call", "url": {"env": "FILEJOBS_ALERT_URL"}}],
            "recovered_after": "0s",
            "heartbeat": {"url": {"env": "FILEJOBS_HEARTBEAT_URL"}},
        }
        deployment.installation.job(schedule=None, by_hand=True, stale_after="2h")
        # Read by `Settings` in this process, too.
        path = deployment.installation.settings_path
        path.unlink()
        deployment.installation.write()
        yield receiver
