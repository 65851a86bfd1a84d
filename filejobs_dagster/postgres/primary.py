"""Which server answers, and on which timeline: a promotion begins a new one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from filejobs_dagster.postgres.rows import one

if TYPE_CHECKING:
    from datetime import datetime

    from psycopg.rows import TupleRow

_STATE = """
SELECT system_identifier::text, pg_postmaster_start_time(), pg_is_in_recovery()
  FROM pg_control_system()
"""

# The control file names the timeline of the last checkpoint, which is late after a promotion.
_TIMELINE = """
SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint
 WHERE NOT pg_is_in_recovery()
"""


@dataclass(frozen=True)
class ServerState:
    """One server as it answered.

    Attributes:
        system_identifier: Of its data directory, as text; the same on every standby.
        started_at: When it was started, with its time zone: no two servers share it.
        in_recovery: True of a standby.
        timeline: The one that it writes on; higher after each promotion. None of a standby, and of
            a server that does not say.
    """

    system_identifier: str
    started_at: datetime
    in_recovery: bool
    timeline: int | None

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
    identifier, started_at, in_recovery = one(cursor.execute(_STATE))
    timeline = None
    try:
        # A savepoint: what a managed service refuses must not end the caller's transaction.
        with cursor.connection.transaction():
            found = cursor.execute(_TIMELINE).fetchone()
            timeline = None if found is None else int(found[0])
    except psycopg.errors.FeatureNotSupported:
        pass
    return ServerState(identifier, started_at, in_recovery, timeline)
