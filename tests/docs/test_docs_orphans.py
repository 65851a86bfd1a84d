"""docs/storage_orphans.md says everything that the job says, and no more."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
import yaml

from filejobs_dagster.book.bookkeeping import LIMIT, MAX_RUNTIME
from filejobs_dagster.jobs.storage_orphans import detail as totals
from filejobs_dagster.jobs.storage_orphans import removal
from filejobs_dagster.jobs.storage_orphans.breakers import BREAKERS
from filejobs_dagster.jobs.storage_orphans.classification.records import CLASSES
from filejobs_dagster.jobs.storage_orphans.review import COLUMNS
from filejobs_dagster.orchestration.build import build_definitions
from filejobs_dagster.orchestration.config import config_of
from filejobs_dagster.registry import BY_NAME
from tests.docs.pages import EXAMPLES, explained, names_in, page
from tests.installation import Installation, make_installation
from tests.instances import dagster_instance

if TYPE_CHECKING:
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.s3 import EmbeddedS3

StorageOrphansConfig: Any = config_of(BY_NAME["storage_orphans"], None)

RUNBOOK = page("runbook.md").text
RUN_CONFIGS = sorted(EXAMPLES.glob("storage_orphans_*.yaml"))
EXPLAINED = explained("storage_orphans")


@pytest.fixture
def installation(
    tmp_path: Path, database_url: str, bucket: str, s3_client: S3Client, s3_server: EmbeddedS3,
    monkeypatch: pytest.MonkeyPatch,
) -> Installation:  # fmt: skip
    installation = make_installation(tmp_path, database_url, bucket, s3_client, s3_server)
    installation.adopt()
    installation.document["jobs"]["storage_orphans"] = {
        "by_hand": True,
        "report_to": {"folder": str(tmp_path / "lists")},
    }
    for name, value in installation.environment.items():
        monkeypatch.setenv(name, value)
    return installation


def test_every_field_of_a_record_is_explained(installation: Installation) -> None:
    installation.reserve("files/1")
    job = build_definitions(installation.loaded()).resolve_job_def("storage_orphans")
    with dagster_instance() as instance:
        assert job.execute_in_process(instance=instance).success
        job.execute_in_process(
            instance=instance, tags={"filejobs/mode": "live"}, raise_on_error=False
        )
    details: list[dict[str, Any]] = [row["detail"] for row in installation.progress()]
    assert len(details) == 2
    for detail in details:
        assert set(detail) <= EXPLAINED, set(detail) - EXPLAINED


def test_every_class_every_breaker_every_column_and_every_reason_to_stop_is_explained() -> None:
    assert set(CLASSES) == names_in(totals.CLASSES)
    assert set(COLUMNS) == names_in(totals.LIST_COLUMNS)
    first_column = "".join(re.findall(r"^\| ([^|]+) \|", RUNBOOK, re.MULTILINE))
    assert set(BREAKERS) <= set(re.findall(r"`(\w+)`", first_column))
    fields = " ".join(totals.FIELDS.values())
    for word in (LIMIT, MAX_RUNTIME, removal.OLDER_TRANSACTIONS,
                 totals.CHANGED, totals.LOCKED, totals.FAILED, totals.WON_BY_OTHERS,
                 totals.UNANSWERED):  # fmt: skip
        assert f"`{word}`" in fields


@pytest.mark.parametrize("path", RUN_CONFIGS, ids=lambda path: path.name)
def test_every_example_of_a_run_config_is_one(path: Path, installation: Installation) -> None:
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    job = build_definitions(installation.loaded()).resolve_job_def("storage_orphans")
    assert dg.validate_run_config(job, config)
    asked = StorageOrphansConfig(**config["ops"]["storage_orphans"]["config"])
    assert asked.mistakes() == []
    assert len(asked.override.breakers) == 0 or asked.override.reason
