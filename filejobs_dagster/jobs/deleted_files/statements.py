"""Every statement that deleted_files sends about files, and one such file.

A row becomes collectable at the later one of `deleted_at` plus the restore window, and
`retain_until`. A run takes those for which this moment is in `[begins, before)`:

    deleted_from     begins less the restore window
    deleted_before   before less the restore window
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    Place = tuple[datetime, UUID]

# Only fragments that stand in this module are put together.
# ruff: noqa: S608


_GOES = """state = 'deleted'
   AND deleted_at IS NOT NULL
   AND deleted_at >= '0001-01-03Z'
   AND deleted_at < %(deleted_before)s
   AND (retain_until IS NULL OR retain_until < %(before)s)
   AND (deleted_at >= %(deleted_from)s OR retain_until >= %(begins)s)"""

# Two orders, because one index cannot hold the later one of two moments when the restore window is
# a setting. Keyset, never OFFSET: rows that were collected would shift the pages. Order and first
# predicates are those of the partial indexes file_deleted_due and file_deleted_retained_due.
PLAIN_CANDIDATES = """
SELECT id, storage_key, deleted_at, retain_until, created_at
  FROM file
 WHERE state = 'deleted'
   AND deleted_at IS NOT NULL
   AND retain_until IS NULL
   AND deleted_at < %(deleted_before)s
   AND (deleted_at, id) > (%(after)s, %(after_id)s)
 ORDER BY deleted_at, id
 LIMIT %(size)s
"""

RETAINED_CANDIDATES = """
SELECT id, storage_key, deleted_at, retain_until, created_at
  FROM file
 WHERE state = 'deleted'
   AND deleted_at IS NOT NULL
   AND retain_until IS NOT NULL
   AND retain_until < %(before)s
   AND deleted_at >= '0001-01-03Z'
   AND deleted_at < %(deleted_before)s
   AND (deleted_at >= %(deleted_from)s OR retain_until >= %(begins)s)
   AND (retain_until, id) > (%(after)s, %(after_id)s)
 ORDER BY retain_until, id
 LIMIT %(size)s
"""

# A table that was never analyzed looks small, and its bitmap scan would read and sort everything
# that is due for every page. In the order of the index a page costs what it returns.
IN_INDEX_ORDER = "SET LOCAL enable_bitmapscan = off"
IN_ANY_ORDER = "SET LOCAL enable_bitmapscan TO DEFAULT"

# For what may read thousands of entries: PostgreSQL takes its price for that of the whole table's.
BY_INDEX_ALONE = """
SELECT set_config('enable_bitmapscan', 'off', true), set_config('enable_seqscan', 'off', true)
"""

# Before derived rows are read: a row of theirs locks its file FOR KEY SHARE, so none can come after
# this, and a file with one that is not committed yet is passed by. A statement of its own, because
# what follows must see whatever was committed before the lock was got.
LOCK = f"""
SELECT id
  FROM file
 WHERE id = ANY(%(ids)s)
   AND {_GOES}
 ORDER BY id
   FOR UPDATE SKIP LOCKED
"""

# What a claim has passed by, and nobody has taken: its lock is another session's.
STILL_DUE = f"""
SELECT id
  FROM file
 WHERE id = ANY(%(ids)s)
   AND {_GOES}
"""

# The claim: it repeats every predicate, and says by RETURNING what it won. SKIP LOCKED: a row that
# somebody is restoring at this moment is not waited for, it is left to them.
CLAIM = f"""
DELETE FROM file
 WHERE id IN (SELECT id
                FROM file
               WHERE id = ANY(%(ids)s)
                 AND {_GOES}
               ORDER BY id
                 FOR UPDATE SKIP LOCKED)
   AND {_GOES}
RETURNING id, storage_key, deleted_at, retain_until, created_at
"""

WITH_ROW = f"{CLAIM.rstrip()}, (to_jsonb(file) - %(leave_out)s::text[])::text\n"
"""The same claim, which also returns the row as JSON text: as it was, without some columns."""

# The oldest of each order. Of retained rows some ten thousand are looked at: their moment is never
# before retain_until, so that only a backlog that is larger could hide an older one.
OLDEST_LEFT = """
SELECT least(
    (SELECT min(deleted_at) + %(restore_window)s
       FROM file
      WHERE state = 'deleted'
        AND deleted_at IS NOT NULL
        AND retain_until IS NULL
        AND deleted_at >= '0001-01-03Z'
        AND deleted_at < %(deleted_before)s),
    (SELECT min(greatest(deleted_at + %(restore_window)s, retain_until))
       FROM (SELECT deleted_at, retain_until
               FROM file
              WHERE state = 'deleted'
                AND deleted_at IS NOT NULL
                AND retain_until IS NOT NULL
                AND retain_until < %(before)s
                AND deleted_at >= '0001-01-03Z'
                AND deleted_at < %(deleted_before)s
              ORDER BY retain_until, id
              LIMIT 10000) AS first_retained))
"""

WITHOUT_DATE = """
SELECT count(*)
  FROM (SELECT
          FROM file
         WHERE state = 'deleted'
           AND deleted_at IS NULL
         -- Nothing depends on the order: it leads the planner to the index.
         ORDER BY id
         LIMIT %(most)s) AS deleted_without_date
"""

# What no page returns: dates that were there before the constraints, which were never validated
# then. Each kind is the beginning or the end of an index.
UNUSABLE = """
(SELECT id::text, true AS due FROM file
  WHERE state = 'deleted' AND deleted_at IS NOT NULL AND retain_until IS NULL
    AND deleted_at < '0001-01-03Z' LIMIT %(most)s)
UNION ALL
(SELECT id::text, false FROM file
  WHERE state = 'deleted' AND deleted_at IS NOT NULL AND retain_until IS NULL
    AND deleted_at >= '9999-01-01Z' LIMIT %(most)s)
UNION ALL
(SELECT id::text, true FROM file
  WHERE state = 'deleted' AND deleted_at IS NOT NULL AND retain_until IS NOT NULL
    AND (retain_until < '0001-01-03Z' OR (retain_until < %(before)s AND deleted_at < '0001-01-03Z'))
  LIMIT %(most)s)
"""

BEGINNING = datetime(1, 1, 2, tzinfo=timezone.utc)
"""Before any date of a file (the table's CHECK says so): `begins` of a window without beginning."""

LAST_ID = UUID(int=2**128 - 1)
"""No row comes between it and the first row of the next microsecond."""


# One deleted file.


@dataclass(frozen=True)
class DeletedFile:
    """One row, as a candidate query or the claim returned it.

    Attributes:
        id: The row's id.
        key: The key of its object.
        deleted_at: When it was deleted.
        retain_until: Before which moment nobody may collect it, or None.
        created_at: When the row was made.
        row: The whole row as JSON text, where its claim keeps it.
    """

    id: UUID
    key: str
    deleted_at: datetime
    retain_until: datetime | None
    created_at: datetime
    row: str | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class Candidate(DeletedFile):
    """A row, and how far the two orders of candidates were read when its turn had come.

    Attributes:
        plain: Moment and id of the last row without retain_until.
        retained: Moment and id of the last row with one.
    """

    plain: Place
    retained: Place
