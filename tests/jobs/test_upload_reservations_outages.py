"""upload_reservations when a server goes away while it works."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from filejobs_dagster.embedded.s3 import EmbeddedS3
from filejobs_dagster.jobs.collecting.removal import Removal
from filejobs_dagster.jobs.upload_reservations.collection import Collection
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.postgres.migrate import migrate
from filejobs_dagster.run_context import RunContext
from tests.installation import Installation
from tests.jobs.conftest import Collector

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.postgres import EmbeddedPostgres

pytestmark = pytest.mark.thorough


def before_batch(
    monkeypatch: pytest.MonkeyPatch, number: int, what_happens: Callable[[], None]
) -> None:
    claim = Collection._claim

    def claim_then(self: Any, *arguments: Any) -> Any:
        if self._books.batch == number:
            what_happens()
        return claim(self, *arguments)

    monkeypatch.setattr(Collection, "_claim", claim_then)


def after_commit_of_batch(
    monkeypatch: pytest.MonkeyPatch, number: int, what_happens: Callable[[], None]
) -> None:
    delete_bytes = Removal.remove

    def then_delete(self: Any, won: Any) -> None:
        if self._books.batch == number:
            what_happens()
        delete_bytes(self, won)

    monkeypatch.setattr(Removal, "remove", then_delete)


def rows_without_bytes(installation: Installation) -> set[str]:
    rows = {row[0] for row in installation.execute("SELECT storage_key FROM file")}
    return rows - installation.keys()


@pytest.mark.parametrize("moment", [before_batch, after_commit_of_batch])
def test_a_run_goes_on_after_postgresql_was_restarted_in_the_middle(
    separate_postgres_server: EmbeddedPostgres,
    tmp_path: Path,
    bucket: str,
    s3_client: S3Client,
    s3_server: EmbeddedS3,
    monkeypatch: pytest.MonkeyPatch,
    moment: Callable[..., None],
) -> None:
    url = separate_postgres_server.create_database("restarted")
    migrate(url)
    installation = Installation(tmp_path, url, bucket, s3_client, s3_server.endpoint_url)
    collect = Collector(installation, make_client(installation.settings().buckets["uploads"]))
    for number in range(30):
        installation.reserve(f"files/{number:02}")
    with monkeypatch.context() as patch:
        moment(patch, 2, separate_postgres_server.restart)
        outcome = collect(batch_size=10)

    assert outcome.ok, outcome.error
    assert outcome.acted == 30
    [progress] = installation.progress()
    assert (progress["outcome"], progress["acted"]) == ("ok", 30)
    assert installation.value("SELECT count(*) FROM file") == 0
    assert not installation.keys()


def test_storage_that_goes_down_in_the_middle_stops_the_claiming(
    installation: Installation, collect: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    with EmbeddedS3.start() as doomed:
        own = replace(
            installation, client=doomed.client(), endpoint_url=doomed.endpoint_url, document={}
        )
        own.client.create_bucket(Bucket=own.bucket)
        for number in range(30):
            own.reserve(f"files/{number:02}", body=b"x" if number < 20 else None)
        collector = Collector(own, make_client(own.settings().buckets["uploads"]))
        after_commit_of_batch(monkeypatch, 2, doomed.stop)

        outcome = collector(batch_size=10)

    assert not outcome.ok
    assert outcome.acted == 10
    [progress] = own.progress()
    assert progress["detail"]["objects_left"] == 10
    assert own.value("SELECT count(*) FROM file") == 10, "no further row was claimed"


def away_between_claim_and_bytes(
    installation: Installation,
    monkeypatch: pytest.MonkeyPatch,
    then: Callable[[], None],
    which: str = "true",
) -> None:
    """As in a restart of the database: every session is gone, those of the run's locks too."""
    delete_bytes = Removal.remove

    def restart(self: Any, keys: Any) -> None:
        with self._context.lease._guard:
            installation.execute(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                f" WHERE datname = current_database() AND pid <> pg_backend_pid() AND {which}"
            )
            # Before a heartbeat takes the locks again.
            then()
        delete_bytes(self, keys)

    monkeypatch.setattr(Removal, "remove", restart)


def test_a_database_that_was_away_between_claim_and_bytes_leaves_none_of_them(
    installation: Installation, collect: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        installation.reserve(f"files/{number}")
    away_between_claim_and_bytes(installation, monkeypatch, lambda: None)

    outcome = collect()

    assert outcome.ok, outcome.error
    assert outcome.acted == 3
    assert installation.keys() == set()


def test_control_on_the_broken_connection_the_bytes_are_left_without_their_rows(
    installation: Installation, collect: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation.reserve("files/a")
    away_between_claim_and_bytes(installation, monkeypatch, lambda: None)
    monkeypatch.setattr(RunContext, "connected", lambda self: self.connection)

    assert not collect().ok
    assert (installation.has_row("files/a"), installation.has_object("files/a")) == (False, True)


@pytest.mark.parametrize(
    "which", ["true", "application_name LIKE '% lock %'"], ids=["all sessions", "that of the locks"]
)
def test_where_another_run_has_begun_meanwhile_the_bytes_stay(
    installation: Installation, collect: Collector, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    installation.reserve("files/a")

    def another_run() -> None:
        monkeypatch.undo()
        installation.client.put_object(Bucket=installation.bucket, Key="files/a", Body=b"new")
        assert collect().ok

    away_between_claim_and_bytes(installation, monkeypatch, another_run, which)

    outcome = collect()

    assert "another live run of the job has begun since" in str(outcome.error)
    assert installation.has_object("files/a")
