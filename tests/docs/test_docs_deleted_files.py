"""docs/deleted_files.md says everything that the job says, and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
import yaml

from filejobs_dagster.book.outcomes import WHY_STOPPED
from filejobs_dagster.book.totals import KEPT
from filejobs_dagster.jobs.collecting import detail as totals
from filejobs_dagster.jobs.deleted_files import collection
from filejobs_dagster.jobs.deleted_files.collection import MISSING
from filejobs_dagster.jobs.deleted_files.detail import FIELDS
from filejobs_dagster.objects import gate
from filejobs_dagster.orchestration.build import build_definitions
from filejobs_dagster.orchestration.config import config_of
from filejobs_dagster.registry import BY_NAME
from tests.docs.pages import EXAMPLES, blocks, explained, page
from tests.installation import Installation, make_installation
from tests.instances import dagster_instance

if TYPE_CHECKING:
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.s3 import EmbeddedS3

DeletedFilesConfig: Any = config_of(BY_NAME["deleted_files"], None)

JOB = "deleted_files"
PAGE = page("deleted_files.md").words
EXPLAINED = explained(JOB)
RUN_CONFIGS = sorted(EXAMPLES.glob("deleted_files_*.yaml"))


def the_block(language: str, containing: str) -> str:
    (found,) = [
        block.text
        for block in blocks(language)
        if block.page == "deleted_files.md" and containing in block.text
    ]
    return found


@pytest.fixture
def installation(
    tmp_path: Path, database_url: str, bucket: str, s3_client: S3Client, s3_server: EmbeddedS3,
    monkeypatch: pytest.MonkeyPatch,
) -> Installation:  # fmt: skip
    """One with the table and the settings of the page."""
    installation = make_installation(tmp_path, database_url, bucket, s3_client, s3_server)
    installation.adopt()
    document = yaml.safe_load(the_block("yaml", "derived:"))
    installation.document["jobs"][JOB] = document["jobs"][JOB]
    installation.document["buckets"]["uploads"]["sources"] = document["buckets"]["uploads"][
        "sources"
    ]
    for statement in the_block("sql", "CREATE TABLE thumbnail").split(";"):
        if statement.strip():
            installation.execute(statement)
    for name, value in installation.environment.items():
        monkeypatch.setenv(name, value)
    return installation


def test_the_example_of_the_page_works_and_every_field_of_its_records_is_explained(
    installation: Installation,
) -> None:
    for name in ("files/1", "files/thumbnails/1", "files/thumbnails/2"):
        installation.client.put_object(Bucket=installation.bucket, Key=name, Body=b"1")
    installation.execute(
        "INSERT INTO file (state, storage_key, deleted_at) SELECT 'deleted', key,"
        " now() - interval '31 days' FROM unnest('{files/1, files/2, elsewhere/3}'::text[]) AS key"
    )
    installation.execute(
        "INSERT INTO thumbnail SELECT id, replace(storage_key, '/', '/thumbnails/') FROM file"
    )
    job = build_definitions(installation.loaded()).resolve_job_def(JOB)
    with dagster_instance() as instance:
        for asked in ({}, {"filejobs/mode": "live"}):
            assert job.execute_in_process(instance=instance, tags=asked).success

    assert installation.keys() == set()
    details: list[dict[str, Any]] = [row["detail"] for row in installation.progress()]
    assert len(details) == 2
    for detail in details:
        assert set(detail) <= EXPLAINED, set(detail) - EXPLAINED
        assert set(detail["classes"]) <= EXPLAINED, set(detail["classes"]) - EXPLAINED


def test_every_class_and_every_reason_to_stop_is_explained() -> None:
    fates = {"deleted", "marked", "already gone", MISSING, totals.BYTES_LEFT, totals.WOULD_COLLECT}
    reasons = {
        value
        for name, value in vars(gate).items()
        if name.isupper() and not name.startswith("_") and isinstance(value, str)
    }
    both = fates | {f"{KEPT}{reason}" for reason in reasons}
    said = EXPLAINED
    assert both | {totals.WON_BY_OTHERS, totals.CLAIM_REFUSED} <= said
    assert {f"{totals.DERIVED}{fate}" for fate in both} <= said
    assert f"{totals.DERIVED}{KEPT}{collection.OUTLIVED}" in said
    for reason in ("limit", "max_runtime", *WHY_STOPPED.values()):
        assert f"`{reason}`" in FIELDS["stopped_reason"]


def test_the_numbers_of_the_page_are_those_of_the_code() -> None:
    assert f"Up to {collection.MOST_DERIVED:,} derived keys" in PAGE
    assert f"counted up to {collection.MOST_WITHOUT_DATE:,}" in FIELDS["without_deleted_at"]


def test_every_example_of_a_run_config_is_one(installation: Installation) -> None:
    job = build_definitions(installation.loaded()).resolve_job_def(JOB)
    assert len(RUN_CONFIGS) == 3
    for path in RUN_CONFIGS:
        text = path.read_text(encoding="utf-8")
        config = yaml.safe_load(text)
        assert dg.validate_run_config(job, config)
        asked = DeletedFilesConfig(**config["ops"][JOB]["config"])
        assert asked.mistakes() == []
        assert asked.dry_run is (path.name == "deleted_files_dry.yaml")
        assert f"-c examples/{path.name}" in text
