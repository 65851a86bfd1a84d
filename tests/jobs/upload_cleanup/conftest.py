"""An installation with uploads, and a cleaner for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.objects.client import make_client
from tests.installation import Installation, make_installation
from tests.jobs.upload_cleanup.uploads import Cleaner, Uploads

if TYPE_CHECKING:
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.s3 import EmbeddedS3


@pytest.fixture
def installation(
    tmp_path: Path, database_url: str, bucket: str, s3_client: S3Client, s3_server: EmbeddedS3
) -> Installation:
    made = make_installation(tmp_path, database_url, bucket, s3_client, s3_server)
    made.document["jobs"] = {"upload_cleanup": {"schedule": "*/15 * * * *", "mode": "live"}}
    return made


@pytest.fixture
def uploads(installation: Installation) -> Uploads:
    return Uploads(installation)


@pytest.fixture
def clean(installation: Installation) -> Cleaner:
    return Cleaner(installation, make_client(installation.settings().buckets["uploads"]))
