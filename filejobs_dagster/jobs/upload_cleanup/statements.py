"""Every statement that upload_cleanup sends about uploads that are claimed.

Times are the database's. A row is due by `next_attempt_at`, which is also how long a claim keeps
it; the order is that of the partial index `upload_due`. What failed has its pause in `setback`, as
in every job.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING
from uuid import UUID

from filejobs_dagster.jobs.upload_cleanup.settings import JOB
from filejobs_dagster.postgres.connect import one

if TYPE_CHECKING:
    import psycopg
    from psycopg.rows import TupleRow

PLACE = "upload"
"""Of what a setback is one."""

_SETBACK = f"""
           FROM setback
          WHERE setback.job = '{JOB}' AND setback.place = '{PLACE}'
            AND setback.item = convert_to(upload.id::text, 'UTF8')
"""


def no_pause(at: str) -> str:
    """In SQL: the row has no pause that has not ended by a moment."""
    return f"coalesce((SELECT setback.not_before <= {at} {_SETBACK}), true)"


# A hold that somebody has written into the row counts as one of the storage does.
_DUE = """
           upload.state = 'cleanup' AND upload.dead_at IS NULL
       AND NOT upload.legal_hold
       AND (upload.retained_until IS NULL OR upload.retained_until <= %(cutoff)s)
       AND upload.next_attempt_at <= %(cutoff)s
       AND upload.collectable_at >= %(begins)s AND upload.collectable_at < %(ends)s
""".strip()

# First what never failed, and then, in a turn of its own, what did and whose pause is over.
_TURN = f"""coalesce((SELECT %(again)s AND setback.not_before <= %(cutoff)s {_SETBACK}),
                    NOT %(again)s)"""

# The candidates are chosen under a lock, and the claim repeats every predicate. MATERIALIZED: the
# planner must not run a LIMIT with SKIP LOCKED more than once. What counts as not retained now must
# still count so when the bytes go, whatever the clock says then: that is why `claimed_at` is the
# cutoff (see `references/own_tables.py`).
CLAIM = f"""
WITH due AS MATERIALIZED (
    SELECT id
      FROM upload
     WHERE {_DUE}
       AND {_TURN}
     ORDER BY next_attempt_at, id
     LIMIT %(size)s
       FOR UPDATE SKIP LOCKED
)
UPDATE upload
   SET attempts        = upload.attempts + 1,
       claimed_at      = %(cutoff)s,
       claimed_by      = %(run)s,
       next_attempt_at = clock_timestamp() + %(lease)s
  FROM due
 WHERE upload.id = due.id
   AND {_DUE}
RETURNING upload.id, storage_key, upload_id, etag, version_id, size_bytes,
          stored_at IS NOT NULL, next_attempt_at, attempts, attempts - forgiven > 1
"""  # noqa: S608 (our own text)

# What a dry run sees: the same rows, without a lock.
CANDIDATES = f"""
SELECT id, storage_key, upload_id, etag, version_id, size_bytes,
       stored_at IS NOT NULL, next_attempt_at, attempts, attempts - forgiven > 0
  FROM upload
 WHERE {_DUE}
   AND (next_attempt_at, id) > (%(after)s, %(after_id)s)
   AND {_TURN}
 ORDER BY next_attempt_at, id
 LIMIT %(size)s
"""  # noqa: S608 (our own text)

# Not EXISTS, which would forget the order and with it the index.
ANY_DUE = f"""
SELECT count(*) > 0
  FROM (SELECT
          FROM upload
         WHERE {_DUE}
           AND {no_pause("%(cutoff)s")}
         ORDER BY next_attempt_at, id
         LIMIT 1) AS due
"""  # noqa: S608 (our own text)

# What is due and passed over, since its pause has not ended.
PAUSED = f"""
SELECT upload.storage_key, setback.attempts, setback.not_before, setback.reason
  FROM setback
  JOIN upload ON setback.item = convert_to(upload.id::text, 'UTF8')
 WHERE setback.job = '{JOB}' AND setback.place = '{PLACE}'
   AND setback.not_before > %(cutoff)s
   AND {_DUE}
 LIMIT %(size)s
"""  # noqa: S608 (our own text)

# Results repeat the fencing number: a worker whose claim was taken over writes none. A multipart
# upload that was noted meanwhile was not aborted: its row is not done.
CLEAN = """
UPDATE upload
   SET state      = 'cleaned',
       outcome    = done.outcome,
       claimed_at = NULL,
       claimed_by = NULL,
       dead_at    = NULL,
       last_error = NULL
  FROM unnest(%(ids)s::uuid[], %(attempts)s::integer[], %(outcomes)s::text[],
              %(provider_ids)s::text[])
    AS done (id, attempt, outcome, provider_id)
 WHERE upload.id = done.id
   AND upload.state = 'cleanup'
   AND upload.attempts = done.attempt
   AND upload.upload_id IS NOT DISTINCT FROM done.provider_id
RETURNING upload.id
"""

# An attempt that says nothing of the row itself (storage was away) is forgiven: an outage must not
# make dead letters.
LEAVE = """
UPDATE upload
   SET last_error      = failed.reason,
       claimed_at      = NULL,
       claimed_by      = NULL,
       forgiven        = upload.forgiven + CASE WHEN %(counts)s THEN 0 ELSE 1 END,
       next_attempt_at = clock_timestamp(),
       dead_at         = CASE WHEN %(counts)s
                               AND upload.attempts - upload.forgiven >= %(max_attempts)s
                              THEN clock_timestamp() END
  FROM unnest(%(ids)s::uuid[], %(attempts)s::integer[], %(reasons)s::text[])
    AS failed (id, attempt, reason)
 WHERE upload.id = failed.id
   AND upload.state = 'cleanup'
   AND upload.attempts = failed.attempt
RETURNING upload.id, upload.dead_at IS NOT NULL
"""

# An attempt that met a lock was no failure.
RETAIN = """
UPDATE upload
   SET state           = 'retained',
       retained_until  = greatest(upload.retained_until, locked.until),
       legal_hold      = upload.legal_hold OR locked.held,
       next_attempt_at = coalesce(locked.until, clock_timestamp() + %(look_again)s),
       forgiven        = upload.forgiven + 1,
       claimed_at      = NULL,
       claimed_by      = NULL,
       dead_at         = NULL,
       last_error      = NULL
  FROM unnest(%(ids)s::uuid[], %(attempts)s::integer[], %(untils)s::timestamptz[],
              %(holds)s::boolean[])
    AS locked (id, attempt, until, held)
 WHERE upload.id = locked.id
   AND upload.state = 'cleanup'
   AND upload.attempts = locked.attempt
RETURNING upload.id
"""

# Whoever holds the job's lock is alone: a claim of another run was abandoned. Abandoned once, the
# row is due at once; a row whose worker dies each time waits as after any other failure. What an
# application holds locked right now is the next run's.
TAKE_OVER = """
WITH abandoned AS MATERIALIZED (
    SELECT id
      FROM upload
     WHERE state = 'cleanup' AND dead_at IS NULL AND claimed_by <> %(run)s
       FOR UPDATE SKIP LOCKED
)
UPDATE upload
   SET claimed_at      = NULL,
       claimed_by      = NULL,
       last_error      = 'the run that had claimed it ended without a result: ' || claimed_by,
       next_attempt_at = %(cutoff)s,
       dead_at         = CASE WHEN attempts - forgiven >= %(max_attempts)s
                              THEN clock_timestamp() END
  FROM abandoned
 WHERE upload.id = abandoned.id
   AND upload.state = 'cleanup'
   AND upload.dead_at IS NULL
   AND upload.claimed_by <> %(run)s
RETURNING upload.id, storage_key, dead_at IS NOT NULL, attempts - forgiven > 1
"""

OLDEST_LEFT = """
SELECT min(collectable_at)
  FROM upload
 WHERE state = 'cleanup'
   AND NOT legal_hold AND (retained_until IS NULL OR retained_until <= %(cutoff)s)
   AND collectable_at >= %(begins)s AND collectable_at < %(ends)s
   AND collectable_at < %(cutoff)s
"""

# In the order of the indexes: a table without statistics would be read from its beginning.
LEFT = """
SELECT (SELECT count(*) FROM (SELECT FROM upload WHERE dead_at IS NOT NULL
                               ORDER BY dead_at, id LIMIT %(most)s) AS dead),
       (SELECT count(*) FROM (SELECT FROM upload WHERE state = 'cleanup' AND dead_at IS NULL
                               ORDER BY next_attempt_at, id LIMIT %(most)s) AS waiting),
       (SELECT count(*) FROM (SELECT FROM upload WHERE state = 'uncertain'
                               ORDER BY next_attempt_at, id LIMIT %(most)s) AS uncertain),
       (SELECT count(*) FROM (SELECT FROM upload WHERE state = 'retained'
                               ORDER BY retained_until, id LIMIT %(most)s) AS retained)
"""

BEGINNING = datetime(1, 1, 2, tzinfo=timezone.utc)
"""Before any moment of an upload (the table's CHECK says so)."""

END = datetime(9999, 1, 1, tzinfo=timezone.utc)
"""After any moment of an upload."""

FIRST_ID = UUID(int=0)


def left(cursor: psycopg.Cursor[TupleRow], *, most: int) -> dict[str, int]:
    """What stands where, each counted up to `most`."""
    cursor.execute(LEFT, {"most": most})
    names = ("dead_letters", "waiting", "uncertain", "retained")
    return dict(zip(names, one(cursor), strict=True))


# Every statement about uploads that are not claimed: silent, uncertain and retained ones.
#
# Nothing is claimed before storage is asked; each write repeats what was seen, so that a writer
# who comes back meanwhile wins. A row that an application holds locked is left out, lest its
# transaction hold up all the others.

# The writer may only be slow: it becomes uncertain, and is asked about; never cancelled.
SILENT = """
WITH silent AS MATERIALIZED (
    SELECT id
      FROM upload
     WHERE state = 'writing' AND activity_at < %(before)s
     ORDER BY activity_at, id
     LIMIT %(size)s
       FOR UPDATE SKIP LOCKED
)
UPDATE upload
   SET state            = 'uncertain',
       uncertain_since  = clock_timestamp(),
       uncertain_reason = %(reason)s,
       next_attempt_at  = %(cutoff)s
  FROM silent
 WHERE upload.id = silent.id
   AND upload.state = 'writing' AND upload.activity_at < %(before)s
RETURNING upload.id, storage_key, activity_at
"""

COUNT_SILENT = """
SELECT count(*)
  FROM (SELECT
          FROM upload
         WHERE state = 'writing' AND activity_at < %(before)s
         LIMIT %(most)s) AS silent
"""

UNCERTAIN = f"""
SELECT id, storage_key, upload_id, etag, size_bytes, next_attempt_at, uncertain_since,
       activity_at, cancel_requested_at IS NOT NULL
  FROM upload
 WHERE state = 'uncertain'
   AND next_attempt_at <= %(cutoff)s
   AND (next_attempt_at, id) > (%(after)s, %(after_id)s)
   AND {no_pause("%(cutoff)s")}
 ORDER BY next_attempt_at, id
 LIMIT %(size)s
"""  # noqa: S608 (our own text)

# The object is there. A cancel that was remembered is honoured now.
RESOLVE_STORED = """
WITH free AS MATERIALIZED (
    SELECT id
      FROM upload
     WHERE id = any(%(ids)s::uuid[])
       FOR UPDATE SKIP LOCKED
)
UPDATE upload
   SET state           = CASE WHEN cancel_requested_at IS NULL THEN 'stored' ELSE 'cleanup' END,
       etag            = coalesce(found.etag, upload.etag),
       size_bytes      = found.size,
       version_id      = coalesce(found.version, upload.version_id),
       stored_at       = clock_timestamp(),
       next_attempt_at = %(cutoff)s,
       last_error      = NULL
  FROM unnest(%(ids)s::uuid[], %(since)s::timestamptz[], %(active)s::timestamptz[],
              %(etags)s::text[], %(sizes)s::bigint[], %(versions)s::text[])
    AS found (id, since, active, etag, size, version)
 WHERE upload.id = found.id
   AND upload.id IN (SELECT id FROM free)
   AND upload.state = 'uncertain'
   AND upload.uncertain_since = found.since AND upload.activity_at = found.active
RETURNING upload.id, upload.state
"""

RESOLVE_CLEANUP = """
WITH free AS MATERIALIZED (
    SELECT id
      FROM upload
     WHERE id = any(%(ids)s::uuid[])
       FOR UPDATE SKIP LOCKED
)
UPDATE upload
   SET state           = 'cleanup',
       next_attempt_at = %(cutoff)s,
       last_error      = NULL
  FROM unnest(%(ids)s::uuid[], %(since)s::timestamptz[], %(active)s::timestamptz[])
    AS found (id, since, active)
 WHERE upload.id = found.id
   AND upload.id IN (SELECT id FROM free)
   AND upload.state = 'uncertain'
   AND upload.uncertain_since = found.since AND upload.activity_at = found.active
RETURNING upload.id, upload.state
"""

STILL_UNCERTAIN = """
WITH free AS MATERIALIZED (
    SELECT id
      FROM upload
     WHERE id = any(%(ids)s::uuid[])
       FOR UPDATE SKIP LOCKED
)
UPDATE upload
   SET next_attempt_at = clock_timestamp() + found.again,
       last_error      = found.reason
  FROM unnest(%(ids)s::uuid[], %(since)s::timestamptz[], %(active)s::timestamptz[],
              %(agains)s::interval[], %(reasons)s::text[])
    AS found (id, since, active, again, reason)
 WHERE upload.id = found.id
   AND upload.id IN (SELECT id FROM free)
   AND upload.state = 'uncertain'
   AND upload.uncertain_since = found.since AND upload.activity_at = found.active
RETURNING upload.id, upload.state
"""

RETAINED = f"""
SELECT id, storage_key, version_id, coalesce(next_attempt_at, retained_until, collectable_at)
  FROM upload
 WHERE state = 'retained'
   AND coalesce(next_attempt_at, retained_until, collectable_at) <= %(cutoff)s
   AND (retained_until IS NULL OR retained_until <= %(cutoff)s)
   AND (coalesce(next_attempt_at, retained_until, collectable_at), id)
       > (%(after)s, %(after_id)s)
   AND {no_pause("%(cutoff)s")}
 ORDER BY coalesce(next_attempt_at, retained_until, collectable_at), id
 LIMIT %(size)s
"""  # noqa: S608 (our own text)

LOCK_OVER = """
UPDATE upload
   SET state           = 'cleanup',
       retained_until  = NULL,
       legal_hold      = false,
       next_attempt_at = %(cutoff)s
 WHERE id = any(%(ids)s::uuid[])
   AND state = 'retained'
   AND (retained_until IS NULL OR retained_until <= %(cutoff)s)
RETURNING id
"""

STILL_RETAINED = """
UPDATE upload
   SET retained_until  = locked.until,
       legal_hold      = locked.held,
       next_attempt_at = coalesce(locked.until, clock_timestamp() + %(look_again)s)
  FROM unnest(%(ids)s::uuid[], %(untils)s::timestamptz[], %(holds)s::boolean[])
    AS locked (id, until, held)
 WHERE upload.id = locked.id
   AND upload.state = 'retained'
   AND (upload.retained_until IS NULL OR upload.retained_until <= %(cutoff)s)
RETURNING upload.id
"""

# What storage did not say is asked again when its pause is over.
RETAINED_UNSEEN = """
UPDATE upload
   SET last_error = %(reason)s
 WHERE id = any(%(ids)s::uuid[])
   AND state = 'retained'
"""
