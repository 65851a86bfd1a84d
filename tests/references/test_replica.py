"""A replica is read once it has everything that the primary had, and not a moment earlier."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from filejobs_dagster.embedded.environment import ServerAccount
from filejobs_dagster.embedded.place import prepare
from filejobs_dagster.embedded.postgres import EmbeddedPostgres, _lock_place
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.postgres.migrate import migrate
from filejobs_dagster.references.bulk import BulkReferences
from filejobs_dagster.references.operator import ReferencesUnknown
from filejobs_dagster.streams import Scratch
from tests.references.test_bulk import AddressForTests, SourceForTests, keys_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.references.reference_set import ReferenceSet


def start_replica(primary: EmbeddedPostgres) -> EmbeddedPostgres:
    """A streaming replica of a running server."""
    account = ServerAccount.choose()
    place = prepare(None, account)
    backup = [
        str(Path(primary._software.postgres).with_name("pg_basebackup")),
        f"--dbname={primary.url()}",
        f"--pgdata={place.data}",
        "--write-recovery-conf",
        "--checkpoint=fast",
        "--no-sync",
    ]
    with place.log.open("ab") as log:
        assert primary._spawn(backup, log).wait() == 0, place.log.read_text()
    replica = EmbeddedPostgres(
        place=place,
        software=primary._software,
        account=account,
        lock=_lock_place(place),
        durable=False,
    )
    replica._launch()
    return replica


@pytest.fixture(scope="module")
def primary() -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres.start(durable=False) as server:
        migrate(server.url())
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute("CREATE TABLE account (avatar_key text)")
        yield server


@pytest.fixture(scope="module")
def replica(primary: EmbeddedPostgres) -> Iterator[EmbeddedPostgres]:
    with start_replica(primary) as server:
        yield server


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Scratch]:
    with Scratch(tmp_path) as scratch:
        yield scratch


def read(
    scratch: Scratch, project: str, read_from: str, wait: timedelta = timedelta(seconds=20)
) -> ReferenceSet:
    source = SourceForTests(
        "avatars", "select avatar_key from account", read_from=AddressForTests(read_from)
    )
    bulk = BulkReferences(Database(project), [source], scratch=scratch, replica_wait=wait)
    return bulk.read()


def add(primary: EmbeddedPostgres, key: str) -> None:
    with psycopg.connect(primary.url(), autocommit=True) as connection:
        connection.execute("INSERT INTO account VALUES (%s)", (key,))


def say(server: EmbeddedPostgres, statement: str) -> None:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(statement.encode())


def test_a_replica_shows_what_was_committed_a_moment_ago(
    primary: EmbeddedPostgres, replica: EmbeddedPostgres, scratch: Scratch
) -> None:
    for number in range(5):
        key = f"files/fresh-{number}"
        add(primary, key)
        references = read(scratch, primary.url(), replica.url())
        assert key.encode() in keys_of(references)
    state = references.replicas["avatars"]
    assert state.last_replayed_at is not None
    assert state.waited < timedelta(seconds=20)


def test_a_replica_that_lags_is_waited_for(
    primary: EmbeddedPostgres, replica: EmbeddedPostgres, scratch: Scratch
) -> None:
    say(replica, "SELECT pg_wal_replay_pause()")
    add(primary, "files/late")
    resume = threading.Timer(1, say, (replica, "SELECT pg_wal_replay_resume()"))
    resume.start()
    try:
        references = read(scratch, primary.url(), replica.url())
    finally:
        resume.join()
    assert b"files/late" in keys_of(references)
    assert references.replicas["avatars"].waited > timedelta(seconds=0.5)


def test_a_replica_that_does_not_catch_up_is_refused_and_control_reading_it_misses_a_row(
    primary: EmbeddedPostgres, replica: EmbeddedPostgres, scratch: Scratch
) -> None:
    say(replica, "SELECT pg_wal_replay_pause()")
    try:
        while not paused(replica):
            time.sleep(0.05)
        add(primary, "files/unseen")
        with psycopg.connect(replica.url(), autocommit=True) as connection:
            seen = connection.execute("SELECT avatar_key FROM account").fetchall()
        assert ("files/unseen",) not in seen, "what the careless version would conclude from"
        with pytest.raises(ReferencesUnknown, match=r"bytes of log behind .* 0 seconds"):
            read(scratch, primary.url(), replica.url(), timedelta(seconds=0.3))
    finally:
        say(replica, "SELECT pg_wal_replay_resume()")


def paused(replica: EmbeddedPostgres) -> bool:
    with psycopg.connect(replica.url(), autocommit=True) as connection:
        return connection.execute("SELECT pg_get_wal_replay_pause_state()").fetchone() == (
            "paused",
        )


def test_an_idle_primary_makes_no_replica_late(
    primary: EmbeddedPostgres, replica: EmbeddedPostgres, scratch: Scratch
) -> None:
    """Also right behind a switch of the log's segment, where the next record's place is ahead."""
    for _ in range(2):
        say(primary, "SELECT pg_switch_wal()")
        references = read(scratch, primary.url(), replica.url(), timedelta(seconds=5))
        assert references.per_source["avatars"].rows > 0


def test_the_primary_itself_may_be_named(primary: EmbeddedPostgres, scratch: Scratch) -> None:
    add(primary, "files/direct")
    references = read(scratch, primary.url(), primary.url())
    assert b"files/direct" in keys_of(references)
    assert references.replicas == {}


def test_another_cluster_is_no_replica(
    primary: EmbeddedPostgres, database_url: str, scratch: Scratch
) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE account AS SELECT 'files/a'::text AS avatar_key")
    with pytest.raises(ReferencesUnknown, match="another database cluster"):
        read(scratch, primary.url(), database_url)


def test_another_database_of_the_same_cluster_is_no_replica(
    primary: EmbeddedPostgres, scratch: Scratch
) -> None:
    copy = primary.create_database("an_old_copy")
    with psycopg.connect(copy, autocommit=True) as connection:
        connection.execute("CREATE TABLE account AS SELECT 'files/a'::text AS avatar_key")
    with pytest.raises(ReferencesUnknown, match="or to another database"):
        read(scratch, primary.url(), copy)


def test_the_project_s_own_tables_are_never_read_from_a_replica(
    replica: EmbeddedPostgres, scratch: Scratch
) -> None:
    with pytest.raises(ReferencesUnknown, match="leads to a replica"):
        read(scratch, replica.url(), replica.url())
