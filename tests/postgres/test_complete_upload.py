"""complete_upload: the row decides, not the clock; and never both the client and the collector."""

from __future__ import annotations

import threading
import uuid
from datetime import datetime, timedelta, timezone
from typing import Any

import psycopg
import pytest

from filejobs_dagster.jobs.upload_reservations.statements import BEGINNING, CLAIM
from tests.postgres.backends import is_waiting, wait_until

HOUR = timedelta(hours=1)


def now() -> datetime:
    return datetime.now(timezone.utc)


def reserve(
    connection: psycopg.Connection, expires: datetime | None, state: str = "pending"
) -> uuid.UUID:
    row = connection.execute(
        """
        INSERT INTO file (storage_key, state, upload_expires_at)
        VALUES ('files/' || gen_random_uuid(), %s, %s) RETURNING id
        """,
        (state, expires),
    ).fetchone()
    assert row is not None
    return uuid.UUID(str(row[0]))


def complete(connection: psycopg.Connection, file: uuid.UUID, *, refuse_late: bool = False) -> bool:
    row = connection.execute("SELECT complete_upload(%s, %s)", (file, refuse_late)).fetchone()
    assert row is not None
    return bool(row[0])


def state_of(connection: psycopg.Connection, file: uuid.UUID) -> str | None:
    row = connection.execute("SELECT state FROM file WHERE id = %s", (file,)).fetchone()
    return None if row is None else str(row[0])


def claim(connection: psycopg.Connection, file: uuid.UUID) -> int:
    values: dict[str, Any] = {"ids": [file], "from": BEGINNING, "before": now()}
    return connection.execute(CLAIM, values).rowcount


@pytest.mark.parametrize("expires", [now() + HOUR, now() - HOUR, None])
def test_a_pending_file_becomes_ready_also_after_its_deadline(
    connection: psycopg.Connection, expires: datetime | None
) -> None:
    file = reserve(connection, expires)
    assert complete(connection, file)
    assert state_of(connection, file) == "ready"
    row = connection.execute("SELECT completed_at IS NOT NULL FROM file").fetchone()
    assert row == (True,)


@pytest.mark.parametrize(
    ("expires", "completes"), [(now() - HOUR, False), (now() + HOUR, True), (None, True)]
)
def test_refuse_late_lets_the_deadline_decide(
    connection: psycopg.Connection, expires: datetime | None, completes: bool
) -> None:
    file = reserve(connection, expires)
    assert complete(connection, file, refuse_late=True) is completes
    assert state_of(connection, file) == ("ready" if completes else "pending")


@pytest.mark.parametrize("refuse_late", [False, True])
def test_a_client_may_repeat_the_call(connection: psycopg.Connection, refuse_late: bool) -> None:
    file = reserve(connection, now() - HOUR)
    assert complete(connection, file)
    first = connection.execute("SELECT completed_at FROM file").fetchone()
    assert complete(connection, file, refuse_late=refuse_late)
    assert connection.execute("SELECT completed_at FROM file").fetchone() == first


def test_what_is_gone_or_was_never_there_is_not_completed(connection: psycopg.Connection) -> None:
    deleted = reserve(connection, now() + HOUR, "deleted")
    assert not complete(connection, deleted)
    assert state_of(connection, deleted) == "deleted"
    assert not complete(connection, uuid.uuid4())


def test_the_size_is_kept_unless_it_is_given(connection: psycopg.Connection) -> None:
    file = reserve(connection, None)
    connection.execute("UPDATE file SET size_bytes = 5")
    complete(connection, file)
    assert connection.execute("SELECT size_bytes FROM file").fetchone() == (5,)
    other = reserve(connection, None)
    connection.execute("SELECT complete_upload(%s, uploaded_size => 7)", (other,))
    row = connection.execute("SELECT size_bytes FROM file WHERE id = %s", (other,)).fetchone()
    assert row == (7,)


def test_the_client_is_first_and_the_claim_leaves_the_row_alone(
    connection: psycopg.Connection, database_url: str
) -> None:
    file = reserve(connection, now() - HOUR)
    with psycopg.connect(database_url) as client:
        assert complete(client, file)
        assert claim(connection, file) == 0
        client.commit()
    assert claim(connection, file) == 0
    assert state_of(connection, file) == "ready"


@pytest.mark.parametrize("claim_commits", [True, False])
def test_the_claim_is_first_and_the_client_is_told_the_truth(
    connection: psycopg.Connection, database_url: str, claim_commits: bool
) -> None:
    file = reserve(connection, now() - HOUR)
    told: list[bool] = []
    with (
        psycopg.connect(database_url) as collector,
        psycopg.connect(database_url, autocommit=True) as client,
    ):
        assert claim(collector, file) == 1
        thread = threading.Thread(target=lambda: told.append(complete(client, file)))
        thread.start()
        pid = client.info.backend_pid
        wait_until(lambda: is_waiting(connection, pid), "the client waits")
        if claim_commits:
            collector.commit()
        else:
            collector.rollback()
        thread.join()
    assert told == [not claim_commits]
    assert state_of(connection, file) == (None if claim_commits else "ready")


def test_a_deadline_that_moved_after_the_select_saves_the_row(
    connection: psycopg.Connection,
) -> None:
    file = reserve(connection, now() - HOUR)
    connection.execute("UPDATE file SET upload_expires_at = %s", (now() + HOUR,))
    assert claim(connection, file) == 0
    assert state_of(connection, file) == "pending"


def test_two_claims_at_once_win_each_row_once(
    connection: psycopg.Connection, database_url: str
) -> None:
    file = reserve(connection, now() - HOUR)
    with psycopg.connect(database_url) as first, psycopg.connect(database_url) as second:
        won = [claim(first, file), claim(second, file)]
        first.commit()
        second.commit()
    assert won == [1, 0]


def test_control_a_delete_by_id_alone_loses_the_completed_upload(
    connection: psycopg.Connection, database_url: str
) -> None:
    file = reserve(connection, now() - HOUR)
    deleted: list[int] = []
    with (
        psycopg.connect(database_url) as client,
        psycopg.connect(database_url, autocommit=True) as collector,
    ):
        candidates = collector.execute(
            "SELECT id FROM file WHERE state = 'pending' AND upload_expires_at < now()"
        ).fetchall()
        assert complete(client, file)
        statement = "DELETE FROM file WHERE id = ANY(%s)"
        ids = [row[0] for row in candidates]
        thread = threading.Thread(
            target=lambda: deleted.append(collector.execute(statement, (ids,)).rowcount)
        )
        thread.start()
        pid = collector.info.backend_pid
        wait_until(lambda: is_waiting(connection, pid), "the careless delete waits")
        client.commit()
        thread.join()
    assert deleted == [1]
    assert state_of(connection, file) is None
