"""A pass over the bucket found that the database looks older than it: every job is told.

The marker's counter cannot tell of a database that was restored to a moment after the last live
run. Its rows are as wrong all the same: a reservation that was completed since looks overdue.

A pass raises a doubt and never lowers it: with the first upload after a restore the breaker that
found it goes blind, and the database knows no more than before. Somebody says that it is right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.door.guard import Guard, Refusal
from filejobs_dagster.door.sides import AWS

if TYPE_CHECKING:
    from collections.abc import Mapping

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.collector import Touch
    from filejobs_dagster.door.guard import Look
    from filejobs_dagster.settings import BucketSettings

_REMEMBER = """
INSERT INTO bucket_doubt (endpoint, bucket, entry, run_id, found)
VALUES (%(endpoint)s, %(bucket)s, %(entry)s, %(run_id)s, %(found)s)
    ON CONFLICT (endpoint, bucket, entry) DO UPDATE
   SET run_id = excluded.run_id, found = excluded.found
"""

_FORGET = """
DELETE FROM bucket_doubt
 WHERE endpoint = %(endpoint)s AND bucket = %(bucket)s
RETURNING run_id
"""

_DOUBTED = """
SELECT run_id, since, found
  FROM bucket_doubt
 WHERE endpoint = %(endpoint)s AND bucket = %(bucket)s
 ORDER BY since
 LIMIT 1
"""


class Doubt(Guard):
    """No pass has found that the database looks older than the bucket."""

    name = "doubt"
    protects: frozenset[Touch] = frozenset({"rows", "objects", "multipart uploads", "chain"})

    def look(self, at: Look) -> str:
        """Ask what passes have left."""
        for bucket in at.buckets:
            with at.database.transaction(at.connection, read_only=True) as cursor:
                cursor.execute(_DOUBTED, _place(bucket.settings))
                row = cursor.fetchone()
            if row is not None:
                run_id, since, found = row
                raise Refusal(
                    f"The database looks older than bucket {bucket.settings.bucket!r}: since "
                    f"{since:%Y-%m-%d %H:%M} UTC (last in run {run_id}), {found}.",
                    "Was it restored from a backup, or is it a copy? Then what looks due may be "
                    "in use: deal with what was lost. If the database is right all the same, say "
                    "so: filejobs bucket adopt --again --reason '…'. Nothing was touched.",
                )
        return "no pass has found the database older than a bucket"


def remember_doubt(
    cursor: psycopg.Cursor[TupleRow], bucket: BucketSettings, entry: str, run_id: str, found: str
) -> None:
    """Keep what a pass has found, for every job.

    Args:
        cursor: In the caller's transaction.
        bucket: What the settings say of it.
        entry: Its name in the settings.
        run_id: Which run made the pass.
        found: In words.
    """
    cursor.execute(_REMEMBER, {**_place(bucket), "entry": entry, "run_id": run_id, "found": found})


def forget_doubts(
    cursor: psycopg.Cursor[TupleRow], endpoint_and_bucket: Mapping[str, str]
) -> list[str]:
    """Somebody says that the database is right: forget what passes have found.

    Args:
        cursor: In the caller's transaction.
        endpoint_and_bucket: `Place.row_key`.

    Returns:
        The runs that had found it.
    """
    cursor.execute(_FORGET, endpoint_and_bucket)
    return [row[0] for row in cursor.fetchall()]


def _place(bucket: BucketSettings) -> dict[str, str]:
    return {"endpoint": bucket.endpoint_url or AWS, "bucket": bucket.bucket}
