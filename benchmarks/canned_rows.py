"""The data of a sweep: the rows that name the objects of the canned bucket, but for the orphans."""

from __future__ import annotations

import psycopg

from benchmarks.canned_listing import Keys

FOLDERS = 8

# A row for each object; an orphan's row names another key of the same folder, so that there are as
# many references as objects, and each of these meets no object. Rows lie in no order, as in a
# table that an application fills: their keys must be sorted by whoever compares them.
_LOAD = """
INSERT INTO file (id, state, storage_key)
SELECT lpad(to_hex(place), 32, '0')::uuid,
       'ready',
       format('files/%%s/%%s-%%s.bin%%s',
              lpad(to_hex(place / %(each)s), 2, '0'),
              lpad((place %% %(each)s)::text, 12, '0'),
              md5((place %% %(each)s)::text),
              CASE WHEN place * 37 %% 100 < %(share)s THEN '.elsewhere' ELSE '' END)
  FROM generate_series(0, %(objects)s::bigint - 1) AS place
 ORDER BY hashint8(place)
"""
_WITHOUT_CONSTRAINT = "ALTER TABLE file DROP CONSTRAINT file_storage_key_unique"
_WITH_CONSTRAINT = "ALTER TABLE file ADD CONSTRAINT file_storage_key_unique UNIQUE (storage_key)"


def refer(database_url: str, objects: int, share: int) -> int:
    """Fill the table `file`.

    Args:
        database_url: A migrated database with an empty table.
        objects: Of the bucket, in `FOLDERS` folders.
        share: Of a hundred objects, so many are orphans; 37 and 100 have no common divisor, so
            they lie scattered.

    Returns:
        How many orphans there are.
    """
    each = Keys(objects, FOLDERS).each
    with psycopg.connect(database_url) as connection:
        connection.execute("SET LOCAL synchronous_commit = off")
        # Built at once, an index of ten million keys takes seconds instead of minutes.
        connection.execute(_WITHOUT_CONSTRAINT)
        connection.execute("ALTER TABLE file DISABLE TRIGGER USER")
        connection.execute(_LOAD, {"each": each, "share": share, "objects": objects})
        connection.execute("ALTER TABLE file ENABLE TRIGGER USER")
        connection.execute(_WITH_CONSTRAINT)
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE file")
    return sum(1 for place in range(objects) if place * 37 % 100 < share)
