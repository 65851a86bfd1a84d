"""Waits until nobody can still act on a view of the database from before a moment.

An intent to delete is committed first. Whoever looks after that sees it. Whoever looked before may
not have, and may yet commit a reference: a transaction that has written (it has an id), one that
holds an old snapshot and will write later (REPEATABLE READ; it has no id yet, and
`pg_snapshot_xmin` alone does not know of it), and a prepared one.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from psycopg.pq import TransactionStatus

from filejobs_dagster.postgres.connect import one

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from filejobs_dagster.postgres.connect import Connection

PAUSES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
"""Seconds between two looks; the last one repeats."""

# backend_xid and backend_xmin are shown to every role, of every session; backend_type, query and
# state only to members of the session's role. Should some server hide the first two as well, then
# pg_locks, which hides nothing, still tells that the session's transaction has an id.
#
# Only this database: what is in another one refers to nothing here. A session without a user is a
# process of the server itself, such as autovacuum; a walsender refers to nothing.
_OLDER = """
WITH fence AS (SELECT age(%(fence)s::xid8::xid) AS age),
     session AS (
         SELECT pid, application_name, backend_xid, backend_xmin
           FROM pg_stat_activity
          WHERE datid = (SELECT oid FROM pg_database WHERE datname = current_database())
            AND pid <> pg_backend_pid()
            AND usesysid IS NOT NULL
            AND coalesce(backend_type, 'client backend')
                NOT IN ('autovacuum worker', 'walsender', 'parallel worker'))
SELECT pid, application_name, 'has written, and has not ended'
  FROM session, fence WHERE age(backend_xid) >= fence.age
 UNION ALL
SELECT pid, application_name, 'holds a snapshot from before the intent'
  FROM session, fence
 WHERE age(backend_xmin) >= fence.age AND coalesce(age(backend_xid) < fence.age, true)
 UNION ALL
SELECT session.pid, application_name, 'has written; the server does not show since when'
  FROM session JOIN pg_locks USING (pid)
 WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock' AND granted
   AND backend_xid IS NULL
 UNION ALL
SELECT NULL, gid, 'is prepared (PREPARE TRANSACTION), neither committed nor rolled back'
  FROM pg_prepared_xacts, fence
 WHERE database = current_database() AND age(transaction) >= fence.age
"""


@dataclass(frozen=True)
class Blocker:
    """A transaction that began before the fence.

    Attributes:
        pid: Of its session; None for a prepared transaction, which has none.
        name: The session's application_name, or the prepared transaction's identifier.
        why: What it could still do.
    """

    pid: int | None
    name: str
    why: str

    def __str__(self) -> str:
        """One sentence for the log."""
        who = "a prepared transaction" if self.pid is None else f"session {self.pid}"
        return f"{who} ({self.name or 'no name'}) {self.why}"


@dataclass(frozen=True)
class Fence:
    """A moment in the order of transactions.

    Attributes:
        xid: A transaction id given out at that moment (64 bits).
    """

    xid: int

    @classmethod
    def now(cls, connection: Connection) -> Fence:
        """Set up a fence behind everything that is committed by now.

        Args:
            connection: On which the intent has been committed; outside a transaction. It uses up
                one transaction id.

        Raises:
            ValueError: The connection is inside a transaction, so the intent is not committed.
            psycopg.Error: The database would not say.
        """
        _require_idle(connection, "what a fence stands behind must be committed first")
        with connection.transaction(), connection.cursor() as cursor:
            # An id of its own, given out after the intent was committed: a snapshot from before
            # that has an xmin which is no higher.
            cursor.execute("SELECT pg_current_xact_id()::text::bigint")
            return cls(int(one(cursor)[0]))

    def waiting_for(self, connection: Connection) -> tuple[Blocker, ...]:
        """Who of this database could still act on what it saw before the fence.

        Args:
            connection: Outside a transaction.

        Raises:
            ValueError: The connection is inside a transaction, in which the server keeps what it
                once said of its sessions: whoever came since would be overlooked.
            psycopg.Error: The database would not say: nothing may be deleted then.
        """
        _require_idle(connection, "within a transaction the server keeps its first answer")
        with connection.transaction(), connection.cursor() as cursor:
            cursor.execute(_OLDER, {"fence": str(self.xid)})
            return tuple(Blocker(pid, name or "", why) for pid, name, why in cursor.fetchall())

    def wait(
        self,
        connection: Connection,
        timeout: timedelta,
        *,
        while_waiting: Callable[[], None] = lambda: None,
    ) -> bool:
        """Wait until everything older has ended.

        Args:
            connection: Outside a transaction.
            timeout: The longest that it waits; zero looks once.
            while_waiting: Called between two looks; an exception of it ends the waiting.

        Returns:
            False when something older is still there: defer, and delete nothing.

        Raises:
            ValueError: As `waiting_for`: delete nothing.
            psycopg.Error: The database would not say: delete nothing.
        """
        ends_at = time.monotonic() + timeout.total_seconds()
        looks = 0
        while self.waiting_for(connection):
            left = ends_at - time.monotonic()
            if left <= 0:
                return False
            while_waiting()
            time.sleep(min(PAUSES[min(looks, len(PAUSES) - 1)], left))
            looks += 1
        return True


def _require_idle(connection: Connection, why: str) -> None:
    status = connection.info.transaction_status
    if status is not TransactionStatus.IDLE:
        raise ValueError(f"The connection for a fence is {status.name}, not IDLE: {why}.")
