"""Every statement that upload_reservations sends about reservations."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING
from uuid import UUID

from filejobs_dagster.postgres.connect import one

if TYPE_CHECKING:
    import psycopg
    from psycopg.rows import TupleRow

# Keyset, never OFFSET: rows that were collected would shift the pages. The order and the first
# three predicates are those of the partial index file_reservation_due.
CANDIDATES = """
SELECT id, storage_key, upload_expires_at, size_bytes
  FROM file
 WHERE state = 'pending'
   AND upload_expires_at IS NOT NULL
   AND upload_expires_at < %(before)s
   AND (upload_expires_at, id) > (%(after)s, %(after_id)s)
 ORDER BY upload_expires_at, id
 LIMIT %(size)s
"""

# A table that was never analyzed looks small, and its bitmap scan would read and sort everything
# that is due for every page. In the order of the index a page costs what it returns.
IN_INDEX_ORDER = "SET LOCAL enable_bitmapscan = off"

# The claim: it repeats state and expiry, and says by RETURNING what it won. SKIP LOCKED: a row
# that a client is completing at this moment is not waited for, it is left to the client.
CLAIM = """
DELETE FROM file
 WHERE id IN (SELECT id
                FROM file
               WHERE id = ANY(%(ids)s)
                 AND state = 'pending'
                 AND upload_expires_at IS NOT NULL
                 AND upload_expires_at >= %(from)s
                 AND upload_expires_at < %(before)s
               ORDER BY id
                 FOR UPDATE SKIP LOCKED)
   AND state = 'pending'
   AND upload_expires_at IS NOT NULL
   AND upload_expires_at >= %(from)s
   AND upload_expires_at < %(before)s
RETURNING id, storage_key, upload_expires_at, size_bytes, created_at
"""

WITH_ROW = f"{CLAIM.rstrip()}, (to_jsonb(file) - %(leave_out)s::text[])::text\n"
"""The same claim, which also returns the row as JSON text: as it was, without some columns."""

# What a claim has passed by, and nobody has taken: its lock is another session's.
STILL_DUE = """
SELECT id
  FROM file
 WHERE id = ANY(%(ids)s)
   AND state = 'pending'
   AND upload_expires_at IS NOT NULL
   AND upload_expires_at >= %(from)s
   AND upload_expires_at < %(before)s
"""

OLDEST_LEFT = """
SELECT min(upload_expires_at)
  FROM file
 WHERE state = 'pending'
   AND upload_expires_at IS NOT NULL
   AND upload_expires_at < %(cutoff)s
"""

WITHOUT_EXPIRY = """
SELECT count(*)
  FROM (SELECT
          FROM file
         WHERE state = 'pending'
           AND upload_expires_at IS NULL
         LIMIT %(most)s) AS pending_without_expiry
"""

DUE = """
SELECT count(*)
  FROM (SELECT
          FROM file
         WHERE state = 'pending'
           AND upload_expires_at IS NOT NULL
           -- A sub-select, evaluated once: a volatile function cannot be an index condition.
           AND upload_expires_at < (SELECT clock_timestamp() - %(grace)s)
         -- Nothing depends on the order: it leads the planner to the index, whatever it believes
         -- of a moment that it does not know. Else it may read the whole table to find nothing.
         ORDER BY upload_expires_at, id
         LIMIT %(most)s) AS due
"""

BEGINNING = datetime(1, 1, 2, tzinfo=timezone.utc)
"""Before any reservation (the table's CHECK says so): `from` of a window without beginning."""

LAST_ID = UUID(int=2**128 - 1)
"""No row comes between it and the first row of the next microsecond."""


def count_due(cursor: psycopg.Cursor[TupleRow], grace: timedelta, *, most: int) -> int:
    """Count the reservations that are due, up to `most`."""
    cursor.execute(DUE, {"grace": grace, "most": most})
    return int(one(cursor)[0])


def oldest_left(cursor: psycopg.Cursor[TupleRow], cutoff: datetime) -> datetime | None:
    """Return when the oldest reservation expired that is due and still there."""
    cursor.execute(OLDEST_LEFT, {"cutoff": cutoff})
    moment: datetime | None = one(cursor)[0]
    return moment


def count_without_expiry(cursor: psycopg.Cursor[TupleRow], *, most: int) -> int:
    """Count the pending rows that never expire by themselves, up to `most`."""
    cursor.execute(WITHOUT_EXPIRY, {"most": most})
    return int(one(cursor)[0])


# A run may stand in both.
SEARCHED = """
SELECT EXISTS (SELECT
                 FROM (SELECT job, installation, mode, outcome, started_at, detail FROM job_run
                        UNION ALL
                       SELECT job, installation, mode, outcome, started_at, detail
                         FROM job_progress) AS run
                WHERE job = %(job)s
                  AND installation = %(installation)s
                  AND mode = 'live'
                  AND outcome = 'ok'
                  AND started_at > now() - %(holds_for)s
                  AND detail -> 'search' ->> 'rules' = %(rules)s
                  AND detail -> 'search' ->> 'found' = '0'
                  AND detail -> 'search' ->> 'columns_not_searched' = '0')
"""
