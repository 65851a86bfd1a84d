"""A key that is about to be deleted cannot be referred to, in whatever order things happen."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import IsolationLevel

from filejobs_dagster.postgres.fence import Fence
from tests.postgres.backends import is_waiting, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KEY = "files/caf\u00e9"

LEVELS = [
    IsolationLevel.READ_COMMITTED,
    IsolationLevel.REPEATABLE_READ,
    IsolationLevel.SERIALIZABLE,
]

CANDIDATE = """
INSERT INTO orphan_candidate
       (bucket, key, etag, size_bytes, last_modified, first_seen_run, last_seen_run, fingerprint)
VALUES (%s, %s, 'etag', 5, now() - interval '9 days', 'run 1', 'run 1', 'of the rules')
"""

INTENT = """
UPDATE orphan_candidate
   SET state = 'deleting', intent_at = clock_timestamp(), intent_run = 'run 2'
 WHERE (key, bucket) IN (SELECT key, bucket
                           FROM orphan_candidate
                          WHERE bucket = 'uploads' AND state = 'seen'
                          ORDER BY last_modified
                            FOR UPDATE SKIP LOCKED)
RETURNING key
"""

REFER = "INSERT INTO file (state, storage_key) VALUES ('ready', %s)"

REFUSED = (psycopg.errors.IntegrityConstraintViolation, psycopg.errors.SerializationFailure)


@pytest.fixture
def client(database_url: str) -> Iterator[psycopg.Connection]:
    """Somebody's application."""
    with psycopg.connect(database_url) as client:
        yield client


@pytest.fixture
def collector(database_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database_url) as collector:
        yield collector


@pytest.fixture(autouse=True)
def _candidate(connection: psycopg.Connection) -> None:
    connection.execute(CANDIDATE, ("uploads", KEY.encode()))


def intend(collector: psycopg.Connection) -> int:
    """How many candidates the intent has won; not committed."""
    return len(collector.execute(INTENT).fetchall())


def is_referred_to(connection: psycopg.Connection) -> bool:
    return connection.execute("SELECT FROM file WHERE storage_key = %s", (KEY,)).rowcount == 1


@contextmanager
def at_the_same_time(work: Callable[[], object]) -> Iterator[list[BaseException]]:
    """Do the work in a thread, and give what it raised once it is done."""
    raised: list[BaseException] = []

    def go() -> None:
        try:
            work()
        except psycopg.Error as error:
            raised.append(error)

    thread = threading.Thread(target=go)
    thread.start()
    yield raised
    thread.join(timeout=30)
    assert not thread.is_alive()


# Every order


@pytest.mark.parametrize("level", LEVELS)
def test_referred_and_committed_before_the_intent_is_seen_by_the_check_that_follows(
    client: psycopg.Connection, collector: psycopg.Connection, level: IsolationLevel
) -> None:
    client.isolation_level = level
    client.execute(REFER, (KEY,))
    client.commit()
    # The lock is gone, so the intent wins; the check in a fresh snapshot finds the reference.
    assert intend(collector) == 1
    collector.commit()
    assert is_referred_to(collector)


@pytest.mark.parametrize("level", LEVELS)
def test_referred_and_not_committed_the_intent_passes_it_by(
    client: psycopg.Connection, collector: psycopg.Connection, level: IsolationLevel
) -> None:
    client.isolation_level = level
    client.execute(REFER, (KEY,))
    assert intend(collector) == 0
    collector.commit()
    client.commit()
    assert is_referred_to(collector)


@pytest.mark.parametrize("level", LEVELS)
def test_intended_and_committed_whoever_begins_then_is_refused(
    client: psycopg.Connection, collector: psycopg.Connection, level: IsolationLevel
) -> None:
    assert intend(collector) == 1
    collector.commit()
    client.isolation_level = level
    with pytest.raises(psycopg.errors.IntegrityConstraintViolation, match="being deleted") as no:
        client.execute(REFER, (KEY,))
    assert no.value.diag.message_hint is not None
    assert "new key" in no.value.diag.message_hint
    assert no.value.diag.table_name == "file"
    client.rollback()
    assert not is_referred_to(collector)


@pytest.mark.parametrize("level", LEVELS)
def test_intended_and_not_committed_the_client_waits_and_is_refused(
    connection: psycopg.Connection,
    client: psycopg.Connection,
    collector: psycopg.Connection,
    level: IsolationLevel,
) -> None:
    client.isolation_level = level
    assert intend(collector) == 1
    with at_the_same_time(lambda: client.execute(REFER, (KEY,))) as raised:
        wait_until(lambda: is_waiting(connection, client.info.backend_pid), "the client waits")
        collector.commit()
    (error,) = raised
    assert isinstance(error, REFUSED)
    client.rollback()
    assert not is_referred_to(connection)


@pytest.mark.parametrize("level", LEVELS)
def test_an_intent_that_is_rolled_back_lets_the_waiting_client_through(
    connection: psycopg.Connection,
    client: psycopg.Connection,
    collector: psycopg.Connection,
    level: IsolationLevel,
) -> None:
    client.isolation_level = level
    assert intend(collector) == 1
    with at_the_same_time(lambda: client.execute(REFER, (KEY,))) as raised:
        wait_until(lambda: is_waiting(connection, client.info.backend_pid), "the client waits")
        collector.rollback()
    assert raised == []
    client.commit()
    assert is_referred_to(connection)


@pytest.mark.parametrize("level", LEVELS)
def test_a_client_with_a_snapshot_from_before_the_intent_is_refused_or_held_for(
    connection: psycopg.Connection,
    client: psycopg.Connection,
    collector: psycopg.Connection,
    level: IsolationLevel,
) -> None:
    client.isolation_level = level
    client.execute("SELECT FROM file")
    assert intend(collector) == 1
    collector.commit()
    with pytest.raises(REFUSED):
        client.execute(REFER, (KEY,))
    client.rollback()
    assert not is_referred_to(connection)


@pytest.mark.parametrize("level", LEVELS)
def test_a_client_with_a_snapshot_from_before_the_first_sighting_is_waited_for(
    connection: psycopg.Connection,
    client: psycopg.Connection,
    collector: psycopg.Connection,
    level: IsolationLevel,
) -> None:
    """It cannot see the candidate's row, so the trigger cannot refuse it: the fence waits."""
    connection.execute("DELETE FROM orphan_candidate")
    client.isolation_level = level
    client.execute("SELECT FROM file")
    connection.execute(CANDIDATE, ("uploads", KEY.encode()))
    assert intend(collector) == 1
    collector.commit()
    fence = Fence.now(connection)
    if level is IsolationLevel.READ_COMMITTED:
        with pytest.raises(psycopg.errors.IntegrityConstraintViolation):
            client.execute(REFER, (KEY,))
        return
    assert fence.waiting_for(connection) != ()
    client.execute(REFER, (KEY,))
    client.commit()
    assert fence.waiting_for(connection) == ()
    assert is_referred_to(connection)


# Controls


def test_without_the_trigger_the_reference_is_taken_and_its_object_is_lost_control(
    connection: psycopg.Connection, client: psycopg.Connection, collector: psycopg.Connection
) -> None:
    connection.execute("ALTER TABLE file DISABLE TRIGGER USER")
    connection.execute("ALTER TABLE file DISABLE TRIGGER file_refuses_key_in_deletion")
    assert intend(collector) == 1
    collector.commit()
    assert not is_referred_to(connection)
    client.execute(REFER, (KEY,))
    client.commit()
    # The check had been passed by then, and the object goes.
    assert is_referred_to(connection)


@pytest.mark.parametrize(
    "careless",
    [
        "SELECT bool_or(state = 'deleting') FROM orphan_candidate WHERE key = %s",
        "SELECT true FROM orphan_candidate WHERE key = %s AND state = 'deleting' FOR SHARE",
    ],
    ids=["no lock", "the state in the WHERE clause"],
)
def test_without_the_lock_an_intent_that_is_not_committed_yet_is_not_waited_for_control(
    client: psycopg.Connection, collector: psycopg.Connection, careless: str
) -> None:
    assert intend(collector) == 1
    row = client.execute(careless.encode(), (KEY.encode(),)).fetchone()
    assert row in (None, (False,))
    collector.commit()


# Whom it concerns


def test_a_change_of_the_key_is_a_reference_too_and_other_changes_are_not(
    connection: psycopg.Connection, collector: psycopg.Connection
) -> None:
    connection.execute(REFER, (KEY,))
    assert intend(collector) == 1
    collector.commit()
    connection.execute("UPDATE file SET state = 'deleted', storage_key = storage_key")
    connection.execute("UPDATE file SET storage_key = 'files/other'")
    with pytest.raises(psycopg.errors.IntegrityConstraintViolation):
        connection.execute("UPDATE file SET storage_key = %s", (KEY,))


def test_what_another_trigger_makes_of_the_key_counts(
    connection: psycopg.Connection, collector: psycopg.Connection
) -> None:
    connection.execute(
        f"""
        CREATE FUNCTION rename() RETURNS trigger LANGUAGE plpgsql AS
        $$BEGIN NEW.storage_key := '{KEY}'; RETURN NEW; END$$;
        CREATE TRIGGER zz_rename BEFORE INSERT ON file FOR EACH ROW EXECUTE FUNCTION rename()
        """.encode()
    )
    assert intend(collector) == 1
    collector.commit()
    with pytest.raises(psycopg.errors.IntegrityConstraintViolation):
        connection.execute(REFER, ("files/other",))


def test_one_key_of_many_refuses_the_whole_statement(
    connection: psycopg.Connection, collector: psycopg.Connection
) -> None:
    assert intend(collector) == 1
    collector.commit()
    with pytest.raises(psycopg.errors.IntegrityConstraintViolation):
        connection.execute(
            "INSERT INTO file (storage_key) SELECT 'files/' || n FROM generate_series(1, 9) AS n"
            " UNION ALL SELECT %s",
            (KEY,),
        )
    assert connection.execute("SELECT FROM file").rowcount == 0


def test_a_row_of_another_bucket_does_not_hide_the_one_that_is_being_deleted(
    connection: psycopg.Connection, collector: psycopg.Connection
) -> None:
    connection.execute(CANDIDATE, ("archive", KEY.encode()))
    assert intend(collector) == 1
    collector.commit()
    with pytest.raises(psycopg.errors.IntegrityConstraintViolation):
        connection.execute(REFER, (KEY,))


def test_rows_that_replication_brings_are_refused_too(
    connection: psycopg.Connection, collector: psycopg.Connection
) -> None:
    assert intend(collector) == 1
    collector.commit()
    connection.execute("SET session_replication_role = replica")
    with pytest.raises(psycopg.errors.IntegrityConstraintViolation):
        connection.execute(REFER, (KEY,))


def test_an_application_needs_no_right_on_the_candidates(
    connection: psycopg.Connection, collector: psycopg.Connection, database_url: str
) -> None:
    name = f"application_{connection.info.backend_pid}"
    connection.execute(f"CREATE ROLE {name} LOGIN; GRANT SELECT, INSERT ON file TO {name}".encode())
    try:
        assert intend(collector) == 1
        collector.commit()
        connection.execute(f"SET ROLE {name}".encode())
        connection.execute(REFER, ("files/other",))
        with pytest.raises(psycopg.errors.IntegrityConstraintViolation):
            connection.execute(REFER, (KEY,))
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT FROM orphan_candidate")
    finally:
        connection.execute("RESET ROLE")
        connection.execute(f"DROP OWNED BY {name}; DROP ROLE {name}".encode())


def test_another_table_asks_with_the_name_of_its_column(
    connection: psycopg.Connection, collector: psycopg.Connection
) -> None:
    connection.execute(
        """
        CREATE TABLE account (id integer, avatar_key text);
        CREATE TRIGGER account_refuses AFTER INSERT OR UPDATE OF avatar_key ON account
            FOR EACH ROW EXECUTE FUNCTION refuse_key_in_deletion('avatar_key')
        """
    )
    assert intend(collector) == 1
    collector.commit()
    connection.execute("INSERT INTO account VALUES (1, NULL), (2, 'files/other')")
    with pytest.raises(psycopg.errors.IntegrityConstraintViolation) as no:
        connection.execute("UPDATE account SET avatar_key = %s WHERE id = 1", (KEY,))
    assert no.value.diag.table_name == "account"


# The tables


@pytest.mark.parametrize(
    "change",
    [
        "state = 'gone'",
        "state = 'deleting'",
        "key = ''",
        "size_bytes = -1",
        "sightings = 0",
        "last_seen_at = first_seen_at - interval '1 second'",
    ],
)
def test_a_candidate_that_means_nothing_is_refused(
    connection: psycopg.Connection, change: str
) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        connection.execute(f"UPDATE orphan_candidate SET {change}".encode())


def test_any_legal_key_can_be_a_candidate(connection: psycopg.Connection) -> None:
    for key in (b"\x00", b"\xff" * 1024, b"files/\x01\n"):
        connection.execute(CANDIDATE, ("uploads", key))


def test_the_trigger_and_the_drain_are_one_probe_of_an_index_each(
    connection: psycopg.Connection,
) -> None:
    connection.execute("SET enable_seqscan = off")

    def plan(statement: str) -> str:
        rows = connection.execute(f"EXPLAIN {statement}".encode()).fetchall()
        return "\n".join(row[0] for row in rows)

    assert "orphan_candidate_pkey" in plan(
        "SELECT state FROM orphan_candidate WHERE key = '\\x01' FOR SHARE"
    )
    drain = plan(
        "SELECT key FROM orphan_candidate WHERE bucket = 'uploads' AND state = 'seen'"
        " ORDER BY last_modified, key LIMIT 10"
    )
    assert "orphan_candidate_drain" in drain
    assert "Sort" not in drain
