"""Commits that last: bytes that are gone do not come back, so what lets them go must not either.

Every transaction of the project asks for a durable commit by itself (`Database.transaction`). This
guard proves that the server heeds it, and says what else decides whether a commit lasts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.door.databases import claimed_in
from filejobs_dagster.door.guard import Guard, Refusal
from filejobs_dagster.postgres.rows import one

if TYPE_CHECKING:
    from filejobs_dagster.collector import Touch
    from filejobs_dagster.door.guard import Look
    from filejobs_dagster.postgres.connect import Connection, Database

DURABLE = ("on", "remote_apply")
"""Values of `synchronous_commit` with which no commit is reported before it is safe."""

PAGE = "See docs/failover.md."

# reset_val is what role, database and server give a session; setting is what holds in this
# transaction. A server that only speaks PostgreSQL's protocol may lack any of the names.
_SETTINGS = """
SELECT current_setting('synchronous_commit', true),
       (SELECT reset_val FROM pg_settings WHERE name = 'synchronous_commit'),
       coalesce(current_setting('fsync', true), 'unknown'),
       coalesce(current_setting('full_page_writes', true), 'unknown'),
       coalesce(current_setting('synchronous_standby_names', true), '')
"""

# What ALTER ROLE and ALTER DATABASE have set for whoever connects here.
_ASYNCHRONOUS = """
SELECT DISTINCT coalesce('role ' || rolname, 'every role')
  FROM pg_db_role_setting
  LEFT JOIN pg_roles ON pg_roles.oid = setrole
 CROSS JOIN unnest(setconfig) AS entry
 WHERE setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
   AND entry ~* '^synchronous_commit=(off|local|remote_write|false|no|0)$'
 ORDER BY 1
"""


class Commits(Guard):
    """A commit is on the disk before anything is concluded from it."""

    name = "commits"
    protects: frozenset[Touch] = frozenset({"rows", "objects", "multipart uploads", "chain"})

    def look(self, at: Look) -> str:
        """Ask each server from which rows go what it makes of a transaction of ours."""
        said = [_asked(at, at.database, at.connection, "The server")]
        entries = [bucket.entry for bucket in at.buckets if bucket.deletes]
        for name, other in claimed_in(at.settings, entries, at.database).items():
            with other.connect("look at its commits") as connection:
                said.append(f"{name}: {_asked(at, other, connection, f'The server of {name}')}")
        return "; ".join(said)


def _asked(at: Look, database: Database, connection: Connection, whose: str) -> str:
    """What one server says.

    Raises:
        Refusal: Its commits do not last.
    """
    with database.transaction(connection, read_only=True) as cursor:
        cursor.execute(_SETTINGS)
        effective, usual, fsync, full_pages, standbys = one(cursor)
        cursor.execute(_ASYNCHRONOUS)
        asynchronous = [row[0] for row in cursor.fetchall()]
    if effective not in DURABLE:
        raise Refusal(
            f"{whose} commits asynchronously although it was asked not to: in a transaction of "
            f"ours synchronous_commit is {effective or 'unknown'}. After a crash rows would be "
            "back whose bytes are gone.",
            f"Nothing was touched. {PAGE}",
        )
    said = [f"synchronous_commit is {effective} in our transactions"]
    if usual != effective:
        said[0] += f", whatever the session's own {usual}"
    said.append(f"fsync {fsync}, full_page_writes {full_pages}")
    said.append(f"synchronous standbys: {standbys or 'none'}")
    if asynchronous:
        said.append(
            f"{', '.join(asynchronous)} commits asynchronously here: an upload that such an "
            "application completes right before a crash is a reservation again"
        )
    if fsync == "off":
        said.append("with fsync off no commit outlives a loss of power")
        at.log.warning(
            "%s runs with fsync off: after a loss of power rows may be back whose bytes are gone, "
            "whatever waits for a commit. %s",
            whose,
            PAGE,
        )
    return "; ".join(said)
