"""The operator's own tables, through Dagster: the job, and the sensor of its backlog."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.instances import dagster_instance
from tests.orchestration.conftest import Code, failure_of
from tests.own_tables import OwnTables, example, schema

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.s3 import EmbeddedS3

pytestmark = pytest.mark.thorough


@pytest.fixture
def documents(
    tmp_path: Path,
    database_url: str,
    empty_database_url: str,
    bucket: str,
    s3_client: S3Client,
    s3_server: EmbeddedS3,
) -> OwnTables:
    installation = OwnTables(
        tmp_path, database_url, bucket, s3_client, s3_server.endpoint_url, {}, empty_database_url
    )
    installation.use(example("public.documents"))
    installation.create(schema("CREATE TABLE documents"))
    installation.document_row("files/kept", status="complete")
    return installation


@pytest.fixture
def own_code(documents: OwnTables) -> Iterator[Code]:
    with dagster_instance() as instance:
        yield Code(documents, instance)


def test_a_live_run_of_the_job_collects_from_the_operators_table(
    documents: OwnTables, own_code: Code
) -> None:
    documents.document_row("files/1")

    result = own_code.run(dry_run=False)

    assert result.success
    assert documents.statuses()["files/1"] == "expired"
    assert documents.keys() == {"files/kept"}
    [progress] = documents.progress()
    assert (progress["acted"], progress["detail"]["oldest_left"]) == (1, None)


def test_a_run_says_why_the_operators_statement_was_refused(
    documents: OwnTables, own_code: Code
) -> None:
    documents.create("DROP TABLE audit_log")
    documents.document_row("files/1")

    said = failure_of(own_code.run(dry_run=False))

    assert "refuses audit of source 'documents'" in said
    assert documents.statuses()["files/1"] == "reserved"


def test_a_live_run_refuses_a_claim_that_repeats_nothing_and_a_dry_run_does_not(
    documents: OwnTables, own_code: Code
) -> None:
    documents.source(claim="delete from public.documents where id = any($1) returning storage_key")
    documents.document_row("files/1")

    said = failure_of(own_code.run(dry_run=False))

    assert "does not repeat `status = 'reserved'`" in said
    assert documents.statuses()["files/1"] == "reserved"
    assert documents.keys() == {"files/kept", "files/1"}
    assert own_code.run(dry_run=True).success


def test_the_backlog_sensor_counts_in_the_operators_table(
    documents: OwnTables, own_code: Code
) -> None:
    documents.job(backlog_over=3)
    for number in range(3):
        documents.document_row(f"files/{number}", body=None)
    assert "not more than 3" in own_code.sensor("upload_reservations_backlog").skip_message

    documents.document_row("files/3", body=None)

    assert own_code.sensor("upload_reservations_backlog").run_requests
