"""What refers to a rule's table, and what is deleted with its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from filejobs_dagster.jobs.table_retention.own import own_tables
from filejobs_dagster.jobs.table_retention.refused import RuleRefused
from filejobs_dagster.jobs.table_retention.target import ForeignKey, Relation

if TYPE_CHECKING:
    from filejobs_dagster.jobs.table_retention.session import Raw

_ACTIONS = {
    "a": "refuses",
    "r": "refuses",
    "c": "cascades",
    "n": "set null",
    "d": "set default",
}

# A foreign key on a partitioned table has copies on the partitions; the copies name it as parent.
_REFERRING = """
SELECT conname, conrelid, nspname, relname, confdeltype::text,
       (SELECT attname FROM pg_attribute WHERE attrelid = conrelid AND attnum = conkey[1]),
       EXISTS (SELECT FROM pg_index
                WHERE indrelid = conrelid AND indisvalid AND indpred IS NULL
                  AND indkey[0] = ANY(conkey))
  FROM pg_constraint
  JOIN pg_class ON pg_class.oid = conrelid
  JOIN pg_namespace ON pg_namespace.oid = relnamespace
 WHERE contype = 'f' AND conparentid = 0
   AND confrelid IN (SELECT $1::oid
                      UNION ALL SELECT relid FROM pg_partition_tree($1)
                      UNION ALL SELECT relid FROM pg_partition_ancestors($1) AS above (relid))
 ORDER BY nspname, relname, conname
"""

# Every table whose rows a deletion changes by way of foreign keys, however long the way is.
_CHANGED_WITH_IT = """
WITH RECURSIVE changed (oid) AS (
    (SELECT $1::oid UNION SELECT relid FROM pg_partition_tree($1))
     UNION
    SELECT conrelid
      FROM pg_constraint JOIN changed ON confrelid = changed.oid
     WHERE contype = 'f' AND confdeltype IN ('c', 'n', 'd')
)
SELECT nspname, relname
  FROM changed
  JOIN pg_class USING (oid)
  JOIN pg_namespace ON pg_namespace.oid = relnamespace
 WHERE relname = ANY($2::text[])
   AND EXISTS (SELECT FROM pg_class AS installation
                WHERE installation.relnamespace = pg_class.relnamespace
                  AND installation.relname = 'filejobs_migration')
 LIMIT 1
"""


def foreign_keys_to(cursor: Raw, table: Relation) -> tuple[ForeignKey, ...]:
    """The foreign keys that refer to a table or to a partition of it."""
    cursor.execute(_REFERRING, (table.oid,))
    return tuple(
        ForeignKey(
            str(name),
            Relation(int(oid), str(schema), str(relation)),
            str(column),
            _ACTIONS[action],
            bool(indexed),
        )
        for name, oid, schema, relation, action, column, indexed in cursor.fetchall()
    )


def refuse_reaching_own_tables(cursor: Raw, table: Relation) -> None:
    """Make sure that no foreign key takes rows of the project's tables along.

    Raises:
        RuleRefused: One does: a row of `file` would go, and its bytes would stay.
    """
    cursor.execute(_CHANGED_WITH_IT, (table.oid, list(own_tables())))
    row = cursor.fetchone()
    if row is not None:
        raise RuleRefused(
            f"deleting from {table} would change rows of {row[0]}.{row[1]}, by a foreign key with "
            "ON DELETE CASCADE, SET NULL or SET DEFAULT",
            "let that foreign key refuse the deletion (ON DELETE RESTRICT)",
        )
