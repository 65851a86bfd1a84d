"""A claim that may take what completed meanwhile: refused when live, unless somebody vouches."""

from __future__ import annotations

import logging
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from filejobs_dagster.jobs.upload_reservations.collection import Collection
from filejobs_dagster.jobs.upload_reservations.operator_table import OperatorTable
from filejobs_dagster.objects.client import make_client
from tests.jobs.conftest import Collector
from tests.own_tables import OwnTables, example, schema

if TYPE_CHECKING:
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.s3 import EmbeddedS3

pytestmark = pytest.mark.thorough

CARELESS = "delete from public.documents where id = any($1) returning storage_key"
HALF = CARELESS.replace("any($1)", "any($1) and expires_at < $2")
# Safe, and written in another way than the candidate query.
OTHERWISE = HALF.replace("returning", "and status in ('reserved') returning")
ONE = "select id, storage_key, expires_at from public.documents where status = 'reserved'"
UNION = f"{ONE} union all {ONE} and false"
VIEW = "select id, storage_key, expires_at from public.due_documents"
FUNCTION = "select id, storage_key, expires_at from public.due_of(1)"
IN_DATABASE = (
    f"CREATE VIEW due_documents AS {ONE};"
    "CREATE FUNCTION due_of(integer) RETURNS SETOF documents LANGUAGE sql STABLE"
    " AS $$SELECT * FROM documents WHERE status = 'reserved'$$"
)


@pytest.fixture
def documents(
    tmp_path: Path, database_url: str, bucket: str, s3_client: S3Client, s3_server: EmbeddedS3
) -> OwnTables:
    installation = OwnTables(tmp_path, database_url, bucket, s3_client, s3_server.endpoint_url)
    installation.use(example("public.documents"))
    installation.in_the_projects_database()
    installation.create(schema("CREATE TABLE documents"))
    installation.create(IN_DATABASE)
    installation.document_row("files/kept", status="complete")
    installation.document_row("files/1")
    return installation


@pytest.fixture
def collect(documents: OwnTables) -> Collector:
    return Collector(documents, make_client(documents.settings().buckets["uploads"]))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"claim": CARELESS},
            [
                "not repeat `status = 'reserved'`, and not `expires_at < $2`.",
                "Add `AND status = 'reserved' AND expires_at < $2` to the claim's own WHERE",
            ],
        ),
        ({"claim": HALF}, ["not repeat `status = 'reserved'`."]),
        ({"claim": OTHERWISE}, ["not repeat `status = 'reserved'`."]),
        ({"candidates": UNION}, ["cannot be compared with the claim: it is a UNION"]),
        ({"candidates": VIEW}, ["it does not read documents itself"]),
        ({"candidates": FUNCTION}, ["it does not read documents itself"]),
    ],
    ids=["nothing", "half", "otherwise", "a union", "a view", "a function"],
)
def test_a_live_run_refuses_before_anything_is_touched_and_says_what_to_write(
    documents: OwnTables,
    collect: Collector,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, str],
    said: list[str],
) -> None:
    documents.source(**changes)
    before = documents.statuses(), documents.keys()
    asked: list[str] = []
    monkeypatch.setattr(OperatorTable, "read", lambda *_: asked.append("read"))
    monkeypatch.setattr(OperatorTable, "claiming", lambda *_: asked.append("claiming"))

    outcome = collect()

    assert not outcome.ok
    for words in [*said, "nothing was claimed", "`claim_checked_by_hand: true`", "'documents'"]:
        assert words in str(outcome.error)
    assert asked == []
    assert (documents.statuses(), documents.keys()) == before
    assert documents.events() == []


@pytest.mark.parametrize("changes", [{"claim": CARELESS}, {"candidates": UNION}])
def test_a_dry_run_goes_ahead_and_reports_it_in_log_and_record(
    documents: OwnTables,
    collect: Collector,
    changes: dict[str, str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    documents.source(**changes)

    with caplog.at_level(logging.WARNING, logger="collector"):
        outcome = collect(mode="dry")

    assert outcome.ok, outcome.error
    assert outcome.detail["would_collect"] == 1
    doubted = outcome.detail["claim_doubted"]
    assert "claim" in doubted
    assert "waives" not in doubted
    [warned] = [each.getMessage() for each in caplog.records if "live run" in each.getMessage()]
    assert doubted in warned
    [progress] = documents.progress()
    assert progress["detail"]["claim_doubted"] == doubted


@pytest.mark.parametrize(
    "changes", [{"claim": OTHERWISE}, {"candidates": UNION}, {"candidates": VIEW}]
)
def test_with_the_key_a_live_run_goes_ahead_and_its_record_says_so(
    documents: OwnTables,
    collect: Collector,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, str],
) -> None:
    """These claims are safe: what completes in between is kept."""
    documents.source(**changes, claim_checked_by_hand=True)
    documents.document_row("files/slow client")
    read = Collection._read

    def read_then_complete(self: Collection, *arguments: Any) -> Any:
        page = read(self, *arguments)
        documents.app(
            "UPDATE documents SET status = 'complete' WHERE storage_key = 'files/slow client'"
        )
        return page

    monkeypatch.setattr(Collection, "_read", read_then_complete)

    outcome = collect()

    assert outcome.ok, outcome.error
    assert outcome.detail["classes"] == {"deleted": 1, "won by others": 1}
    assert "claim_checked_by_hand waives it" in outcome.detail["claim_doubted"]
    assert documents.statuses()["files/slow client"] == "complete"
    assert documents.keys() == {"files/kept", "files/slow client"}


@pytest.mark.parametrize("waived", [False, True])
def test_a_claim_that_repeats_everything_is_not_doubted(
    documents: OwnTables, collect: Collector, waived: object
) -> None:
    documents.source(claim_checked_by_hand=waived)
    outcome = collect()
    assert (outcome.ok, outcome.acted) == (True, 1)
    assert "claim_doubted" not in outcome.detail


def test_the_parser_is_loaded_for_an_operators_statements_only() -> None:
    look = (
        "import sys, filejobs_dagster.jobs.upload_reservations as job;"
        " assert job.run; sys.exit('sqlglot' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", look], check=False).returncode == 0
