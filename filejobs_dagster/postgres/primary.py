"""Which server answers, and on which timeline: a promotion begins a new one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import psycopg

from filejobs_dagster.postgres.connect import one

if TYPE_CHECKING:
    from datetime import datetime

    from psycopg.rows import TupleRow

_WHICH = """
SELECT system_identifier::text,
       (SELECT oid::bigint FROM pg_catalog.pg_database WHERE datname = current_database()),
       pg_postmaster_start_time(),
       pg_is_in_recovery()
"""

# The control file names the timeline of the last checkpoint, which is late after a promotion. What
# is flushed stays after a crash, so a log that ends before it has lost something.
_LOG = """
       , CASE WHEN NOT pg_is_in_recovery()
              THEN ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint END
       , CASE WHEN NOT pg_is_in_recovery()
              THEN pg_wal_lsn_diff(pg_current_wal_flush_lsn(), '0/0')::bigint END
"""

_FROM = "FROM pg_catalog.pg_control_system()"

ASKED_OF_SERVERS = (
    "pg_control_system()",
    "pg_is_in_recovery()",
    "pg_postmaster_start_time()",
    "pg_current_wal_lsn()",
    "pg_current_wal_flush_lsn()",
    "pg_walfile_name(pg_lsn)",
    "pg_wal_lsn_diff(pg_lsn, pg_lsn)",
)
"""The functions by which a server is known. Everybody may call them, unless somebody revoked it."""


@dataclass(frozen=True)
class ServerState:
    """One server as it answered.

    Attributes:
        system_identifier: Of its data directory, as text; the same on every standby.
        database: The number of the connected database there; the same on every standby, and
            another one when it was dropped and made again.
        started_at: When the server was started, with its time zone: no two servers share it.
        in_recovery: True of a standby.
        timeline: The one that it writes on; higher after each promotion. None of a standby, and of
            a server that does not say.
        position: Bytes of log that it had on its disk; None where the timeline is.
    """

    system_identifier: str
    database: int
    started_at: datetime
    in_recovery: bool
    timeline: int | None
    position: int | None = field(default=None, compare=False)

    @property
    def identity(self) -> str:
        """Of the database, the same on every standby."""
        return f"{self.system_identifier}/{self.database}"

    def __str__(self) -> str:
        """For people."""
        if self.in_recovery:
            return "a standby"
        return f"timeline {'unknown' if self.timeline is None else self.timeline}"


def server_state(cursor: psycopg.Cursor[TupleRow]) -> ServerState:
    """Ask which server it is.

    Args:
        cursor: In a transaction, or of a connection in autocommit mode.

    Raises:
        psycopg.Error: It would not say.
    """
    try:
        # A savepoint: what a managed service refuses must not end the caller's transaction.
        with cursor.connection.transaction():
            return ServerState(*one(cursor.execute(_WHICH + _LOG + _FROM)))
    except psycopg.errors.FeatureNotSupported:
        return ServerState(*one(cursor.execute(_WHICH + ", NULL, NULL " + _FROM)))


def in_the_log(position: int) -> str:
    """A position as PostgreSQL writes it."""
    return f"{position >> 32:X}/{position & 0xFFFFFFFF:X}"
