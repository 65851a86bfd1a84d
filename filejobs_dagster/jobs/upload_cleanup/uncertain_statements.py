"""Every statement about uploads that are not claimed: silent, uncertain and retained ones.

Nothing is claimed before storage is asked; each write repeats what was seen, so that a writer who
comes back meanwhile wins. A row that an application holds locked is left out, lest its transaction
hold up all the others.
"""

from __future__ import annotations

from filejobs_dagster.jobs.upload_cleanup.statements import no_pause

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
