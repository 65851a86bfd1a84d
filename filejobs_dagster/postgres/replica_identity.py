"""Published tables from which PostgreSQL refuses to delete, known before anything is tried."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    import psycopg
    from psycopg.rows import TupleRow

# Each row that goes must be told to the subscribers by its replica identity, and the leaf of a
# partitioned table needs its own. A publication names a leaf, what it is part of, or everything.
_REFUSING = """
WITH leaf AS (
    SELECT pg_class.oid, relreplident, nspname, relname
      FROM unnest($1::oid[]) AS asked (oid)
     CROSS JOIN LATERAL (SELECT asked.oid UNION
                         SELECT relid FROM pg_partition_tree(asked.oid) WHERE isleaf) AS part (oid)
      JOIN pg_class ON pg_class.oid = part.oid
      JOIN pg_namespace ON pg_namespace.oid = relnamespace
     WHERE relkind = 'r' AND relpersistence = 'p')
SELECT DISTINCT leaf.nspname || '.' || leaf.relname AS name, pubname
  FROM leaf
 CROSS JOIN LATERAL (SELECT leaf.oid UNION SELECT relid FROM pg_partition_ancestors(leaf.oid))
       AS above (oid)
  JOIN pg_class ON pg_class.oid = above.oid
  JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
  JOIN pg_publication_tables ON schemaname = pg_namespace.nspname AND tablename = pg_class.relname
  JOIN pg_publication USING (pubname)
 WHERE (pubdelete OR pubupdate AND $2)
   AND CASE leaf.relreplident
           WHEN 'd' THEN NOT EXISTS (SELECT FROM pg_index
                                      WHERE indrelid = leaf.oid AND indisprimary)
           WHEN 'i' THEN NOT EXISTS (SELECT FROM pg_index
                                      WHERE indrelid = leaf.oid AND indisreplident)
           ELSE leaf.relreplident = 'n'
       END
 ORDER BY name, pubname
"""

HINT = (
    "set REPLICA IDENTITY using ALTER TABLE: a primary key, ALTER TABLE … REPLICA IDENTITY USING "
    "INDEX …, or FULL"
)
"""PostgreSQL's own hint, and the ways to follow it."""


def refusing(
    cursor: psycopg.RawCursor[TupleRow], tables: Collection[int], *, updates: bool
) -> list[str]:
    """The tables that PostgreSQL will refuse to delete from, each with its publication, in words.

    Args:
        cursor: In a transaction of any kind; nothing is written.
        tables: Object identifiers; of a partitioned table its leaves are asked about.
        updates: Whether rows are updated as well.
    """
    cursor.execute(_REFUSING, (list(tables), updates))
    return [
        f"{name} is published by {publication} and has no replica identity"
        for name, publication in cursor.fetchall()
    ]
