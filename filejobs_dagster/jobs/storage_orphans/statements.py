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
# Another ETag, size or time is another object, which begins to be seen now: as in
# `identity.compare`, whose rounding is given. Other rules are another judgement of the same one: it
# has to be confirmed by them from this run on, and has been seen for as long as it has. What failed
# is tried again once its pause is over; a lock that still holds is left alone.
# The range of the keys says nothing new, but keeps the planner from reading every candidate.
RENEW = f"""
WITH held AS (
    SELECT candidate.key, seen.etag, seen.size_bytes, seen.last_modified,
           candidate.etag = seen.etag
           AND candidate.size_bytes = seen.size_bytes
           AND (candidate.last_modified = seen.last_modified
                OR (seen.etag <> ''
                    AND abs(extract(epoch FROM date_trunc('second', candidate.last_modified)
                                               - date_trunc('second', seen.last_modified)))
                        <= %(most_apart)s
                    AND seen.last_modified <= %(at)s - %(old)s)) AS same,
           candidate.fingerprint = %(fingerprint)s AS same_rules,
           candidate.not_before > %(at)s OR setback.not_before > %(at)s AS waits
      FROM {_SEEN}
      JOIN orphan_candidate AS candidate ON candidate.key = seen.key
      LEFT JOIN setback ON setback.job = %(job)s
                       AND setback.place = candidate.bucket
                       AND setback.item = candidate.key
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
       first_seen_run = CASE WHEN held.same AND held.same_rules
                             THEN candidate.first_seen_run ELSE %(run_id)s END,
       sightings      = CASE WHEN held.same THEN candidate.sightings + 1 ELSE 1 END,
       -- The database's clock may have been set back meanwhile.
       last_seen_at   = greatest(%(at)s, CASE WHEN held.same THEN candidate.first_seen_at END),
       last_seen_run  = %(run_id)s,
       fingerprint    = %(fingerprint)s,
       state          = CASE WHEN held.same AND held.waits
                             THEN candidate.state ELSE 'seen' END,
       reason         = CASE WHEN held.same THEN candidate.reason END,
       not_before     = CASE WHEN held.same THEN candidate.not_before END,
       seen_as        = CASE WHEN held.same THEN candidate.seen_as END,
       seen_as_at     = CASE WHEN held.same THEN candidate.seen_as_at END,
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
WITH cleared AS (
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
    RETURNING key
), forgotten AS (
    DELETE FROM setback
     USING cleared
     WHERE setback.job = %(job)s AND setback.place = %(bucket)s AND setback.item = cleared.key
)
SELECT count(*) FROM cleared
"""

_CONFIRMED = """
       bucket = %(bucket)s
   AND state = 'seen'
   AND last_seen_run = %(run_id)s
   AND first_seen_run <> %(run_id)s
   AND first_seen_run <> ALL(%(young_runs)s::text[])
   AND first_seen_at <= %(confirmed_before)s
   AND fingerprint = %(fingerprint)s
"""

# Runs that have first judged since a moment: those of complete passes by the time of the pass, and
# those that ended while they marked by their last sign of life.
YOUNG_RUNS = """
SELECT run_id, at
  FROM orphan_pass
 WHERE bucket = %(bucket)s AND at > %(confirmed_before)s
 UNION ALL
SELECT run_id, heartbeat_at
  FROM job_progress
 WHERE job = %(job)s
   AND heartbeat_at > %(confirmed_before)s
   AND NOT EXISTS (SELECT
                     FROM orphan_pass
                    WHERE bucket = %(bucket)s AND orphan_pass.run_id = job_progress.run_id)
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
# to a key at this moment holds the row, and wins. A version speaks for the orphan once it has been
# there for as long as any orphan must be: until then its writer may still be about to refer to it.
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
RETURNING key, etag, size_bytes, last_modified, first_seen_at, reason,
          CASE WHEN seen_as_at <= %(there_before)s THEN seen_as END
"""  # noqa: S608 (our own text)

# Of the orphans of this pass: those that may be deleted now, those that nobody saw early enough
# before, and of these again those that were seen early enough, and judged by other rules then.
TALLY = f"""
SELECT count(*) FILTER (WHERE is_due),
       coalesce(sum(size_bytes) FILTER (WHERE is_due), 0),
       min(last_modified) FILTER (WHERE is_due),
       min(first_seen_at) FILTER (WHERE is_due),
       count(*) FILTER (WHERE is_waiting),
       coalesce(sum(size_bytes) FILTER (WHERE is_waiting), 0),
       min(greatest(first_seen_at, judged_at)) FILTER (WHERE is_waiting),
       count(*) FILTER (WHERE is_waiting AND first_seen_at <= %(confirmed_before)s),
       min(first_seen_at) FILTER (WHERE is_waiting AND first_seen_at <= %(confirmed_before)s)
  FROM (SELECT size_bytes, last_modified, first_seen_at, young.judged_at, {_CONFIRMED} AS is_due,
               (first_seen_run = %(run_id)s
                OR first_seen_run = ANY(%(young_runs)s::text[])
                OR first_seen_at > %(confirmed_before)s) AS is_waiting
          FROM orphan_candidate
          LEFT JOIN unnest(%(young_runs)s::text[], %(judged_at)s::timestamptz[])
                        AS young (run_id, judged_at) ON young.run_id = first_seen_run
         WHERE key > %(after)s
           AND key <= %(through)s
           AND bucket = %(bucket)s
           AND state = 'seen'
           AND last_seen_run = %(run_id)s) AS seen
"""  # noqa: S608 (our own text)

# Of the orphans of this pass: those that are not tried again yet, by the kind of their reason.
ASIDE = """
SELECT split_part(reason, ':', 1), count(*), min(first_seen_at)
  FROM orphan_candidate
 WHERE key > %(after)s
   AND key <= %(through)s
   AND bucket = %(bucket)s
   AND state = 'failed'
   AND last_seen_run = %(run_id)s
 GROUP BY 1
"""

# The last pass, and one by the present rules that came before one by others: then rules alternate.
ALTERNATION = """
SELECT other.run_id, other.at, other_run.holder, earlier.run_id, earlier.at
  FROM (SELECT run_id, at, fingerprint
          FROM orphan_pass
         WHERE bucket = %(bucket)s AND run_id <> %(run_id)s
         ORDER BY at DESC
         LIMIT 1) AS other
  JOIN LATERAL (SELECT run_id, at
                  FROM orphan_pass
                 WHERE bucket = %(bucket)s
                   AND fingerprint = %(fingerprint)s
                   AND run_id <> %(run_id)s
                   AND at < other.at
                 ORDER BY at DESC
                 LIMIT 1) AS earlier ON true
  LEFT JOIN job_progress AS other_run ON other_run.run_id = other.run_id
 WHERE other.fingerprint <> %(fingerprint)s
"""

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
       seen_as    = coalesce(aside.version, candidate.seen_as),
       seen_as_at = CASE WHEN coalesce(aside.version, candidate.seen_as)
                              IS NOT DISTINCT FROM candidate.seen_as
                         THEN candidate.seen_as_at ELSE clock_timestamp() END,
       intent_at  = NULL,
       intent_run = NULL
  FROM unnest(%(keys)s::bytea[], %(reasons)s::text[], %(not_before)s::timestamptz[],
              %(versions)s::text[])
           AS aside (key, reason, not_before, version)
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

COMPLETE_BEFORE = """
SELECT orphan_pass.run_id, keys_by_source, fingerprint = %(fingerprint)s, objects,
       (SELECT (detail ->> %(read_at)s)::timestamptz
          FROM job_progress
         WHERE job_progress.run_id = orphan_pass.run_id)
  FROM orphan_pass
 WHERE bucket = %(bucket)s
 ORDER BY at DESC
 LIMIT 1
"""

# By each run that took some of what a pass had counted, whichever job it was of.
TAKEN_SINCE = """
SELECT key, sum(value::bigint)::bigint
  FROM job_progress
 CROSS JOIN jsonb_each_text(detail -> %(counted)s -> %(pass)s)
 WHERE detail -> %(counted)s ? %(pass)s
 GROUP BY key
"""

PASSED_BEFORE = """
SELECT EXISTS (SELECT
                 FROM orphan_pass
                WHERE bucket = %(bucket)s
                  AND fingerprint = %(fingerprint)s
                  AND run_id <> %(run_id)s)
"""

# Live runs that could delete by these rules and ended well: a first pass could not, nor could one
# that a bound of nothing stopped. One that was let in and failed has shown nothing.
LET_IN_BEFORE = """
SELECT EXISTS (SELECT
                 FROM (SELECT job, installation, mode, outcome, acted, detail FROM job_run
                        UNION ALL
                       SELECT job, installation, mode, outcome, acted, detail
                         FROM job_progress) AS run
                WHERE job = %(job)s
                  AND installation = %(installation)s
                  AND mode = 'live'
                  AND outcome = 'ok'
                  AND detail ->> 'bucket' = %(name)s
                  AND detail ->> 'fingerprint' = %(fingerprint)s
                  AND detail ->> 'first_pass' = 'false'
                  AND (acted > 0 OR detail ->> 'stopped_reason' IS DISTINCT FROM 'limit'))
"""

# A run may stand in both.
TAKEN_BY_REHEARSAL = """
SELECT coalesce(sum(acted), 0)::bigint
  FROM (SELECT max(acted) AS acted
          FROM (SELECT run_id, job, mode, acted, detail FROM job_run
                 UNION ALL
                SELECT run_id, job, mode, acted, detail FROM job_progress) AS run
         WHERE job = %(job)s
           AND mode = 'live'
           AND detail -> 'let_in' ->> 'hash' = %(hash)s
         GROUP BY run_id) AS once
"""

# By the records of the job: those that know no quarantine have deleted at once.
ADOPTED_AT = """
SELECT max(adopted_at)
  FROM bucket_adoption
 WHERE endpoint = %(endpoint)s
   AND bucket = %(bucket)s
   AND installation = %(installation)s
"""

DELETED_AT_ONCE = """
SELECT EXISTS (SELECT
                 FROM (SELECT job, installation, mode, acted, detail FROM job_run
                        UNION ALL
                       SELECT job, installation, mode, acted, detail FROM job_progress) AS run
                WHERE job = %(job)s
                  AND installation = %(installation)s
                  AND mode = 'live'
                  AND acted > 0
                  AND detail ->> 'bucket' = %(bucket)s
                  AND NOT detail ? 'quarantine')
"""

FIRST_SEEN = """
SELECT key, first_seen_at
  FROM orphan_candidate
 WHERE bucket = %(bucket)s
   AND key = ANY(%(keys)b::bytea[])
"""

# By the index over the keys of events. A copy in quarantine that expired is no object of its own.
# Whether the last that happened to a key is that this job took it: not that another job took it
# with its row, and not that it was given back.
TAKEN = """
SELECT missing.key, last.kind = 'objects.delete.intent' AND last.job = %(job)s
  FROM unnest(%(keys)s::text[]) AS missing (key)
 CROSS JOIN LATERAL (
       SELECT (array_agg(body::jsonb ->> 'kind' ORDER BY seq DESC))[1] AS kind,
              (array_agg(body::jsonb ->> 'job' ORDER BY seq DESC))[1] AS job
         FROM audit_event
        WHERE chain_id = 'collectors'
          AND body LIKE '%%"keys"%%'
          AND body::jsonb -> 'keys' @> jsonb_build_array(missing.key)
          AND body::jsonb ->> 'bucket' = %(bucket)s
          AND (body::jsonb ->> 'kind' = 'objects.restore.result'
               OR (body::jsonb ->> 'kind' = 'objects.delete.intent'
                   AND NOT body::jsonb ? 'quarantine'))) AS last
 WHERE last.kind IS NOT NULL
"""

# What an earlier run marked and judged, as if it had done so even earlier: for rehearsals and the
# demo, on servers of their own. No run sends these.
SET_BACK = (
    """UPDATE orphan_candidate
   SET first_seen_at = first_seen_at - %(by)s, last_seen_at = last_seen_at - %(by)s""",
    "UPDATE orphan_pass SET at = at - %(by)s",
)
