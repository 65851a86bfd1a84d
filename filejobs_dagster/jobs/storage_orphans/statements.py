"""Every statement that storage_orphans sends about its candidates and its passes."""

from __future__ import annotations

# Binary, and times as numbers: as text, the parameters would take longer than the statements.
_SEEN = """
(SELECT key, etag, size_bytes, timestamptz 'epoch' + ms * interval '1 millisecond'
   FROM unnest(%(keys)b::bytea[], %(etags)b::text[], %(sizes)b::bigint[], %(modified)b::bigint[])
            AS given (key, etag, size_bytes, ms))
    AS seen (key, etag, size_bytes, last_modified)
"""

# A row that a client's transaction holds is passed by: that client is referring to the key. Its
# sighting stays old, so this run cannot take it, and the pass clears it.
# Another ETag, size or time is another object, and other rules are another judgement: both begin
# to be seen now. What failed is tried again; a lock that still holds is left alone.
# The range of the keys says nothing new, but keeps the planner from reading every candidate.
RENEW = f"""
WITH held AS (
    SELECT candidate.key, seen.etag, seen.size_bytes, seen.last_modified,
           candidate.etag = seen.etag
           AND candidate.size_bytes = seen.size_bytes
           AND candidate.last_modified = seen.last_modified
           AND candidate.fingerprint = %(fingerprint)s AS same
      FROM {_SEEN}
      JOIN orphan_candidate AS candidate ON candidate.key = seen.key
     WHERE candidate.key BETWEEN %(first)s AND %(last)s
       AND candidate.bucket = %(bucket)s
       AND candidate.state <> 'deleting'
       FOR UPDATE OF candidate SKIP LOCKED
)
UPDATE orphan_candidate AS candidate
   SET etag           = held.etag,
       size_bytes     = held.size_bytes,
       last_modified  = held.last_modified,
       first_seen_at  = CASE WHEN held.same THEN candidate.first_seen_at ELSE %(at)s END,
       first_seen_run = CASE WHEN held.same THEN candidate.first_seen_run ELSE %(run_id)s END,
       sightings      = CASE WHEN held.same THEN candidate.sightings + 1 ELSE 1 END,
       -- The database's clock may have been set back meanwhile.
       last_seen_at   = greatest(%(at)s, CASE WHEN held.same THEN candidate.first_seen_at END),
       last_seen_run  = %(run_id)s,
       fingerprint    = %(fingerprint)s,
       state          = CASE WHEN held.same AND candidate.state = 'locked'
                                  AND candidate.not_before > %(at)s
                             THEN 'locked' ELSE 'seen' END,
       reason         = CASE WHEN held.same THEN candidate.reason END,
       not_before     = CASE WHEN held.same THEN candidate.not_before END,
       intent_at      = NULL,
       intent_run     = NULL
  FROM held
 WHERE candidate.key = held.key
   AND candidate.key BETWEEN %(first)s AND %(last)s
   AND candidate.bucket = %(bucket)s
"""  # noqa: S608 (our own text)

# The row of another transaction is not waited for: DO NOTHING, and RENEW has passed it by.
MARK = f"""
INSERT INTO orphan_candidate
    (bucket, key, etag, size_bytes, last_modified, first_seen_at, first_seen_run,
     last_seen_at, last_seen_run, fingerprint)
SELECT %(bucket)s, key, etag, size_bytes, last_modified, %(at)s, %(run_id)s,
       %(at)s, %(run_id)s, %(fingerprint)s
  FROM {_SEEN}
ON CONFLICT (key, bucket) DO NOTHING
"""  # noqa: S608 (our own text)

# Where a walk over all candidates pauses. Each of its statements then touches a bounded number of
# rows, however many there are and whatever became of the others: with millions of them, one
# statement for all would meet the statement timeout, in every run.
WALK_END = """
SELECT key
  FROM orphan_candidate
 WHERE key > %(after)s
 ORDER BY key
OFFSET %(most)s - 1
 LIMIT 1
"""

# What another run has seen since this one began to mark is that run's business.
CLEAR = """
DELETE FROM orphan_candidate
 WHERE (key, bucket) IN (SELECT key, bucket
                           FROM orphan_candidate
                          WHERE key > %(after)s
                            AND key <= %(through)s
                            AND bucket = %(bucket)s
                            AND last_seen_run <> %(run_id)s
                            AND last_seen_at < %(at)s
                            AND state <> 'deleting'
                          ORDER BY key
                            FOR UPDATE SKIP LOCKED)
"""

_CONFIRMED = """
       bucket = %(bucket)s
   AND state = 'seen'
   AND last_seen_run = %(run_id)s
   AND first_seen_run <> %(run_id)s
   AND first_seen_at <= %(confirmed_before)s
   AND fingerprint = %(fingerprint)s
"""

# The order and the state are those of the partial index orphan_candidate_drain. Rows that are not
# due come too, so that a page is bounded by what it reads and not by what it finds.
NEXT = f"""
SELECT key, last_modified, {_CONFIRMED} AS is_due, reason IS NOT NULL AS was_refused
  FROM orphan_candidate
 WHERE bucket = %(bucket)s
   AND state = 'seen'
   AND (last_modified, key) > (%(after)s, %(after_key)s)
 ORDER BY last_modified, key
 LIMIT %(most)s
"""  # noqa: S608 (our own text)

# The intent is the claim: it repeats every predicate. SKIP LOCKED: a transaction that is referring
# to a key at this moment holds the row, and wins.
INTEND = f"""
UPDATE orphan_candidate
   SET state = 'deleting', intent_at = clock_timestamp(), intent_run = %(run_id)s
 WHERE (key, bucket) IN (SELECT key, bucket
                           FROM orphan_candidate
                          WHERE {_CONFIRMED}
                            AND key = ANY(%(keys)s::bytea[])
                          ORDER BY key
                            FOR UPDATE SKIP LOCKED)
   AND {_CONFIRMED}
   AND key = ANY(%(keys)s::bytea[])
RETURNING key, etag, size_bytes, last_modified, first_seen_at
"""  # noqa: S608 (our own text)

# Of the orphans of this pass: those that may be deleted now, and those that nobody saw early
# enough before.
TALLY = f"""
SELECT count(*) FILTER (WHERE is_due),
       coalesce(sum(size_bytes) FILTER (WHERE is_due), 0),
       min(last_modified) FILTER (WHERE is_due),
       min(first_seen_at) FILTER (WHERE is_due),
       count(*) FILTER (WHERE is_waiting),
       coalesce(sum(size_bytes) FILTER (WHERE is_waiting), 0),
       min(first_seen_at) FILTER (WHERE is_waiting)
  FROM (SELECT size_bytes, last_modified, first_seen_at, {_CONFIRMED} AS is_due,
               (first_seen_run = %(run_id)s OR first_seen_at > %(confirmed_before)s) AS is_waiting
          FROM orphan_candidate
         WHERE key > %(after)s
           AND key <= %(through)s
           AND bucket = %(bucket)s
           AND state = 'seen'
           AND last_seen_run = %(run_id)s) AS seen
"""  # noqa: S608 (our own text)

DUE_AMONG = f"""
SELECT key, size_bytes
  FROM orphan_candidate
 WHERE {_CONFIRMED}
   AND key = ANY(%(keys)s::bytea[])
"""  # noqa: S608 (our own text)

GONE = """
DELETE FROM orphan_candidate
 WHERE bucket = %(bucket)s
   AND key = ANY(%(keys)s::bytea[])
   AND state = 'deleting'
   AND intent_run = %(run_id)s
"""

RELEASE = """
UPDATE orphan_candidate
   SET state = 'seen', intent_at = NULL, intent_run = NULL
 WHERE bucket = %(bucket)s
   AND key = ANY(%(keys)s::bytea[])
   AND state = 'deleting'
   AND intent_run = %(run_id)s
"""

SET_ASIDE = """
UPDATE orphan_candidate AS candidate
   SET state      = %(state)s,
       reason     = aside.reason,
       not_before = aside.not_before,
       intent_at  = NULL,
       intent_run = NULL
  FROM unnest(%(keys)s::bytea[], %(reasons)s::text[], %(not_before)s::timestamptz[])
           AS aside (key, reason, not_before)
 WHERE candidate.bucket = %(bucket)s
   AND candidate.key = aside.key
   AND candidate.state = 'deleting'
   AND candidate.intent_run = %(run_id)s
"""

# The reason makes the object come last once its intent is settled.
KEEP_INTENT = """
UPDATE orphan_candidate AS candidate
   SET reason = kept.reason, not_before = NULL, intent_at = clock_timestamp()
  FROM unnest(%(keys)s::bytea[], %(reasons)s::text[]) AS kept (key, reason)
 WHERE candidate.bucket = %(bucket)s
   AND candidate.key = kept.key
   AND candidate.state = 'deleting'
   AND candidate.intent_run = %(run_id)s
"""

INTERRUPTED = """
SELECT key
  FROM orphan_candidate
 WHERE bucket = %(bucket)s AND state = 'deleting' AND intent_run <> %(run_id)s
 ORDER BY key
"""

# Of entries that have another name by now, or none: no run asks for them any more.
INTERRUPTED_ELSEWHERE = """
SELECT bucket, count(*)
  FROM orphan_candidate
 WHERE state = 'deleting' AND bucket <> %(bucket)s
 GROUP BY bucket
 ORDER BY bucket
"""

# A request to delete that was sent a moment ago may still arrive: that intent stays as it is.
RECOVER = """
UPDATE orphan_candidate
   SET state = 'seen', intent_at = NULL, intent_run = NULL
 WHERE bucket = %(bucket)s
   AND key = ANY(%(keys)s::bytea[])
   AND state = 'deleting'
   AND intent_run <> %(run_id)s
   AND intent_at < %(settled)s
RETURNING key
"""

RECOVER_GONE = """
DELETE FROM orphan_candidate
 WHERE bucket = %(bucket)s
   AND key = ANY(%(keys)s::bytea[])
   AND state = 'deleting'
   AND intent_run <> %(run_id)s
"""

PASSED = """
INSERT INTO orphan_pass
    (bucket, run_id, at, mode, fingerprint, objects, bytes, keys_by_source, orphans, orphan_bytes)
VALUES
    (%(bucket)s, %(run_id)s, %(at)s, %(mode)s, %(fingerprint)s, %(objects)s, %(bytes)s,
     %(keys_by_source)s, %(orphans)s, %(orphan_bytes)s)
"""

# Those that are as old as the oldest kept one stay, too.
FORGET_PASSES = """
DELETE FROM orphan_pass
 WHERE bucket = %(bucket)s
   AND at < (SELECT at
               FROM orphan_pass
              WHERE bucket = %(bucket)s
              ORDER BY at DESC
             OFFSET %(kept)s - 1
              LIMIT 1)
"""

# What live runs removed since, at most: of a run that was at work meanwhile, all of it.
COMPLETE_BEFORE = """
SELECT run_id, keys_by_source, fingerprint = %(fingerprint)s, objects,
       (SELECT coalesce(sum(acted), 0)::bigint
          FROM job_progress
         WHERE mode = 'live'
           AND job = ANY(%(removing)s)
           AND heartbeat_at >= orphan_pass.at)
  FROM orphan_pass
 WHERE bucket = %(bucket)s
 ORDER BY at DESC
 LIMIT 1
"""

PASSED_BEFORE = """
SELECT EXISTS (SELECT
                 FROM orphan_pass
                WHERE bucket = %(bucket)s
                  AND fingerprint = %(fingerprint)s
                  AND run_id <> %(run_id)s)
"""

FIRST_SEEN = """
SELECT key, first_seen_at
  FROM orphan_candidate
 WHERE bucket = %(bucket)s
   AND key = ANY(%(keys)b::bytea[])
   AND fingerprint = %(fingerprint)s
"""
