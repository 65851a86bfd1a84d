"""What the doctor says of multipart uploads."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from filejobs_dagster.doctor.examination import examine
from tests.installation import Installation, make_installation

if TYPE_CHECKING:
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.doctor.finding import Finding
    from filejobs_dagster.embedded.s3 import EmbeddedS3


@pytest.fixture
def installation(
    tmp_path: Path, database_url: str, bucket: str, s3_client: S3Client, s3_server: EmbeddedS3
) -> Installation:
    installation = make_installation(tmp_path, database_url, bucket, s3_client, s3_server)
    installation.document["jobs"]["multipart_uploads"] = {"by_hand": True, "idle_for": "2d"}
    return installation


def findings(installation: Installation) -> dict[str, Finding]:
    found = examine(installation.loaded(), installation.environment)
    return {each.check: each for each in found if each.check.startswith("multipart_uploads")}


def test_a_bucket_without_a_backstop_gets_the_rule_that_makes_one(
    installation: Installation,
) -> None:
    found = findings(installation)

    assert found["multipart_uploads uploads"].verdict == "ok"
    backstop = found["multipart_uploads uploads backstop"]
    assert (backstop.verdict, "'files/'" in backstop.found) == ("warning", True)
    rule: Any = json.loads(backstop.advice.partition(": ")[2])
    assert rule["Rules"][0]["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 9}

    installation.client.put_bucket_lifecycle_configuration(
        Bucket=installation.bucket, LifecycleConfiguration=rule
    )

    assert findings(installation)["multipart_uploads uploads backstop"].verdict == "ok"


def test_a_bucket_whose_uploads_are_not_listed_is_said_to_fail_every_run(
    installation: Installation,
) -> None:
    installation.client.delete_bucket(Bucket=installation.bucket)

    found = findings(installation)["multipart_uploads uploads"]

    assert (found.verdict, "s3:ListBucketMultipartUploads" in found.found) == ("failed", True)


def test_a_job_that_is_not_in_the_settings_is_not_looked_at(installation: Installation) -> None:
    del installation.document["jobs"]["multipart_uploads"]

    assert findings(installation) == {}
