-- Queries over job_run that look right and are not, each beside the one that is. Set the search
-- path to the schema of the project's tables first.

-- WRONG: a job without any row has max() NULL, NULL is not older than anything, and it is left out.
SELECT expected.job
  FROM unnest(ARRAY['upload_reservations', 'audit_seal']) AS expected (job)
  LEFT JOIN job_run ON job_run.job = expected.job AND job_run.outcome = 'ok'
 GROUP BY expected.job
HAVING max(job_run.finished_at) < now() - interval '2 hours';

-- Right: begin with the jobs that you expect, ask for NULL, and count only what swept.
SELECT expected.job, max(job_run.finished_at) AS last_sweep
  FROM unnest(ARRAY['upload_reservations', 'audit_seal']) AS expected (job)
  LEFT JOIN job_run
         ON job_run.job = expected.job
        AND job_run.installation = 'acme-production'
        AND job_run.outcome = 'ok'
        AND job_run.mode = 'live'
        AND job_run.detail #>> '{window,covers}' = 'everything'
 GROUP BY expected.job
HAVING max(job_run.finished_at) IS NULL
    OR max(job_run.finished_at) < now() - interval '2 hours';

-- WRONG: runs that decided nothing vanish in the sum, and a week of failures reads 0.
SELECT coalesce(sum(acted), 0)
  FROM job_run
 WHERE job = 'upload_reservations' AND finished_at > now() - interval '7 days';

-- Right: say how many runs are not in the number.
SELECT count(*) AS runs,
       count(*) FILTER (WHERE outcome = 'failed') AS failed,
       count(*) FILTER (WHERE acted IS NULL) AS decided_nothing,
       sum(acted) AS collected
  FROM job_run
 WHERE installation = 'acme-production'
   AND job = 'upload_reservations'
   AND mode = 'live'
   AND finished_at > now() - interval '7 days';

-- Also: order by finished_at, then id, since id is the order of recording. outcome = 'ok' is no
-- sweep of everything: detail ->> 'swept' is. detail ->> 'bytes_freed' is null in a run that did
-- not measure.
