"""The SQL of the job: rows of `upload` that were cleaned lately and had a multipart upload."""

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
