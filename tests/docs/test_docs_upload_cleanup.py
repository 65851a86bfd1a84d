"""docs/upload_cleanup.md explains what upload_cleanup writes and reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from filejobs_dagster.jobs.upload_cleanup import detail as totals
from filejobs_dagster.jobs.upload_cleanup.removal import WHY_STOPPED
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.orchestration.config import config_of
from filejobs_dagster.registry import BY_NAME
from tests.docs.pages import EXAMPLES, explained
from tests.installation import make_installation
from tests.jobs.upload_cleanup.uploads import Cleaner, Uploads

if TYPE_CHECKING:
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.s3 import EmbeddedS3

UploadCleanupConfig: Any = config_of(BY_NAME["upload_cleanup"], None)

STOPPED = totals.FIELDS["truncated; stopped_reason"]
EXPLAINED = explained("upload_cleanup")


def test_every_field_of_a_record_is_explained(
    tmp_path: Path, database_url: str, bucket: str, s3_client: S3Client, s3_server: EmbeddedS3
) -> None:
    installation = make_installation(tmp_path, database_url, bucket, s3_client, s3_server)
    installation.document["jobs"] = {"upload_cleanup": {"by_hand": True, "mode": "live"}}
    Uploads(installation).cancelled()
    clean = Cleaner(installation, make_client(installation.settings().buckets["uploads"]))
    assert clean(mode="dry").ok
    assert clean().ok
    details: list[dict[str, Any]] = [row["detail"] for row in installation.progress()]
    assert len(details) == 2
    for detail in details:
        assert set(detail) <= EXPLAINED, set(detail) - EXPLAINED


def test_every_class_is_explained() -> None:
    classes = {
        value
        for name, value in vars(totals).items()
        if name.isupper() and isinstance(value, str) and name not in ("KEPT", "AMBIGUOUS")
    }
    assert len(classes) > 10
    assert classes <= EXPLAINED, classes - EXPLAINED
    assert f"`{totals.AMBIGUOUS}`" in totals.FIELDS["samples"]


def test_every_reason_to_stop_is_explained() -> None:
    for reason in ("limit", "max_runtime", "storage did not answer", *WHY_STOPPED.values()):
        assert f"`{reason}`" in STOPPED


@pytest.mark.parametrize(
    "path", sorted(EXAMPLES.glob("upload_cleanup_*.yaml")), ids=lambda path: path.name
)
def test_every_example_of_a_run_config_is_one(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    config = yaml.safe_load(text)["ops"]["upload_cleanup"]["config"]
    asked = UploadCleanupConfig(**config)
    assert asked.mistakes() == []
    assert asked.dry_run is ("_dry" in path.name)
    assert f"-c examples/{path.name}" in text
