"""One snapshot for all that is read, and whether a table was exchanged behind it.

TRUNCATE, a rewrite by ALTER TABLE, a rename and a partition that is attached or detached do not
keep to snapshots: who waits for such a one to end reads what is there since, with a snapshot from
before, and finds it empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from filejobs_dagster.references.unknown import ReferencesUnknown

if TYPE_CHECKING:
    import psycopg

# The tables below answer from the snapshot; the functions say what holds now. What the transaction
# has read it has locked, so that nothing of it changes any more. A part that is pruned is not.
_EXCHANGED = b"""
WITH held AS (
    SELECT relation AS oid
      FROM pg_catalog.pg_locks
     WHERE pid = pg_backend_pid() AND locktype = 'relation' AND granted
       AND database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database())
), read AS (
    SELECT oid FROM held
     UNION
    SELECT inhrelid FROM pg_catalog.pg_inherits JOIN held ON held.oid = inhparent
)
SELECT coalesce(now.identity, read.oid::text)
  FROM read
 CROSS JOIN pg_identify_object('pg_catalog.pg_class'::regclass, read.oid, 0) AS now
  LEFT JOIN pg_catalog.pg_class AS it ON it.oid = read.oid
  LEFT JOIN pg_catalog.pg_namespace ON pg_namespace.oid = relnamespace
 WHERE it.oid IS NULL
    OR (relkind IN ('r', 'm', 'p', 'f', 'v') AND relpersistence <> 't'
        AND (now.identity IS DISTINCT FROM format('%I.%I', nspname, relname)
             OR (relfilenode <> 0 AND pg_relation_filenode(it.oid) IS DISTINCT FROM relfilenode)
             OR (relkind = 'r' AND relispartition <> (pg_partition_root(it.oid) IS NOT NULL))))
 ORDER BY 1
"""

_WITH_TRANSACTION_TIMEOUT = 170_000


def keep_open(cursor: psycopg.Cursor[Any]) -> None:
    """Let the transaction last: what was read is worked through between two statements."""
    cursor.execute(b"SET LOCAL idle_in_transaction_session_timeout = 0")
    if cursor.connection.info.server_version >= _WITH_TRANSACTION_TIMEOUT:
        cursor.execute(b"SET LOCAL transaction_timeout = 0")


def require_nothing_exchanged(cursor: psycopg.Cursor[Any], whom: str) -> None:
    """Refuse what was read of a table that was exchanged after the snapshot.

    Args:
        cursor: In the REPEATABLE READ transaction that has read, after all that it reads.
        whom: Who was asked, for the message.

    Raises:
        ReferencesUnknown: There is one.
        psycopg.Error: The catalog could not be read.
    """
    exchanged = [name for (name,) in cursor.execute(_EXCHANGED).fetchall()]
    if exchanged:
        raise ReferencesUnknown(
            f"While {whom} was read, {', '.join(exchanged)} was truncated, rewritten, renamed or "
            "given other partitions, and what stands there since cannot be seen from the snapshot "
            "of before. Nothing is concluded; the next run reads it again."
        )
