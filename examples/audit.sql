-- Questions to the audit chains, for a role that may read audit_event. Set the search path to the
-- schema of the project's tables first. All read whole chains: on long ones, add a condition on
-- seq or recorded_at.

-- Keys of an intent without a result: their rows are gone, their objects may be there. A run that
-- is at work shows its current batch here, too.
SELECT intent.seq, intent.recorded_at, intent.body::jsonb ->> 'run_id' AS run_id,
       intent.body::jsonb ->> 'bucket' AS bucket, key
  FROM audit_event AS intent
 CROSS JOIN LATERAL jsonb_array_elements_text(intent.body::jsonb -> 'keys') AS key
 WHERE intent.chain_id = 'collectors'
   AND intent.body::jsonb ->> 'kind' = 'objects.delete.intent'
   AND NOT EXISTS (
        SELECT
          FROM audit_event AS result
         WHERE result.chain_id = intent.chain_id
           AND result.seq > intent.seq
           AND result.body::jsonb ->> 'kind' = 'objects.delete.result'
           AND result.body::jsonb ->> 'run_id' = intent.body::jsonb ->> 'run_id'
           AND result.body::jsonb ->> 'batch' = intent.body::jsonb ->> 'batch')
 ORDER BY intent.seq;

-- Objects that storage refused, or did not answer for.
SELECT result.seq, result.recorded_at, result.body::jsonb -> 'failed' AS failed,
       result.body::jsonb -> 'left' AS left_without_answer
  FROM audit_event AS result
 WHERE result.chain_id = 'collectors'
   AND result.body::jsonb ->> 'kind' = 'objects.delete.result'
   AND (result.body::jsonb -> 'failed' <> '{}' OR result.body::jsonb ? 'left')
 ORDER BY result.seq;

-- Every link of every chain, computed anew: no row where all hold. Where something was trimmed,
-- the first event that is left is named.
WITH linked AS (
    SELECT event.*,
           lag(event.hash, 1, chain.genesis)
               OVER (PARTITION BY event.chain_id ORDER BY event.seq) AS expected_prev,
           lag(event.seq, 1, 0::bigint)
               OVER (PARTITION BY event.chain_id ORDER BY event.seq) + 1 AS expected_seq
      FROM audit_event AS event
      JOIN audit_chain AS chain USING (chain_id)
)
SELECT chain_id, seq
  FROM linked
 WHERE seq <> expected_seq
    OR prev_hash <> expected_prev
    OR body_hash <> sha256(convert_to(body, 'UTF8'))
    OR hash <> sha256(convert_to('filejobs/audit/event' || chr(10), 'UTF8')
                      || int2send(alg) || sha256(convert_to(chain_id, 'UTF8'))
                      || int8send(seq) || timestamptz_send(recorded_at)
                      || prev_hash || body_hash)
 ORDER BY chain_id, seq;

-- Events that were cut off at the end: no row where the head is the last event.
SELECT chain.chain_id, chain.head_seq, newest.seq AS last_event_seq
  FROM audit_chain AS chain
  LEFT JOIN LATERAL (
        SELECT seq, hash
          FROM audit_event
         WHERE audit_event.chain_id = chain.chain_id
         ORDER BY seq DESC
         LIMIT 1) AS newest ON true
 WHERE chain.head_seq <> coalesce(newest.seq, 0)
    OR chain.head_hash <> coalesce(newest.hash, chain.genesis);
