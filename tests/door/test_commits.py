"""The guard of commits: what it says of a server, and whom it protects."""

from __future__ import annotations

import logging
import uuid
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from filejobs_dagster.door.guard import Look, Refusal
from filejobs_dagster.door.guards import GUARDS, Commits
from filejobs_dagster.postgres import connect
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.registry import JOBS
from tests.postgres.backends import set_for_database

if TYPE_CHECKING:
    import psycopg

    from filejobs_dagster.collector import Collector


SET = "set_config('synchronous_commit'"


def look(database_url: str) -> str:
    """What the guard says to a connection that begins now."""
    database = Database(database_url)
    no_job: Any = SimpleNamespace(jobs={})
    with database.connect("test") as connection:
        at = Look(
            settings=no_job,
            touches=frozenset({"rows"}),
            database=database,
            connection=connection,
            buckets=(),
            log=logging.getLogger("door"),
        )
        return Commits().look(at)


@pytest.mark.parametrize(
    "job", [job for job in JOBS if not job.read_only], ids=lambda job: job.name
)
def test_it_protects_every_job_that_changes_anything(job: Collector[Any, Any]) -> None:
    [guard] = [guard for guard in GUARDS if isinstance(guard, Commits)]
    assert guard.protects & job.touches


def test_it_says_what_holds_and_what_the_session_would_have_had(
    database_url: str, connection: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    set_for_database(connection, "synchronous_commit", "remote_write")

    said = look(database_url)

    assert "synchronous_commit is on in our transactions" in said
    assert "whatever the session's own remote_write" in said
    assert "synchronous standbys: none" in said
    # The server of the tests is fast because it does not wait for its disk.
    assert "fsync off" in said
    assert "no commit outlives a loss of power" in said
    assert "docs/failover.md" in caplog.text


def test_a_stronger_setting_is_kept_and_nothing_is_said_of_another(
    database_url: str, connection: psycopg.Connection
) -> None:
    set_for_database(connection, "synchronous_commit", "remote_apply")

    said = look(database_url)

    assert "synchronous_commit is remote_apply in our transactions;" in said
    assert "asynchronously" not in said


def test_it_names_whose_own_commits_are_asynchronous(
    database_url: str, connection: psycopg.Connection
) -> None:
    role = f"app_{uuid.uuid4().hex}"
    connection.execute(f"CREATE ROLE {role}")
    try:
        connection.execute(
            f"ALTER ROLE {role} IN DATABASE {connection.info.dbname} SET synchronous_commit = off"
        )
        assert f"role {role} commits asynchronously here" in look(database_url)
        set_for_database(connection, "synchronous_commit", "local")
        assert f"every role, role {role} commits asynchronously here" in look(database_url)
    finally:
        connection.execute(f"DROP OWNED BY {role}")
        connection.execute(f"DROP ROLE {role}")


def test_a_server_that_commits_asynchronously_all_the_same_is_refused(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaf = connect._BEGINNING.replace(SET, "set_config('application_name'")
    assert deaf != connect._BEGINNING
    monkeypatch.setattr(connect, "_BEGINNING", deaf)

    with pytest.raises(Refusal, match=r"synchronous_commit is off\. After a crash"):
        look(database_url)
