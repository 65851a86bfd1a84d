"""The collector that most people write first: one transaction and one request for each row.

It is what is compared with, and is not safe: it trusts an earlier read, asks nobody whether the
key is still named, leaves no audit event, and a crash shows nowhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

_EXPIRED = """
SELECT id, storage_key
  FROM file
 WHERE state = 'pending'
   AND upload_expires_at < now()
 ORDER BY upload_expires_at
"""


def collect_row_by_row(database_url: str, client: S3Client, bucket: str) -> int:
    """Select, then delete row after row and object after object; return how many."""
    collected = 0
    with psycopg.connect(database_url, autocommit=True) as connection:
        for identity, key in connection.execute(_EXPIRED).fetchall():
            with connection.transaction():
                connection.execute("DELETE FROM file WHERE id = %s", (identity,))
            client.delete_object(Bucket=bucket, Key=key)
            collected += 1
    return collected
