"""One deployment for a test, with everything that it started ended afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

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
