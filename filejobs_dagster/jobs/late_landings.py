"""Uploads whose bytes came after their row was collected, and after what there was had gone."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.run_context import RunContext

LATE_LANDING = "late landing"
"""What samples call an object whose row was collected before its bytes came."""

FORGOTTEN_AFTER = timedelta(days=30)
"""Links to upload are good for a week at most; what comes still later is an orphan like others."""

MOST_FORGOTTEN = 10_000
"""So many old keys go with each batch: more than a batch can add."""

_NOTE = """
INSERT INTO never_arrived (bucket, key, job)
SELECT %(bucket)s, key, %(job)s
  FROM unnest(%(keys)s::bytea[]) AS collected (key)
 ORDER BY key
    ON CONFLICT (key, bucket) DO UPDATE SET job = excluded.job, collected_at = clock_timestamp()
"""

_FORGET = """
DELETE FROM never_arrived
 WHERE (key, bucket) IN (SELECT key, bucket
                           FROM never_arrived
                          WHERE collected_at < clock_timestamp() - %(after)s
                          ORDER BY collected_at
                          LIMIT %(most)s
                            FOR UPDATE SKIP LOCKED)
"""

_LATE = """
SELECT key, job, collected_at
  FROM never_arrived
 WHERE bucket = %(bucket)s AND key = ANY(%(keys)s::bytea[])
"""


def note_never_arrived(
    cursor: psycopg.Cursor[TupleRow], bucket: str, job: str, keys: Collection[str]
) -> None:
    """Remember keys without an object, whose rows were collected, and forget the oldest ones.

    Args:
        cursor: In the transaction that records it.
        bucket: The bucket's name on its server.
        job: Who collected the rows.
        keys: Exact.
    """
    if not keys:
        return
    given = [key.encode() for key in dict.fromkeys(keys)]
    cursor.execute(_NOTE, {"bucket": bucket, "job": job, "keys": given})
    cursor.execute(_FORGET, {"after": FORGOTTEN_AFTER, "most": MOST_FORGOTTEN})


def late_landings(context: RunContext, bucket: str, keys: Sequence[bytes]) -> dict[bytes, str]:
    """Those of the keys that had no object when their row was gone, each with who collected it."""
    with context.database.transaction(context.connection, read_only=True) as cursor:
        cursor.execute(_LATE, {"bucket": bucket, "keys": list(keys)})
        return {
            bytes(key): f"{job} collected its row at {at:%Y-%m-%d %H:%M:%S} UTC"
            for key, job, at in cursor.fetchall()
        }
