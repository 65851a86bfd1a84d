"""Publish, cancel and mark_stored from two backends at once: exactly one of them wins."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import IsolationLevel

from filejobs_dagster.uploads import Uploads
from tests.postgres.backends import is_waiting, wait_until
from tests.uploads.rows import attachments, in_state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

ANSWERS_LATE = [IsolationLevel.READ_COMMITTED]
FAILS_LATE = [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE]


@pytest.fixture
def one(database_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database_url) as one:
        yield one


@pytest.fixture
def other(database_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database_url) as other:
        yield other


# Exactly one wins, in many orders


@pytest.mark.parametrize(
    "rounds", [80, pytest.param(1000, marks=pytest.mark.thorough)], ids=["some", "many"]
)
def test_exactly_one_of_publish_and_cancel_wins(
    connection: psycopg.Connection,
    one: psycopg.Connection,
    other: psycopg.Connection,
    rounds: int,
) -> None:
    rows = [in_state(connection, "stored") for _ in range(rounds)]
    barrier = threading.Barrier(2, timeout=20)

    def publish(upload: UUID) -> bool:
        return Uploads(one).publish(upload, "message 1") is not None

    def cancel(upload: UUID) -> bool:
        return Uploads(other).cancel(upload) == "cleanup"

    published, cancelled = _raced(rows, barrier, (one, publish), (other, cancel))

    assert [first is not second for first, second in zip(published, cancelled, strict=True)] == [
        True
    ] * rounds
    # Both happened, or the orders were not what the test is about.
    assert 0 < sum(published) < rounds
    states: dict[UUID, str] = dict(connection.execute("SELECT id, state FROM upload").fetchall())
    assert [states[row] for row in rows] == ["ready" if won else "cleanup" for won in published]
    assert set(attachments(connection)) == {
        row for row, won in zip(rows, published, strict=True) if won
    }


def _raced(
    rows: list[UUID],
    barrier: threading.Barrier,
    *sides: tuple[psycopg.Connection, Callable[[UUID], bool]],
) -> list[list[bool]]:
    """Both sides do their work on each row at the same time, and commit; what each was told."""

    def work(side: int) -> list[bool]:
        backend, step = sides[side]
        drawn = random.Random(side)  # noqa: S311 (no secret)
        told = []
        for row in rows:
            barrier.wait()
            # Now the one is first and now the other, by about the length of a statement.
            time.sleep(drawn.uniform(0, 0.001))
            told.append(step(row))
            time.sleep(drawn.uniform(0, 0.0005))
            backend.commit()
        return told

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(work, range(2)))


def test_control_who_looks_first_and_writes_then_lets_both_win(
    connection: psycopg.Connection, one: psycopg.Connection, other: psycopg.Connection
) -> None:
    rows = [in_state(connection, "stored") for _ in range(20)]
    # Nothing but the application's care: without the triggers of the tables.
    for table in ("upload", "attachment"):
        connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER".encode())
    looked = threading.Barrier(2, timeout=20)

    def is_stored(backend: psycopg.Connection, upload: UUID) -> bool:
        row = backend.execute("SELECT state FROM upload WHERE id = %s", (upload,)).fetchone()
        looked.wait()
        return row == ("stored",)

    def publish(upload: UUID) -> bool:
        if not is_stored(one, upload):
            return False
        one.execute(
            "UPDATE upload SET state = 'ready', collectable_at = NULL WHERE id = %s", (upload,)
        )
        one.execute(
            "INSERT INTO attachment (upload_id, storage_key, subject)"
            " SELECT id, storage_key, 'message 1' FROM upload WHERE id = %s",
            (upload,),
        )
        return True

    def cancel(upload: UUID) -> bool:
        if not is_stored(other, upload):
            return False
        other.execute(
            "UPDATE upload SET state = 'cleanup', collectable_at = coalesce(collectable_at, now()),"
            " next_attempt_at = now() WHERE id = %s",
            (upload,),
        )
        return True

    published, cancelled = _raced(
        rows, threading.Barrier(2, timeout=20), (one, publish), (other, cancel)
    )
    assert [*published, *cancelled] == [True] * 40
    visible_and_collected = connection.execute(
        "SELECT count(*) FROM attachment JOIN upload ON upload.id = attachment.upload_id"
        " WHERE upload.state = 'cleanup'"
    ).fetchone()
    assert visible_and_collected is not None
    assert visible_and_collected[0] > 0


# Each order, at each isolation level


def _held_up(
    connection: psycopg.Connection,
    first: psycopg.Connection,
    end: Callable[[], None],
    second: psycopg.Connection,
    late: Callable[[], Any],
) -> Any:
    """What `late` answers on `second`, which waits until `end` ends the transaction of `first`."""
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(late)
        wait_until(lambda: is_waiting(connection, second.info.backend_pid), "the later one waits")
        end()
        return waiting.result(timeout=30)


@pytest.mark.parametrize("commits", [True, False])
def test_whoever_comes_second_waits_and_is_told_how_the_first_one_ended(
    connection: psycopg.Connection,
    one: psycopg.Connection,
    other: psycopg.Connection,
    commits: bool,
) -> None:
    end = one.commit if commits else one.rollback
    row = in_state(connection, "stored")
    assert Uploads(one).publish(row, "message 1")
    told = _held_up(connection, one, end, other, lambda: Uploads(other).cancel(row))
    assert told == ("ready" if commits else "cleanup")
    other.rollback()

    row = in_state(connection, "stored")
    assert Uploads(one).cancel(row) == "cleanup"
    told = _held_up(connection, one, end, other, lambda: Uploads(other).publish(row, "message 1"))
    assert (told is None) is commits


@pytest.mark.parametrize("level", FAILS_LATE)
def test_at_a_higher_isolation_level_the_loser_fails_and_changes_nothing(
    connection: psycopg.Connection,
    one: psycopg.Connection,
    other: psycopg.Connection,
    level: IsolationLevel,
) -> None:
    one.isolation_level = other.isolation_level = level
    row = in_state(connection, "stored")
    other.execute("SELECT state FROM upload")
    assert Uploads(one).publish(row, "message 1")
    one.commit()
    with pytest.raises(psycopg.errors.SerializationFailure):
        Uploads(other).cancel(row)
    other.rollback()
    assert Uploads(other).cancel(row) == "ready"


@pytest.mark.parametrize("cancel_is_first", [True, False])
def test_a_cancel_that_meets_the_end_of_the_writer_is_never_lost(
    connection: psycopg.Connection,
    one: psycopg.Connection,
    other: psycopg.Connection,
    cancel_is_first: bool,
) -> None:
    row = in_state(connection, "writing")
    if cancel_is_first:
        assert Uploads(one).cancel(row) == "writing"
        told = _held_up(connection, one, one.commit, other, lambda: Uploads(other).mark_stored(row))
    else:
        assert Uploads(one).mark_stored(row) == "stored"
        told = _held_up(connection, one, one.commit, other, lambda: Uploads(other).cancel(row))
    other.commit()
    assert told == Uploads(connection).state(row) == "cleanup"


@pytest.mark.parametrize("level", [*ANSWERS_LATE, *FAILS_LATE])
def test_an_attachment_that_meets_its_own_removal_is_refused(
    connection: psycopg.Connection,
    one: psycopg.Connection,
    other: psycopg.Connection,
    level: IsolationLevel,
) -> None:
    """A plain client attaches again what another one is just taking away."""
    other.isolation_level = level
    row = in_state(connection, "ready")
    other.execute("SELECT state FROM upload")
    one.execute("DELETE FROM attachment")

    def attach_again() -> str:
        try:
            other.execute(
                "INSERT INTO attachment (upload_id, subject) VALUES (%s, 'mine again')", (row,)
            )
        except psycopg.errors.SerializationFailure:
            return "cannot be serialized"
        except psycopg.errors.IntegrityConstraintViolation as error:
            return str(error)
        return "attached"

    told = _held_up(connection, one, one.commit, other, attach_again)
    other.rollback()
    assert ("is cleanup with the key" in told) is (level in ANSWERS_LATE)
    assert ("cannot be serialized" in told) is (level in FAILS_LATE)
    assert attachments(connection) == []
