"""A pass over the bucket found that the database looks older than it: every job is told.

The marker's counter cannot tell of a database that was restored to a moment after the last live
run. Its rows are as wrong all the same: a reservation that was completed since looks overdue. The
job that makes the passes is stopped by its own breaker; this guard stops those that go by rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.door.guard import Guard, Refusal
from filejobs_dagster.door.sides import AWS

if TYPE_CHECKING:
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
 WHERE endpoint = %(endpoint)s AND bucket = %(bucket)s AND entry = %(entry)s
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
    protects: frozenset[Touch] = frozenset({"rows", "multipart uploads", "chain"})

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
                    "in use. Deal with what was lost; the next pass of storage_orphans, dry or "
                    "live, that finds nothing of the kind lets live runs in again. docs/"
                    "storage_orphans.md says how to tell that the database is right. Nothing was "
                    "touched.",
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


def forget_doubt(cursor: psycopg.Cursor[TupleRow], bucket: BucketSettings, entry: str) -> None:
    """A pass has found otherwise, or somebody says that the database is right."""
    cursor.execute(_FORGET, {**_place(bucket), "entry": entry})


def _place(bucket: BucketSettings) -> dict[str, str]:
    return {"endpoint": bucket.endpoint_url or AWS, "bucket": bucket.bucket}
