"""What the doctor says of deleted files and of the objects that were made from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.doctor.deleted_files import check_deleted_files
from filejobs_dagster.doctor.examination import examine
from filejobs_dagster.jobs.deleted_files.settings import DeletedFilesSettings
from tests.installation import Installation, make_installation

if TYPE_CHECKING:
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.doctor.finding import Finding
    from filejobs_dagster.embedded.s3 import EmbeddedS3

SQL = "select storage_key from thumbnail where file_id = any($1)"
TABLE = "CREATE TABLE thumbnail (file_id uuid{}, storage_key text)"
CASCADE = " REFERENCES file ON DELETE CASCADE"


@pytest.fixture
def installation(
    tmp_path: Path, database_url: str, bucket: str, s3_client: S3Client, s3_server: EmbeddedS3
) -> Installation:
    installation = make_installation(tmp_path, database_url, bucket, s3_client, s3_server)
    installation.document["jobs"]["deleted_files"] = {
        "by_hand": True,
        "restore_window": "30d",
        "derived": [{"name": "thumbnails", "sql": SQL}],
    }
    source("select storage_key from thumbnail", installation)
    return installation


def source(sql: str, installation: Installation) -> None:
    installation.document["buckets"]["uploads"]["sources"] = [
        {"name": "thumbnails", "sql": sql, "min_rows": 0}
    ]


def all_findings(installation: Installation) -> list[Finding]:
    settings = installation.settings()
    job = settings.jobs["deleted_files"]
    assert isinstance(job, DeletedFilesSettings)
    database = installation.database
    with database.connect("the test") as connection:
        sources = settings.buckets["uploads"].sources
        return list(check_deleted_files(job, sources, database, connection))


def findings(installation: Installation) -> dict[str, Finding]:
    return {finding.check: finding for finding in all_findings(installation)}


def test_a_table_with_its_foreign_key_and_its_index_is_healthy(installation: Installation) -> None:
    installation.execute(TABLE.format(CASCADE))
    installation.execute("CREATE INDEX ON thumbnail (file_id)")

    examined = {
        finding.check: finding.verdict
        for finding in examine(installation.loaded(), installation.environment)
        if finding.check.startswith(("deleted_files", "derived"))
    }

    assert examined == {
        "deleted_files dates": "ok",
        "derived thumbnails": "ok",
        "derived thumbnails references": "ok",
    }


def test_a_query_that_fails_is_named_with_what_to_do(installation: Installation) -> None:
    found = findings(installation)["derived thumbnails"]

    assert found.verdict == "failed"
    assert 'relation "thumbnail" does not exist' in found.found
    assert "GRANT SELECT" in found.advice


def test_a_table_without_index_gets_the_statement_that_makes_it(
    installation: Installation,
) -> None:
    installation.execute(TABLE.format(CASCADE))

    found = findings(installation)
    advice = found["derived thumbnails index"].advice

    assert advice == "CREATE INDEX CONCURRENTLY ON thumbnail (file_id)"
    assert "deleted_files foreign keys" not in found, "said once is enough"
    installation.execute(advice)
    assert "derived thumbnails index" not in findings(installation)


@pytest.mark.parametrize(
    "constraint", ["", " REFERENCES file", " REFERENCES file ON DELETE SET NULL"]
)
def test_a_table_whose_rows_do_not_go_with_their_file_is_called_so(
    installation: Installation, constraint: str
) -> None:
    installation.execute(TABLE.format(constraint))

    found = findings(installation)["derived thumbnails foreign key"]

    assert (found.verdict, "ON DELETE CASCADE" in found.advice) == ("warning", True)


def test_a_table_that_no_source_reads_is_called_so(installation: Installation) -> None:
    installation.execute(TABLE.format(CASCADE))
    source("select 'files/another'::text", installation)

    found = findings(installation)["derived thumbnails references"]

    assert (found.verdict, "public.thumbnail" in found.found) == ("failed", True)
    assert "refuses until then" in found.advice


def test_any_foreign_key_to_file_without_an_index_is_named(installation: Installation) -> None:
    installation.execute(TABLE.format(CASCADE))
    installation.execute("CREATE TABLE share (of_file uuid REFERENCES file)")

    found = findings(installation)["deleted_files foreign keys"]

    assert found.advice == "CREATE INDEX CONCURRENTLY ON share (of_file)"


def test_deleted_files_that_no_run_will_ever_take_are_counted(installation: Installation) -> None:
    installation.execute(TABLE.format(CASCADE))
    installation.execute("INSERT INTO file (state, storage_key) VALUES ('deleted', 'files/1')")
    installation.execute("ALTER TABLE file DROP CONSTRAINT file_deleted_at_is_a_date")
    installation.execute(
        "ALTER TABLE file ADD CONSTRAINT file_deleted_at_is_a_date CHECK (true) NOT VALID"
    )

    said = [each for each in all_findings(installation) if each.check == "deleted_files dates"]

    assert [finding.verdict for finding in said] == ["warning", "warning"]
    assert "1 deleted files have no deleted_at" in said[0].found
    assert "VALIDATE CONSTRAINT file_deleted_at_is_a_date" in said[1].advice
