"""Which tables no rule may name: the project's own, and logs whose rows are chained."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from filejobs_dagster.postgres.migrate import shipped

if TYPE_CHECKING:
    from filejobs_dagster.jobs.table_retention.session import Raw

_MADE = re.compile(r"^CREATE TABLE (?:IF NOT EXISTS )?([a-z_]+)", re.MULTILINE)

_BEFORE = "(?:prev|previous|prior|preceding|parent)"
_HASH = "(?:hash|sha256|digest|hmac)"
_PREVIOUS_HASH = re.compile(
    rf"{_BEFORE}_?(?:row_|event_|entry_|record_)?{_HASH}|{_HASH}_?(?:of_)?{_BEFORE}"
    rf"|(?:chain|chained|link)_?{_HASH}"
)
"""A column by which each row of a log vouches for the one before it."""

# A schema with a table filejobs_migration is that of an installation, this one or another. The
# relatives of a table are its partitions, what it is a partition of, and so on: what a rule on one
# of them deletes, it deletes from all.
_OWN_RELATIVES = """
WITH RECURSIVE relative (oid) AS (
    SELECT $1::oid
     UNION
    SELECT CASE WHEN inhrelid = relative.oid THEN inhparent ELSE inhrelid END
      FROM pg_inherits JOIN relative ON relative.oid IN (inhrelid, inhparent)
)
SELECT nspname, relname
  FROM relative
  JOIN pg_class USING (oid)
  JOIN pg_namespace ON pg_namespace.oid = relnamespace
 WHERE relname = ANY($2::text[])
   AND EXISTS (SELECT FROM pg_class AS installation
                WHERE installation.relnamespace = pg_class.relnamespace
                  AND installation.relname = 'filejobs_migration')
 ORDER BY 1, 2
 LIMIT 1
"""

_COLUMNS = """
SELECT attname FROM pg_attribute WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped
"""


@cache
def own_tables() -> tuple[str, ...]:
    """The tables that the migrations make, and their own record."""
    made = {name for migration in shipped() for name in _MADE.findall(migration.text)}
    return tuple(sorted(made | {"filejobs_migration"}))


def own_relative(cursor: Raw, table: int) -> str | None:
    """A table of the project's that rows of this one are rows of, or None.

    Args:
        cursor: In any transaction.
        table: Its object identifier: by which name a rule calls it does not matter.
    """
    cursor.execute(_OWN_RELATIVES, (table, list(own_tables())))
    row = cursor.fetchone()
    return None if row is None else f"{row[0]}.{row[1]}"


def chained_by(cursor: Raw, table: int) -> str | None:
    """The column by which the table's rows are chained, or None."""
    cursor.execute(_COLUMNS, (table,))
    names = [str(row[0]) for row in cursor.fetchall()]
    return next((name for name in names if _PREVIOUS_HASH.fullmatch(name.lower())), None)
