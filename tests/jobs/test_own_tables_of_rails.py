"""Unattached blobs of Active Storage, by three statements (tests/active_storage.yaml)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from filejobs_dagster.book.bookkeeping import Bookkeeping
from filejobs_dagster.jobs.upload_reservations.collection import Collection
from filejobs_dagster.jobs.upload_reservations.operator_table import OperatorTable
from filejobs_dagster.jobs.upload_reservations.settings import UploadReservationsSettings
from filejobs_dagster.objects.client import make_client
from tests.jobs.conftest import Collector
from tests.own_tables import OwnTables, example, reservation_source, schema
from tests.postgres.backends import is_waiting, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.s3 import EmbeddedS3
    from filejobs_dagster.ledger.outcome import Outcome

pytestmark = pytest.mark.thorough

ATTACH = (
    "INSERT INTO active_storage_attachments (name, record_type, record_id, blob_id, created_at)"
    " SELECT 'file', 'Letter', 1, id, now() FROM active_storage_blobs WHERE key = %s"
)
FOREIGN_KEY = "active_storage_attachments_blob_id_fkey"


class Rails(OwnTables):
    """An installation beside a Rails application."""

    def blob(self, key: str, *, attached: bool = False, days: int = 3) -> None:
        self.client.put_object(Bucket=self.bucket, Key=key, Body=b"12345")
        self.app(
            "INSERT INTO active_storage_blobs (key, filename, service_name, byte_size, created_at)"
            " VALUES (%s, 'a.png', 'amazon', 5, now() AT TIME ZONE 'UTC' - %s * interval '1 day')",
            (key, days),
        )
        if attached:
            self.app(ATTACH, (key,))

    def blobs(self) -> set[str]:
        return {key for (key,) in self.app("SELECT key FROM active_storage_blobs")}

    def waiting_claim(self) -> None:
        """Take the way of a claim that waits, so that a race has a place to stand."""
        claim = self.document["jobs"]["upload_reservations"]["source"]["claim"]
        self.source(claim=claim.replace(" skip locked", ""))

    def collect(self, **limits: Any) -> Outcome:
        settings = self.settings()
        job = settings.jobs["upload_reservations"]
        assert isinstance(job, UploadReservationsSettings)
        client = make_client(settings.buckets["uploads"])
        return Collector(self, client)(grace=job.grace, **limits)


@pytest.fixture
def rails(
    tmp_path: Path, database_url: str, bucket: str, s3_client: S3Client, s3_server: EmbeddedS3
) -> Rails:
    installation = Rails(
        tmp_path, database_url, bucket, s3_client, s3_server.endpoint_url, {}, database_url
    )
    installation.use(example("active_storage_blobs"))
    installation.create(schema("CREATE TABLE active_storage_blobs"))
    installation.blob("attached", attached=True)
    return installation


def test_unattached_blobs_go_with_their_bytes_when_they_are_old_enough(rails: Rails) -> None:
    rails.blob("abandoned")
    rails.blob("young", days=1)
    rails.blob("with variants")
    rails.app(
        "INSERT INTO active_storage_variant_records (blob_id, variation_digest)"
        " SELECT id, 'x' FROM active_storage_blobs WHERE key = 'with variants'"
    )

    outcome = rails.collect()

    assert outcome.ok, outcome.error
    assert (outcome.acted, outcome.detail["bytes_freed"]) == (1, 5)
    assert rails.blobs() == rails.keys() == {"attached", "young", "with variants"}


def test_the_index_of_the_page_serves_the_candidates_also_when_nothing_is_due(
    rails: Rails,
) -> None:
    rails.create(
        "INSERT INTO active_storage_blobs (key, filename, service_name, byte_size, created_at)"
        " SELECT 'k' || n, 'a.png', 'amazon', 5, now() AT TIME ZONE 'UTC' + n * interval '1 s'"
        "   FROM generate_series(1, 20000) AS n;"
        "ANALYZE active_storage_blobs"
    )
    source = reservation_source(rails.settings())
    assert source is not None
    with rails.database.connect("test") as connection:
        plans = dict(OperatorTable(source, rails.database, connection).plans())

    assert "active_storage_blobs_by_age" in str(plans["candidates"])
    assert "Seq Scan" not in str(plans["claim"])


def test_a_blob_that_is_attached_between_select_and_claim_is_kept(
    rails: Rails, monkeypatch: pytest.MonkeyPatch
) -> None:
    rails.blob("late")
    rails.blob("abandoned")
    read = Collection._read

    def read_then_attach(self: Collection, *arguments: Any) -> Any:
        page = read(self, *arguments)
        if page:
            rails.app(ATTACH, ("late",))
        return page

    monkeypatch.setattr(Collection, "_read", read_then_attach)

    outcome = rails.collect()

    assert outcome.detail["classes"] == {"deleted": 1, "won by others": 1}
    assert rails.blobs() == rails.keys() == {"attached", "late"}


def test_a_blob_whose_attachment_is_not_committed_yet_is_passed_by(rails: Rails) -> None:
    rails.blob("late")
    rails.blob("abandoned")
    with psycopg.connect(rails.app_url) as client:
        client.execute(ATTACH, ("late",))
        outcome = rails.collect()

    assert outcome.detail["classes"] == {"deleted": 1, "held by another session": 1}
    assert rails.blobs() == rails.keys() == {"attached", "late"}


def test_an_attachment_that_commits_while_the_claim_works_is_refused_by_the_foreign_key_alone(
    rails: Rails,
) -> None:
    """The claim looked before the attachment was there; the other rows of its batch still go."""
    rails.waiting_claim()
    for key in ("abandoned 1", "late", "abandoned 2", "abandoned 3"):
        rails.blob(key)

    outcome = attached_while_the_claim_works(rails, "late")

    assert outcome.ok, outcome.error
    assert outcome.detail["classes"] == {"deleted": 3, "won by others": 1}
    assert rails.blobs() == rails.keys() == {"attached", "late"}


def test_an_attachment_that_comes_after_the_claim_is_refused_and_its_client_told(
    rails: Rails, monkeypatch: pytest.MonkeyPatch
) -> None:
    rails.blob("abandoned")
    refused: list[psycopg.Error] = []

    def attach() -> None:
        try:
            rails.app(ATTACH, ("abandoned",))
        except psycopg.Error as error:
            refused.append(error)

    client = threading.Thread(target=attach)
    commit_claim = Bookkeeping.commit_claim

    def while_a_client_attaches(self: Any, *arguments: Any, **named: Any) -> None:
        client.start()
        with psycopg.connect(rails.app_url, autocommit=True) as watcher:
            wait_until(
                lambda: waiting(watcher, "INSERT INTO active_storage_attachments%"),
                "the client waits for the claim",
            )
        commit_claim(self, *arguments, **named)

    monkeypatch.setattr(Bookkeeping, "commit_claim", while_a_client_attaches)

    assert rails.collect().acted == 1

    client.join(timeout=30)
    assert [type(error) for error in refused] == [psycopg.errors.ForeignKeyViolation]
    assert rails.blobs() == rails.keys() == {"attached"}


def test_control_without_the_foreign_key_the_attached_blob_is_lost(rails: Rails) -> None:
    rails.waiting_claim()
    rails.create(f"ALTER TABLE active_storage_attachments DROP CONSTRAINT {FOREIGN_KEY}")
    rails.blob("late")
    rails.create("ALTER TABLE active_storage_blobs ADD COLUMN touched integer")

    outcome = attached_while_the_claim_works(
        rails, "late", "UPDATE active_storage_blobs SET touched = 1 WHERE key = 'late'"
    )

    assert outcome.detail["classes"] == {"deleted": 1}
    broken = rails.app(
        "SELECT a.name FROM active_storage_attachments AS a LEFT JOIN active_storage_blobs AS b"
        " ON b.id = a.blob_id WHERE b.id IS NULL"
    )
    assert broken == [("file",)], "an attachment without its blob"
    assert rails.blobs() == rails.keys() == {"attached"}


def test_a_foreign_key_that_the_predicates_do_not_name_refuses_its_row_and_no_other(
    rails: Rails,
) -> None:
    rails.create("CREATE TABLE cover (blob_id bigint REFERENCES active_storage_blobs (id))")
    for number in range(9):
        rails.blob(f"abandoned {number}")
    rails.app("INSERT INTO cover SELECT id FROM active_storage_blobs WHERE key = 'abandoned 4'")

    outcome = rails.collect()

    assert outcome.ok, outcome.error
    assert outcome.detail["classes"] == {"deleted": 8, "claim refused": 1}
    assert "cover" in outcome.detail["samples"]["claim refused"][0]
    assert rails.blobs() == rails.keys() == {"attached", "abandoned 4"}


def attached_while_the_claim_works(rails: Rails, key: str, also: str = "SELECT 1") -> Outcome:
    """Let the claim wait for the row of a client that attaches it, and then commits."""
    outcomes: list[Outcome] = []
    with (
        psycopg.connect(rails.app_url) as client,
        psycopg.connect(rails.app_url, autocommit=True) as watcher,
    ):
        client.execute(also.encode())
        client.execute(ATTACH, (key,))
        run = threading.Thread(target=lambda: outcomes.append(rails.collect()))
        run.start()

        wait_until(lambda: waiting(watcher, "WITH claim%"), "the claim waits for the client")
        client.commit()
        run.join(timeout=30)
    return outcomes[0]


def waiting(watcher: psycopg.Connection, query: str) -> bool:
    """Tell whether a statement that begins so waits for a lock."""
    found = watcher.execute(
        "SELECT pid FROM pg_stat_activity WHERE query LIKE %s"
        " AND datname = current_database() AND state = 'active'",
        (query,),
    ).fetchall()
    return any(is_waiting(watcher, pid) for (pid,) in found)
