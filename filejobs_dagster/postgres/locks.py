"""Locks that prove a run alive, and that let only one live run of a job exist.

A run holds its locks in one transaction on a connection of its own, which never writes, so it
holds back no vacuum. Transaction-level locks also work behind PgBouncer in transaction mode. The
server frees them the moment the process or the connection dies: nothing has to be cleaned up.
"""

from __future__ import annotations

import hashlib
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import psycopg

from filejobs_dagster.postgres.connect import one

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg.rows import TupleRow

    from filejobs_dagster.postgres.connect import Connection, Database

_TRANSACTION_TIMEOUT_SINCE = 170000
"""`transaction_timeout` exists from PostgreSQL 17 on, and ends a transaction despite keep-alive."""

_GHOST_TRIES = 10
_GHOST_PAUSE = 0.05
"""Seconds. A backend that ends tells its client so shortly before it frees its locks."""

# How pg_locks shows a lock of one 64-bit number: its halves, and objsubid 1.
_HOLDING_SESSION = """
SELECT pid
  FROM pg_locks
 WHERE locktype = 'advisory'
   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND classid::bigint = %(high)s
   AND objid::bigint = %(low)s
   AND objsubid = 1
   AND granted
"""


_NOTICE_A_DEAD_CLIENT = {
    "tcp_keepalives_idle": 30,
    "tcp_keepalives_interval": 10,
    "tcp_keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
"""Seconds and, for the last, milliseconds; without effect on a Unix socket."""


class LockTaken(Exception):
    """Somebody else holds the lock."""

    def __init__(self, name: str, said: str | None = None) -> None:
        super().__init__(said or f"The lock {name!r} is held by another session.")
        self.name = name


class LeaseLost(Exception):
    """The locks of this run are gone and could not be taken again: it must not go on."""


def run_lock(schema: str, run_id: str) -> str:
    """Name of the lock that one run holds for as long as its process lives."""
    return f"{schema}/run/{run_id}"


def exclusive_lock(schema: str, job: str) -> str:
    """Name of the lock that the one live run of a job holds, whatever its window."""
    return f"{schema}/live/{job}"


def lock_number(name: str) -> int:
    """Map a lock's name to the signed 64-bit number that PostgreSQL locks."""
    digest = hashlib.sha256(f"filejobs/{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def try_lock(cursor: psycopg.Cursor[TupleRow], name: str) -> bool:
    """Take the lock until the transaction ends; False when another session holds it."""
    cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", (lock_number(name),))
    return bool(one(cursor)[0])


def is_held(cursor: psycopg.Cursor[TupleRow], name: str) -> bool:
    """Tell whether any session holds the lock, without touching it.

    Taking it to find out would, for that moment, stand in the way of a run that takes its lock
    again after the connection broke.
    """
    return holding_session(cursor, name) is not None


def holding_session(cursor: psycopg.Cursor[TupleRow], name: str) -> int | None:
    """Return the process id of the server's session that holds the lock, or None."""
    number = lock_number(name) & 0xFFFF_FFFF_FFFF_FFFF
    cursor.execute(_HOLDING_SESSION, {"high": number >> 32, "low": number & 0xFFFF_FFFF})
    row = cursor.fetchone()
    return None if row is None else int(row[0])


class Lease:
    """The locks of one run, held in one idle transaction.

    Methods may be called from the run's thread and from its heartbeat's.

    Attributes:
        were_free: True once the locks were gone for a moment, in which another run may have taken
            them, worked and ended.
    """

    def __init__(self, database: Database, purpose: str) -> None:
        self._database = database
        self._purpose = purpose
        self._names: list[str] = []
        self._connection: Connection | None = None
        self._released = False
        self.were_free = False
        self._guard = threading.RLock()

    def take(self, name: str) -> None:
        """Take one more lock, without waiting.

        Raises:
            LockTaken: Another session holds it; the locks taken before are kept.
            LeaseLost: The locks taken before are gone.
            DatabaseUnavailable: No connection could be made for the first lock.
            psycopg.Error: The connection broke.
        """
        with self._guard:
            self._try(self._held(), name)
            self._names.append(name)

    @contextmanager
    def for_a_while(self, name: str) -> Iterator[None]:
        """Hold one more lock until the block ends, on the same connection as the others.

        Not within another block of that kind.

        Raises:
            LockTaken: Another session holds it; the locks taken before are kept.
            LeaseLost: The locks taken before are gone.
            psycopg.Error: The connection broke.
        """
        with self._guard:
            connection = self._held()
            # What is taken behind a savepoint is given back with it.
            connection.execute("SAVEPOINT for_a_while")
            try:
                self._try(connection, name)
            except LockTaken:
                self._give_back(connection)
                raise
            self._names.append(name)
        try:
            yield
        finally:
            with self._guard:
                self._names.remove(name)
                self._give_back(connection)

    def _give_back(self, connection: Connection) -> None:
        try:
            if self._connection is connection:
                connection.execute("ROLLBACK TO SAVEPOINT for_a_while")
                connection.execute("RELEASE SAVEPOINT for_a_while")
                return
        except psycopg.Error:
            pass
        # It broke meanwhile, and the savepoint went with it.
        self._drop()
        with suppress(LeaseLost):
            self._held()

    def prove(self) -> None:
        """Make sure that every lock is still held; take them again if the connection broke.

        Raises:
            LeaseLost: They could not be taken again, another run has taken one, or the lease was
                released.
        """
        with self._guard:
            self._held()

    def release(self) -> None:
        """Free the locks for good; a broken connection has freed them already.

        They are free when this returns: a server that only sees its client go away frees them a
        moment later, and the next run would meet a lock that nobody holds.
        """
        with self._guard:
            self._released = True
            if self._connection is not None:
                with suppress(psycopg.Error):
                    self._connection.rollback()
            self._drop()

    def _held(self) -> Connection:
        """The connection on which every lock taken so far is held."""
        if self._released:
            # A heartbeat that comes late must not bring the locks back.
            raise LeaseLost("The locks of this run were released: it is over.")
        connection = self._connection
        if connection is None or not self._answers(connection):
            self._drop()
            self.were_free = self.were_free or bool(self._names)
            connection = self._take_again() if self._names else self._open()
            self._connection = connection
        return connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _answers(self, connection: Connection) -> bool:
        try:
            connection.execute("SELECT 1")
        except psycopg.Error:
            return False
        return connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS

    def _take_again(self) -> Connection:
        try:
            connection = self._open()
            try:
                for name in self._names:
                    self._try_past_a_ghost(connection, name)
            except Exception:
                # Half of the locks would make a run that must stop look alive.
                connection.close()
                raise
        except Exception as error:
            raise LeaseLost(
                "The connection that held this run's locks broke, and they could not be taken "
                f"again ({error}). The run stops; a later run goes on with what is left."
            ) from error
        return connection

    def _open(self) -> Connection:
        connection = self._database.connect(self._purpose)
        try:
            # Any isolation above READ COMMITTED, and any write, would hold back vacuum.
            connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY")
            connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
            if connection.info.server_version >= _TRANSACTION_TIMEOUT_SINCE:
                connection.execute("SET LOCAL transaction_timeout = 0")
            # The server's own: without them it keeps the locks of a machine that lost its power
            # for as long as its operating system waits, two hours by default.
            for setting, value in _NOTICE_A_DEAD_CLIENT.items():
                connection.execute(f"SET LOCAL {setting} = {value:d}")
        except psycopg.Error:
            connection.close()
            raise
        return connection

    def _try_past_a_ghost(self, connection: Connection, name: str) -> None:
        for _ in range(_GHOST_TRIES - 1):
            try:
                self._try(connection, name)
            except LockTaken:
                time.sleep(_GHOST_PAUSE)
            else:
                return
        self._try(connection, name)

    def _try(self, connection: Connection, name: str) -> None:
        with connection.cursor() as cursor:
            if not try_lock(cursor, name):
                raise LockTaken(name)
