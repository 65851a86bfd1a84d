-- What upload_cleanup could not clean up has its pause where every job's items have theirs. The column
-- that held it says from when a row is due, and until when a claim keeps it.
INSERT INTO setback (job, place, item, attempts, not_before, reason)
SELECT 'upload_cleanup', 'upload', convert_to(id::text, 'UTF8'), greatest(1, attempts - forgiven),
       next_attempt_at, coalesce(last_error, 'it failed before')
  FROM upload
 WHERE state = 'cleanup' AND dead_at IS NULL AND claimed_by IS NULL AND attempts > 0
   AND next_attempt_at > now()
    ON CONFLICT DO NOTHING;

UPDATE upload
   SET next_attempt_at = now()
 WHERE state = 'cleanup' AND dead_at IS NULL AND claimed_by IS NULL AND attempts > 0
   AND next_attempt_at > now();

COMMENT ON COLUMN upload.next_attempt_at IS
    'Not to be looked at before (cleanup, uncertain); a claim moves it to its end. What failed has '
    'its pause in setback.';
