"""What the doctor says of the operator's own tables; it executes none of their statements."""

from __future__ import annotations

import os
import threading
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from filejobs_dagster.doctor.examination import examine
from filejobs_dagster.doctor.reservations import _clock
from tests.own_tables import OwnTables, example, schema

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.doctor.finding import Finding
    from filejobs_dagster.embedded.s3 import EmbeddedS3

pytestmark = pytest.mark.thorough

NAME = "reservations documents"


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
    installation.document_row("files/1")
    return installation


@pytest.fixture
def role(documents: OwnTables) -> Iterator[str]:
    """A role that owns nothing; the documents are reached as it."""
    name = f"reader_{os.getpid()}_{threading.get_native_id()}"
    owner = documents.app_url
    documents.app(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)).as_string())
    documents.app_url = make_conninfo(owner, user=name)
    yield name
    with psycopg.connect(owner, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(name)))
        connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


def findings(installation: OwnTables) -> dict[str, Finding]:
    environment = installation.environment
    return {
        finding.check: finding
        for finding in examine(installation.loaded(), environment)
        if finding.check.startswith(("reservations", "door sources", "settings"))
    }


def as_owner(installation: OwnTables, statement: str) -> None:
    with psycopg.connect(make_conninfo(installation.app_url, user="postgres")) as connection:
        connection.execute(statement.encode())


@pytest.mark.parametrize("where", ["one database", "two databases"])
def test_the_example_of_the_page_is_healthy_and_nothing_of_it_is_executed(
    documents: OwnTables, where: str, empty_database_url: str
) -> None:
    if where == "one database":
        documents.in_the_projects_database()
        documents.create(schema("CREATE TABLE documents"))
        documents.document_row("files/1")
    before = documents.app("SELECT * FROM documents")
    del documents.document["buckets"]["uploads"]["protect"]

    found = findings(documents)

    mine = {check: each.verdict for check, each in found.items() if check.startswith(NAME)}
    clock = {f"{NAME} clock"} if where == "two databases" else set()
    assert mine == dict.fromkeys(
        clock | {NAME, f"{NAME} claim", f"{NAME} locks", f"{NAME} references", f"{NAME} plans"},
        "ok",
    ), found
    assert found["door sources"].verdict == "ok"
    assert documents.app("SELECT * FROM documents") == before
    assert documents.app("SELECT id FROM audit_log") == []


def test_each_predicate_that_the_claim_does_not_repeat_is_named(documents: OwnTables) -> None:
    documents.source(claim="delete from public.documents where id = any($1) returning storage_key")

    found = findings(documents)

    claim = found[f"{NAME} claim"]
    assert claim.verdict == "failed"
    assert "`status = 'reserved'`" in claim.found
    assert "`expires_at < $2`" in claim.found
    assert "live runs refuse" in claim.found
    assert "`AND status = 'reserved' AND expires_at < $2`" in claim.advice
    assert "claim_checked_by_hand: true" in claim.advice
    assert found[f"{NAME} locks"].verdict == "warning"


def test_a_claim_after_which_the_row_is_still_a_candidate_fails(documents: OwnTables) -> None:
    documents.source(
        claim="update public.documents set size_bytes = 0 where id = any($1)"
        " and status = 'reserved' and expires_at < $2 returning storage_key"
    )
    assert "claim the same rows again" in findings(documents)[f"{NAME} claim"].found


def test_two_clocks_that_differ_by_more_than_a_minute_are_a_warning() -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
    assert _clock(NAME, noon, noon + timedelta(seconds=59)).verdict == "ok"
    assert _clock(NAME, noon, noon - timedelta(seconds=61)).verdict == "warning"


def test_a_claim_without_returning_fails_as_a_mistake_of_the_settings(documents: OwnTables) -> None:
    documents.source(claim="delete from public.documents where id = any($1)")
    finding = findings(documents)["settings"]
    assert finding.verdict == "failed"
    assert "RETURNING" in finding.found


def test_a_large_table_without_an_index_is_named_with_the_index_that_then_helps(
    documents: OwnTables,
) -> None:
    documents.create(
        "DROP INDEX documents_reserved; ALTER TABLE documents DROP CONSTRAINT documents_pkey;"
        "INSERT INTO documents (status, storage_key, expires_at)"
        " SELECT CASE WHEN n % 1000 = 0 THEN 'reserved' ELSE 'complete' END, 'files/x' || n,"
        "        now() - n * interval '1 s' FROM generate_series(1, 20000) AS n;"
        "ANALYZE documents"
    )

    found = findings(documents)

    candidates, claim = found[f"{NAME} candidates"], found[f"{NAME} claim"]
    assert "the whole table public.documents" in candidates.found
    assert candidates.advice.startswith(
        "CREATE INDEX CONCURRENTLY ON public.documents (expires_at, id) WHERE status = 'reserved'"
    )
    assert "the whole table public.documents" in claim.found
    assert claim.advice == "CREATE INDEX CONCURRENTLY ON public.documents (id)"

    for advice in (candidates.advice.partition(";")[0], claim.advice):
        documents.app(advice)
    documents.app("ANALYZE documents")
    assert findings(documents)[f"{NAME} plans"].verdict == "ok"


@pytest.mark.parametrize(
    ("grants", "lacking"),
    [
        ("", "candidates"),
        ("SELECT ON documents", "claim"),
        ("SELECT, UPDATE ON documents", "audit"),
    ],
)
def test_a_right_that_the_role_lacks_is_found_before_any_run(
    documents: OwnTables, role: str, grants: str, lacking: str
) -> None:
    if grants:
        as_owner(documents, f"GRANT {grants} TO {role}")

    finding = findings(documents)[NAME]

    assert finding.verdict == "failed"
    assert f"refuses {lacking}" in finding.found
    assert "permission denied" in finding.found


def test_a_role_that_only_reads_and_a_server_that_is_away_fail(
    documents: OwnTables, role: str
) -> None:
    as_owner(documents, f"GRANT SELECT, UPDATE ON documents TO {role}")
    as_owner(documents, f"GRANT INSERT ON audit_log TO {role}")
    as_owner(documents, f"GRANT USAGE ON SEQUENCE audit_log_id_seq TO {role}")
    assert findings(documents)[NAME].verdict == "ok"
    as_owner(documents, f"ALTER ROLE {role} SET default_transaction_read_only = on")
    assert "default_transaction_read_only" in findings(documents)[NAME].found

    host = conninfo_to_dict(documents.app_url)["host"]
    documents.app_url = "postgresql://app:hunter2@127.0.0.1:1/app"
    finding = findings(documents)[NAME]
    assert (finding.verdict, finding.advice) == (
        "failed", "see the variable FILEJOBS_APP_DATABASE_URL",
    )  # fmt: skip
    assert "hunter2" not in finding.found
    assert host


def test_a_table_that_no_source_reads_is_a_warning(documents: OwnTables) -> None:
    (source,) = documents.document["buckets"]["uploads"]["sources"]
    source["sql"] = "select 'files/1'"
    assert findings(documents)[f"{NAME} references"].verdict == "warning"


UNION = (
    "select id, storage_key, expires_at from public.documents where false union all"
    " select id, storage_key, expires_at from public.documents where status = 'reserved'"
)
CARELESS = "delete from public.documents where id = any($1) returning storage_key"


def test_a_union_cannot_be_compared_and_fails_because_live_runs_refuse_it(
    documents: OwnTables,
) -> None:
    documents.source(candidates=UNION)
    finding = findings(documents)[f"{NAME} claim"]
    assert finding.verdict == "failed"
    assert "UNION" in finding.found
    assert "live runs refuse" in finding.found


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"candidates": UNION}, "UNION or the like; claim_checked_by_hand waives it"),
        ({"claim": CARELESS}, "`expires_at < $2`; claim_checked_by_hand waives it"),
        ({}, "claim_checked_by_hand is set all the same"),
    ],
    ids=["a union", "a careless claim", "without need"],
)
def test_a_claim_for_which_somebody_vouches_is_a_warning(
    documents: OwnTables, changes: dict[str, str], said: str
) -> None:
    documents.source(**changes, claim_checked_by_hand=True)
    finding = findings(documents)[f"{NAME} claim"]
    assert finding.verdict == "warning"
    assert said in finding.found


def test_the_key_waives_no_claim_after_which_the_row_is_still_a_candidate(
    documents: OwnTables,
) -> None:
    documents.source(
        claim="update public.documents set size_bytes = 0 where id = any($1) returning storage_key",
        claim_checked_by_hand=True,
    )
    finding = findings(documents)[f"{NAME} claim"]
    assert finding.verdict == "failed"
    assert "claim the same rows again" in finding.found


DECLARED = {
    "name": "documents",
    "table": "public.documents",
    "key": "storage_key",
    "due": "expires_at",
    "after": "0s",
    "where": "status = 'reserved'",
}


def declare(documents: OwnTables, **changes: object) -> None:
    """The page's documents as a declared table, in place of statements and sources."""
    job = documents.document["jobs"]["upload_reservations"]
    database = {"url": {"env": "FILEJOBS_APP_DATABASE_URL"}}
    job.pop("source", None)
    job["tables"] = [{**DECLARED, "database": database, **changes}]
    documents.document["buckets"]["uploads"] |= {"sources": [], "protect": []}


def test_a_declared_table_is_fine_and_is_its_own_source(documents: OwnTables) -> None:
    declare(documents)

    found = findings(documents)

    assert [one for one in found.values() if one.verdict != "ok"] == []
    assert "public.documents.storage_key" in found["door sources"].found
    assert "one `where`" in found[f"{NAME} claim"].found


def test_what_a_declared_table_lacks_is_named_with_what_would_mend_it(
    documents: OwnTables,
) -> None:
    for changes, check, said in (
        ({"table": "public.nothing"}, NAME, "no table public.nothing"),
        ({"id": "status"}, NAME, "nothing makes status"),
        ({"due": "storage_key", "due_as": "text"}, f"{NAME} times", "none has in storage_key"),
        # What the bucket's keys begin with was forgotten.
        ({"transforms": [{"strip_base": ["files/"]}]}, "door sources", "none lies in"),
    ):
        declare(documents, **changes)
        finding = findings(documents)[check]
        assert finding.verdict != "ok"
        assert said in f"{finding.found} {finding.advice}", finding


def test_a_large_declared_table_without_an_index_is_told_which_one_to_make(
    documents: OwnTables,
) -> None:
    documents.app("DROP INDEX documents_reserved")
    documents.app(
        "INSERT INTO documents (status, storage_key, expires_at)"
        " SELECT 'complete', 'files/' || n, now() FROM generate_series(2, 20000) AS n;"
        " ANALYZE documents"
    )
    declare(documents)

    advice = str(findings(documents)[f"{NAME} candidates"].advice)

    (statement,) = [part for part in advice.split(";") if "CREATE INDEX" in part]
    documents.app(statement.replace("CONCURRENTLY ", ""))
    documents.app("ANALYZE documents")
    assert f"{NAME} candidates" not in findings(documents)
