"""A replica may answer the long read once it has everything that the primary had at its start."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from filejobs_dagster.postgres.connect import one
from filejobs_dagster.postgres.primary import server_state
from filejobs_dagster.references.operator import ReferencesUnknown

if TYPE_CHECKING:
    from collections.abc import Callable

    import psycopg

    from filejobs_dagster.postgres.primary import ServerState

WAIT = timedelta(minutes=5)
_LOOK_AGAIN = 0.5

_PAGE_HEADERS = {24, 40}
"""Where a log page's first record may begin: no record ends there."""


@dataclass(frozen=True)
class ReplicaState:
    """How far a replica was when it was read.

    Attributes:
        waited: How long the read waited for it.
        last_replayed_at: When the primary committed what the replica replayed last; None where it
            has not replayed a transaction since it started.
    """

    waited: timedelta
    last_replayed_at: datetime | None


def catch_up(
    primary: psycopg.Connection[Any],
    replica: psycopg.Connection[Any],
    whom: str,
    *,
    wait: timedelta = WAIT,
    while_waiting: Callable[[], None] = lambda: None,
) -> ReplicaState | None:
    """Wait until the replica has replayed all that the primary has written by now.

    Positions in the log are compared and not times: an idle primary commits nothing, and the age
    of what was replayed last then says nothing about a lag.

    Args:
        primary: Outside a transaction.
        replica: Outside a transaction.
        whom: Which sources are read there, for messages.
        wait: How long at most.
        while_waiting: Called between looks; it may raise to give up.

    Returns:
        How far it is; None when it is the primary itself.

    Raises:
        ReferencesUnknown: It is no replica of this primary, follows another one since a promotion,
            was promoted itself, or lags behind for too long.
        psycopg.Error: One of the two could not be asked.
    """
    with primary.cursor() as cursor:
        first = server_state(cursor)
    with replica.cursor() as cursor:
        second = server_state(cursor)
    # A replica has the database under the same number.
    if (first.system_identifier, first.database) != (second.system_identifier, second.database):
        raise ReferencesUnknown(
            f"read_from of {whom} leads to another database cluster, or to another database of "
            "it, not to a streaming replica of the one that the sources belong to, so how old its "
            "rows are cannot be known. Give such sources a `database` of their own, which is their "
            "primary, or drop read_from."
        )
    if second == first and not second.in_recovery:
        return None
    if not second.in_recovery:
        raise ReferencesUnknown(_promoted(whom, first, second))
    if first.in_recovery:
        raise ReferencesUnknown(
            f"The connection that {whom} should be compared with leads to a replica itself. "
            "Connect to the primary (`target_session_attrs=read-write`)."
        )
    wanted = _written(primary)
    started = time.monotonic()
    while not (place := _replayed(replica)).has(wanted, first.timeline):
        if not place.in_recovery:
            raise ReferencesUnknown(_promoted(whom, first, None))
        waited = timedelta(seconds=time.monotonic() - started)
        if waited >= wait:
            raise ReferencesUnknown(_not_there(whom, place, wanted, first.timeline, wait))
        while_waiting()
        time.sleep(min(_LOOK_AGAIN, max(wait.total_seconds() / 4, 0.01)))
    return ReplicaState(timedelta(seconds=time.monotonic() - started), place.last_replayed_at)


def _promoted(whom: str, primary: ServerState, replica: ServerState | None) -> str:
    which = "" if replica is None else f" ({replica}; the primary is on {primary})"
    return (
        f"The server that {whom} is read from follows no primary any more{which}: it was promoted. "
        "What is written on the primary since does not arrive there. Let read_from lead to a "
        "standby of the primary, or drop it."
    )


def _not_there(whom: str, place: _Place, wanted: int, timeline: int | None, wait: timedelta) -> str:
    if place.position < wanted:
        return (
            f"The replica that {whom} is read from is {wanted - place.position} bytes of log "
            f"behind the primary, and did not catch up in {wait.total_seconds():.0f} seconds; "
            f"the last transaction that it replayed is of {place.last_replayed_at}. Its rows would "
            "be older than the listing, and new references would be missed. Read from another "
            "replica, or drop read_from."
        )
    return (
        f"The replica that {whom} is read from follows timeline {place.timeline}, and the primary "
        f"is on timeline {timeline}: since a promotion it follows another server, or it has not "
        "made a restart point since (it does within its checkpoint_timeout; granted "
        "pg_read_all_stats, the role sees it at once). Let read_from lead to a standby of the "
        "primary, wait for that point, or drop it."
    )


def _written(primary: psycopg.Connection[Any]) -> int:
    """Up to where the primary has written records, committed asynchronously or not."""
    position, page = one(
        primary.execute(
            b"SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint,"
            b" current_setting('wal_block_size')::int"
        )
    )
    within = position % page
    # On a fresh page the next record's place is behind the page's header, where nothing is yet.
    return int(position - within if within in _PAGE_HEADERS else position)


@dataclass(frozen=True)
class _Place:
    """Where a replica is: in the log, and on which timeline as far as this role can see."""

    in_recovery: bool
    position: int
    last_replayed_at: datetime | None
    timeline: int

    def has(self, wanted: int, timeline: int | None) -> bool:
        """Whether it has all that the primary had; another timeline is another log."""
        return (
            self.in_recovery
            and self.position >= wanted
            and (timeline is None or self.timeline == timeline)
        )


def _replayed(replica: psycopg.Connection[Any]) -> _Place:
    # Without pg_read_all_stats the receiver's row is all NULL, and the control file must do.
    return _Place(
        *one(
            replica.execute(
                b"SELECT pg_is_in_recovery(),"
                b" coalesce(pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0'), 0)::bigint,"
                b" pg_last_xact_replay_timestamp(),"
                b" greatest((SELECT timeline_id FROM pg_control_checkpoint()),"
                b" (SELECT min_recovery_end_timeline FROM pg_control_recovery()),"
                b" (SELECT received_tli FROM pg_stat_wal_receiver))"
            )
        )
    )


# One snapshot for all that is read, and whether a table was exchanged behind it.
#
# TRUNCATE, a rewrite by ALTER TABLE, a rename and a partition that is attached or detached do not
# keep to snapshots: who waits for such a one to end reads what is there since, with a snapshot
# from before, and finds it empty.

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
