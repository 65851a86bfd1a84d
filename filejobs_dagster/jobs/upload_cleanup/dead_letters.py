"""Dead letters: uploads that nobody tries any more, until somebody asks for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from filejobs_dagster.audit.append import append
from filejobs_dagster.jobs.upload_cleanup.settings import JOB

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    import psycopg
    from psycopg.rows import TupleRow

_DEAD = """
SELECT id, storage_key, upload_id, attempts, collectable_at, dead_at, last_error
  FROM upload
 WHERE dead_at IS NOT NULL
 ORDER BY dead_at, id
 LIMIT %(most)s
"""

# What was tried so far is forgiven; the fencing number goes on.
_RETRY = """
UPDATE upload
   SET dead_at         = NULL,
       forgiven        = attempts,
       next_attempt_at = clock_timestamp()
 WHERE dead_at IS NOT NULL
   AND state = 'cleanup'
   AND (%(ids)s::uuid[] IS NULL OR id = any(%(ids)s::uuid[]))
RETURNING id, storage_key, attempts
"""


@dataclass(frozen=True)
class DeadLetter:
    """One upload that was given up.

    Attributes:
        id: Of the row.
        key: Of the object, which may still be there.
        provider_id: The provider's id of its multipart upload, or None.
        attempts: How often it was tried, forgiven attempts included.
        collectable_at: Since when it waits for its cleanup.
        dead_at: Since when nobody tries any more.
        last_error: What the last attempt met, sanitised.
    """

    id: UUID
    key: str
    provider_id: str | None
    attempts: int
    collectable_at: datetime
    dead_at: datetime
    last_error: str | None


def dead_letters(cursor: psycopg.Cursor[TupleRow], *, most: int) -> list[DeadLetter]:
    """The dead letters, those first that are dead the longest."""
    cursor.execute(_DEAD, {"most": most})
    return [DeadLetter(*row) for row in cursor.fetchall()]


def retry_dead_letters(
    cursor: psycopg.Cursor[TupleRow], ids: Sequence[UUID] | None, *, by: str, reason: str
) -> list[tuple[UUID, str]]:
    """Make dead letters due at once, with all attempts ahead of them, and write who asked.

    Args:
        cursor: In a transaction of the caller's.
        ids: Which; None for all of them.
        by: Who asks, for the audit log.
        reason: Why, for the audit log.

    Returns:
        Id and key of each; what is no dead letter (any more) is left out.
    """
    cursor.execute(_RETRY, {"ids": None if ids is None else list(ids)})
    rows = cursor.fetchall()
    append(
        cursor,
        [
            {
                "kind": "upload.retry",
                "job": JOB,
                "upload": str(row),
                "storage_key": key,
                "attempts": attempts,
                "by": by,
                "reason": reason,
            }
            for row, key, attempts in rows
        ],
    )
    return [(row, key) for row, key, _ in rows]
