"""What run_history asks our own database."""

from __future__ import annotations

RECORDED = """
SELECT run_id, finished_at
  FROM job_run
 WHERE run_id = ANY(%(run_ids)s)
   AND installation = %(installation)s
"""

# Both are set in one transaction, but only the record is for ever: it alone makes the row needless.
OLD_PROGRESS = """
SELECT progress.run_id, progress.closed_at
  FROM job_progress AS progress
 WHERE progress.installation = %(installation)s
   AND progress.closed_at < %(cutoff)s
   AND (progress.closed_at, progress.run_id) > (%(closed_at)s, %(run_id)s)
   AND EXISTS (SELECT FROM job_run WHERE job_run.run_id = progress.run_id)
 ORDER BY progress.closed_at, progress.run_id
 LIMIT %(limit)s
"""

REMOVE_PROGRESS = """
DELETE FROM job_progress AS progress
 WHERE progress.run_id = ANY(%(run_ids)s)
   AND progress.installation = %(installation)s
   AND progress.closed_at < %(cutoff)s
   AND EXISTS (SELECT FROM job_run WHERE job_run.run_id = progress.run_id)
"""
