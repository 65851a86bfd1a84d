"""A pass over the bucket found that rows and objects do not fit together: every job is told.

The marker's counter cannot tell of a database that was restored to a moment after the last live
run. Its rows are as wrong all the same: a reservation that was completed since looks overdue. What
gives it away is that it looks older than the bucket, that references are gone which no job has
removed, or that nothing lies where references say that something does.

A pass raises a doubt and never lowers it: with the first upload after a restore the breaker that
found it goes blind, and the database knows no more than before. Somebody says that it is right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.door.adoption_target import AWS
from filejobs_dagster.door.guard import Guard, Refusal

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
RETURNING run_id, entry
"""

# A pass knows its bucket by the entry. What is right from now on is nothing to compare with what
# was before; and after the next pass, which only marks, somebody may look once more.
_FORGET_PASSES = """
DELETE FROM orphan_pass
 WHERE bucket = ANY(%(entries)s)
"""

_DOUBTED = """
SELECT run_id, since, entry, found
  FROM bucket_doubt
 WHERE endpoint = %(endpoint)s AND bucket = %(bucket)s
 ORDER BY since
 LIMIT 1
"""


class Doubt(Guard):
    """No pass has found that rows and objects do not fit together."""

    name = "doubt"
    protects: frozenset[Touch] = frozenset({"rows", "objects", "multipart uploads", "chain"})

    def look(self, at: Look) -> str:
        """Ask what passes have left."""
        _ask(at, "Nothing was touched.")
        return "no pass has found that rows and objects do not fit together"

    def prove(self, at: Look) -> None:
        """Ask again: a dry pass may look while a live run of another job works."""
        _ask(at, "What this run had not deleted yet it leaves alone.")


def _ask(at: Look, so_far: str) -> None:
    for bucket in at.buckets:
        with at.database.transaction(at.connection, read_only=True) as cursor:
            cursor.execute(_DOUBTED, _place(bucket.settings))
            row = cursor.fetchone()
        if row is not None:
            run_id, since, entry, found = row
            raise Refusal(
                f"Rows and objects of bucket {bucket.settings.bucket!r} do not fit together, since "
                f"{since:%Y-%m-%d %H:%M} UTC (last in run {run_id}): {found}.",
                "Was the database restored from a backup, is it a copy, was a table emptied, or is "
                "this another bucket? Then what looks due may be in use: deal with what was lost. "
                f"If all is as it should be, say so: {dismissal(entry)}. {so_far}",
            )


def dismissal(entry: str) -> str:
    """The command by which somebody says that the rows are right.

    Args:
        entry: The bucket's name in the settings.
    """
    return f"filejobs bucket adopt {entry} --again --reason '…'"


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
    """Somebody says that the database is right: forget what passes have found, and counted.

    Args:
        cursor: In the caller's transaction.
        endpoint_and_bucket: `Place.row_key`.

    Returns:
        The runs that had found it.
    """
    cursor.execute(_FORGET, endpoint_and_bucket)
    doubts = cursor.fetchall()
    cursor.execute(_FORGET_PASSES, {"entries": [entry for _, entry in doubts]})
    return [run_id for run_id, _ in doubts]


def _place(bucket: BucketSettings) -> dict[str, str]:
    return {"endpoint": bucket.endpoint_url or AWS, "bucket": bucket.bucket}
