"""The SQL of the job: rows of `upload` that have a multipart upload, or had one lately."""

from __future__ import annotations

# Along the index upload_cleaned; rows of single PUTs are few beside what is read anyway.
CLEANED = """
SELECT cleaned_at, id, storage_key, upload_id
  FROM upload
 WHERE state = 'cleaned'
   AND cleaned_at >= %(since)s
   AND cleaned_at < %(until)s
   AND (cleaned_at, id) > (%(after_at)s, %(after_id)s)
   AND upload_id IS NOT NULL
 ORDER BY cleaned_at, id
 LIMIT %(most)s
"""

# Of the uploads that the server lists, those that are asked for by the id of their row.
CLEANED_OF = """
SELECT storage_key, upload_id
  FROM upload
 WHERE storage_key = any(%(keys)s)
   AND state = 'cleaned'
   AND cleaned_at >= %(since)s
   AND cleaned_at < %(until)s
   AND upload_id IS NOT NULL
"""

# Along the small indexes of each state; whoever began last is the likeliest to be there still.
AT_WORK = """
SELECT storage_key, upload_id
  FROM upload
 WHERE state IN ('writing', 'uncertain', 'cleanup')
   AND upload_id IS NOT NULL
 ORDER BY activity_at DESC
 LIMIT %(most)s
"""
