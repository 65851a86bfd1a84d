"""Rows in another database than the audit log: what stands between the two commits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from filejobs_dagster.book.bookkeeping import Bookkeeping
from filejobs_dagster.jobs.collecting.removal import Removal
from filejobs_dagster.jobs.upload_reservations.collection import Collection
from filejobs_dagster.jobs.upload_reservations.operator_table import OperatorTable
from filejobs_dagster.ledger.progress import GivenUp
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.postgres.migrate import migrate
from tests.jobs.conftest import Collector
from tests.own_tables import OwnTables, example, schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.postgres import EmbeddedPostgres
    from filejobs_dagster.embedded.s3 import EmbeddedS3

pytestmark = pytest.mark.thorough

KILLED = str(Path(__file__).with_name("killed_between_commits.py"))


@pytest.fixture
def documents(
    tmp_path: Path,
    database_url: str,
    empty_database_url: str,
    bucket: str,
    s3_client: S3Client,
    s3_server: EmbeddedS3,
) -> OwnTables:
    return prepared(
        OwnTables(
            tmp_path,
            database_url,
            bucket,
            s3_client,
            s3_server.endpoint_url,
            {},
            empty_database_url,
        )
    )


def prepared(installation: OwnTables) -> OwnTables:
    installation.use(example("public.documents"))
    installation.create(schema("CREATE TABLE documents"))
    installation.document_row("files/kept", status="complete")
    for number in range(4):
        installation.document_row(f"files/{number}")
    return installation


def collector(installation: OwnTables) -> Collector:
    return Collector(installation, make_client(installation.settings().buckets["uploads"]))


def rows_without_bytes(installation: OwnTables) -> set[str]:
    needed = {key for key, status in installation.statuses().items() if status != "expired"}
    return needed - installation.keys()


def reserved(installation: OwnTables) -> int:
    return list(installation.statuses().values()).count("reserved")


def test_the_intent_is_committed_before_the_claim_and_the_rest_after_it(
    documents: OwnTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[list[str], int]] = []
    write, remove = Bookkeeping.commit_collected, Removal.remove

    def look() -> None:
        seen.append(([event["kind"] for event in documents.events()], reserved(documents)))

    def on_commit(self: Any, *arguments: Any) -> None:
        look()
        write(self, *arguments)

    def on_bytes(self: Any, *arguments: Any) -> None:
        look()
        remove(self, *arguments)

    with before_the_claims_commit(monkeypatch, look):
        monkeypatch.setattr(Bookkeeping, "commit_collected", on_commit)
        monkeypatch.setattr(Removal, "remove", on_bytes)
        assert collector(documents)().ok

    intent, collected = ["objects.delete.intent"], ["upload_reservation.collected"] * 4
    assert seen == [(intent, 4), (intent, 0), (intent + collected, 0)]
    assert [event["kind"] for event in documents.events()] == [
        *intent, *collected, "objects.delete.result",
    ]  # fmt: skip


def test_the_rows_database_down_between_the_two_commits_leaves_an_intent_and_every_row(
    documents: OwnTables,
    separate_postgres_server: EmbeddedPostgres,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installation = prepared(
        replace(
            documents, document={}, app_url=separate_postgres_server.create_database("application")
        )
    )
    with before_the_claims_commit(monkeypatch, separate_postgres_server.restart):
        outcome = collector(installation)(batch_size=2)

    assert not outcome.ok
    assert "did not confirm a claim" in str(outcome.error)
    assert (outcome.acted, reserved(installation), len(installation.keys())) == (0, 4, 5)
    (intent,) = installation.events("objects.delete.intent")
    (result,) = installation.events("objects.delete.result")
    assert result["left"] == intent["keys"]
    assert "did not confirm" in result["stopped"]
    assert installation.events("upload_reservation.collected") == []
    assert outcome.detail["objects_left"] == 2, "nobody knows, and the record says so"

    again = collector(installation)()

    assert (again.ok, again.acted, reserved(installation)) == (True, 4, 0)
    assert rows_without_bytes(installation) == set()


@pytest.mark.parametrize("moment", ["before the intent", "after the claim"])
def test_the_projects_database_down_beside_the_claim_loses_nothing(
    documents: OwnTables,
    separate_postgres_server: EmbeddedPostgres,
    monkeypatch: pytest.MonkeyPatch,
    moment: str,
) -> None:
    url = separate_postgres_server.create_database("project")
    migrate(url)
    installation = replace(documents, database_url=url)
    where = "commit_claim" if moment == "before the intent" else "commit_collected"
    go_on = getattr(Bookkeeping, where)

    def restarted(self: Any, *arguments: Any, **named: Any) -> None:
        monkeypatch.setattr(Bookkeeping, where, go_on)
        separate_postgres_server.restart()
        go_on(self, *arguments, **named)

    monkeypatch.setattr(Bookkeeping, where, restarted)
    outcome = collector(installation)(batch_size=2)

    assert not outcome.ok
    assert rows_without_bytes(installation) == set()
    claimed = 0 if moment == "before the intent" else 2
    assert (reserved(installation), len(installation.keys())) == (4 - claimed, 5)
    assert len(installation.events("objects.delete.intent")) == claimed // 2

    assert collector(installation)().ok
    assert reserved(installation) == 0
    orphans = installation.keys() - {"files/kept"}
    assert len(orphans) == claimed, "objects without a row, and never a row without its object"


@pytest.mark.parametrize(("point", "claimed"), [("between the commits", 0), ("after the claim", 2)])
def test_kill_9_beside_the_two_commits_loses_nothing_and_the_next_run_finishes(
    documents: OwnTables, point: str, claimed: int
) -> None:
    documents.write()
    killed = subprocess.run(
        [sys.executable, KILLED, point],
        env=os.environ | documents.environment,
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stdout + killed.stderr

    assert (reserved(documents), len(documents.keys())) == (4 - claimed, 5)
    assert len(documents.events("objects.delete.intent")) == 1
    assert documents.events("upload_reservation.collected") == []
    assert len(documents.app("SELECT 1 FROM audit_log")) == claimed
    [progress] = documents.progress()
    assert progress["detail"]["objects_left"] == 2, "what may be left, and not what is"

    again = collector(documents)(batch_size=2)

    assert (again.ok, reserved(documents)) == (True, 0)
    assert rows_without_bytes(documents) == set()
    assert len(documents.keys()) == 1 + claimed


def test_a_database_that_cannot_be_reached_fails_the_run_and_shows_no_password(
    documents: OwnTables,
) -> None:
    wrong = replace(documents, app_url="postgresql://app:hunter2@127.0.0.1:1/app")

    outcome = collector(wrong)()

    assert not outcome.ok
    assert "127.0.0.1:1/app" in str(outcome.error)
    assert "hunter2" not in str(outcome.error)
    assert reserved(documents) == 4


@pytest.mark.parametrize("moment", ["read", "claiming"])
def test_the_database_that_breaks_away_in_the_middle_is_named(
    documents: OwnTables, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    inner = getattr(OperatorTable, moment)

    def cut_off_then(self: OperatorTable, *arguments: Any) -> Any:
        pid = self._connection.info.backend_pid
        documents.app("SELECT pg_terminate_backend(%s, 5000)", (pid,))
        return inner(self, *arguments)

    monkeypatch.setattr(OperatorTable, moment, cut_off_then)
    outcome = collector(documents)()

    assert not outcome.ok
    assert "the database of source 'documents', broke" in str(outcome.error)
    assert (reserved(documents), len(documents.keys())) == (4, 5)


def test_a_standby_is_refused_before_anything_is_claimed(
    documents: OwnTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents.create(
        "CREATE SCHEMA fake; CREATE FUNCTION fake.pg_is_in_recovery() RETURNS boolean"
        " LANGUAGE sql AS 'SELECT true'"
    )
    name = psycopg.conninfo.conninfo_to_dict(documents.app_url)["dbname"]
    documents.create(f'ALTER DATABASE "{name}" SET search_path = fake, pg_catalog, public')

    outcome = collector(documents)()

    assert "is a standby" in str(outcome.error)
    assert reserved(documents) == 4


def test_a_run_that_was_given_up_for_dead_claims_nothing_in_the_other_database(
    documents: OwnTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = Collection._claim

    def given_up_then(self: Any, *arguments: Any) -> Any:
        documents.execute("UPDATE job_progress SET closed_at = now()")
        return claim(self, *arguments)

    monkeypatch.setattr(Collection, "_claim", given_up_then)
    with pytest.raises(GivenUp):
        collector(documents)()

    assert (reserved(documents), documents.events()) == (4, [])


@contextmanager
def before_the_claims_commit(
    monkeypatch: pytest.MonkeyPatch, happens: Callable[[], None]
) -> Iterator[None]:
    """Let something happen once, after the intent's commit and before the claim's."""
    claiming = OperatorTable.claiming
    done: list[bool] = []

    @contextmanager
    def then(self: Any, *arguments: Any) -> Any:
        transaction = self._database.transaction

        @contextmanager
        def with_a_pause(*given: Any, **named: Any) -> Any:
            with transaction(*given, **named) as cursor:
                yield cursor
                if not done:
                    done.append(True)
                    happens()

        with monkeypatch.context() as patch:
            patch.setattr(type(self._database), "transaction", _only(self._database, with_a_pause))
            with claiming(self, *arguments) as won:
                yield won

    def _only(database: Any, paused: Any) -> Any:
        ordinary = type(database).transaction

        def choose(this: Any, *given: Any, **named: Any) -> Any:
            if this is database:
                return paused(*given, **named)
            return ordinary(this, *given, **named)

        return choose

    with monkeypatch.context() as patch:
        patch.setattr(OperatorTable, "claiming", then)
        yield
