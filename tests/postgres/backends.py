"""Two real backends at once, and waiting for what one of them does."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

import psycopg
from psycopg import sql

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


def together(count: int, work: Callable[[int, threading.Barrier], T]) -> list[T]:
    """Run the work in threads; each waits at the barrier when it is ready."""
    barrier = threading.Barrier(count, timeout=30)
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda index: work(index, barrier), range(count)))


def wait_until(condition: Callable[[], bool], what: str, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds} s in vain until {what}")
        time.sleep(0.02)


def is_waiting(connection: psycopg.Connection, pid: int) -> bool:
    """Tell whether that backend waits for a lock."""
    row = connection.execute(
        "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %s", (pid,)
    ).fetchone()
    return bool(row and row[0])


def is_connected(connection: psycopg.Connection, pid: int) -> bool:
    row = connection.execute("SELECT FROM pg_stat_activity WHERE pid = %s", (pid,)).fetchone()
    return row is not None


def terminate(connection: psycopg.Connection, pid: int) -> None:
    """End a backend and wait until it is gone."""
    connection.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))


def set_for_database(connection: psycopg.Connection, name: str, value: str) -> None:
    """Give every later connection to this database another default."""
    connection.execute(
        sql.SQL("ALTER DATABASE {} SET {} = {}").format(
            sql.Identifier(connection.info.dbname), sql.Identifier(name), sql.Literal(value)
        )
    )
