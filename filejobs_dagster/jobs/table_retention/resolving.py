"""From a rule to its table, as the database knows it; or the reason why it is refused.

No rule may name the project's own tables or a log whose rows are chained. What refers to the table,
and what goes with its rows, is found here.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

import psycopg

from filejobs_dagster.jobs.table_retention import partitions
from filejobs_dagster.jobs.table_retention.target import (
    Child,
    Column,
    Dangling,
    ForeignKey,
    Relation,
    RuleRefused,
    Target,
)
from filejobs_dagster.postgres.migrate import shipped
from filejobs_dagster.postgres.replica_identity import refusing
from filejobs_dagster.settings.conditions import columns_of, name_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from filejobs_dagster.jobs.table_retention.settings import RetentionRuleSettings
    from filejobs_dagster.jobs.table_retention.target import Raw

# Which tables no rule may name: the project's own, and logs whose rows are chained.

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

_OWN_COLUMNS = """
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
    cursor.execute(_OWN_COLUMNS, (table,))
    names = [str(row[0]) for row in cursor.fetchall()]
    return next((name for name in names if _PREVIOUS_HASH.fullmatch(name.lower())), None)


# What refers to a rule's table, and what is deleted with its rows.

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


_TABLE = """
SELECT pg_class.oid, nspname, relname, relkind::text, pg_has_role(relowner, 'USAGE'),
       ARRAY(SELECT privilege
               FROM unnest(ARRAY['SELECT', 'UPDATE', 'DELETE']) AS needed (privilege)
              WHERE NOT has_table_privilege(pg_class.oid, privilege)),
       EXISTS (SELECT FROM pg_inherits JOIN pg_class AS heir ON heir.oid = inhrelid
                WHERE inhparent = pg_class.oid AND NOT heir.relispartition),
       EXISTS (SELECT FROM pg_rewrite WHERE ev_class = pg_class.oid AND ev_type IN ('2', '4')),
       EXISTS (SELECT FROM pg_partition_tree(pg_class.oid)
                 JOIN pg_trigger ON tgrelid = relid
                WHERE NOT tgisinternal AND tgtype & 8 > 0),
       (SELECT relid::regclass::text
          FROM pg_partition_tree(pg_class.oid) JOIN pg_class AS part ON part.oid = relid
         WHERE part.relkind = 'f' LIMIT 1)
  FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
 WHERE pg_class.oid = to_regclass($1)
"""

_KINDS = {
    "v": "a view", "m": "a materialized view", "f": "a foreign table", "S": "a sequence",
    "i": "an index", "I": "an index", "c": "a type",
}  # fmt: skip

# Of a domain, what it is made of.
_COLUMNS = """
SELECT attname,
       format_type(coalesce(nullif(typbasetype, 0), atttypid),
                   CASE WHEN typbasetype = 0 THEN atttypmod ELSE typtypmod END),
       attnotnull OR typnotnull, attgenerated::text
  FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid
 WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped
"""

# The primary key, or a unique index that can stand for it: whole, checked at once, without NULL.
_KEY = """
SELECT array_agg(attname::text ORDER BY place)
  FROM pg_index
 CROSS JOIN LATERAL unnest(indkey::int2[]) WITH ORDINALITY AS part (attnum, place)
  LEFT JOIN pg_attribute ON attrelid = indrelid AND pg_attribute.attnum = part.attnum
 WHERE indrelid = $1 AND indisunique AND indisvalid AND indimmediate
   AND indpred IS NULL AND indexprs IS NULL AND place <= indnkeyatts
 GROUP BY indexrelid, indisprimary
HAVING bool_and(attnotnull)
 ORDER BY indisprimary DESC, count(*), indexrelid
 LIMIT 1
"""

_PARTITIONED_BY = """
SELECT attname
  FROM pg_partition_tree($1)
  JOIN pg_partitioned_table ON partrelid = relid
 CROSS JOIN LATERAL unnest(partattrs::int2[]) AS part (attnum)
  JOIN pg_attribute ON attrelid = partrelid AND pg_attribute.attnum = part.attnum
"""


# DETACH … CONCURRENTLY was cut off: nobody sees these rows through the table any more.
_PENDING = """
SELECT above.nspname || '.' || parent.relname, below.nspname || '.' || part.relname
  FROM (SELECT $1::oid AS oid UNION SELECT relid FROM pg_partition_tree($1)) AS tree
  JOIN pg_inherits ON inhparent = tree.oid AND inhdetachpending
  JOIN pg_class AS parent ON parent.oid = inhparent
  JOIN pg_namespace AS above ON above.oid = parent.relnamespace
  JOIN pg_class AS part ON part.oid = inhrelid
  JOIN pg_namespace AS below ON below.oid = part.relnamespace
"""


def resolve(cursor: Raw, rule: RetentionRuleSettings) -> Target:
    """Look up everything that the rule's statements need.

    Args:
        cursor: In a transaction with the role's own search path.
        rule: The rule.

    Raises:
        RuleRefused: There is no such table or column, or the rule would be unsafe there.
    """
    table, facts = table_named(cursor, rule.table)
    columns = columns_in(cursor, table)
    time = _time(cursor, table, columns, rule)
    key = _key(cursor, table, columns)
    refuse_reaching_own_tables(cursor, table)
    children = list(_children(cursor, rule, table, key))
    dangling, unlocked = _dangling(cursor, rule, table, columns)
    foreign_keys = foreign_keys_to(cursor, table)
    changed = [table, *(child.relation for child, _ in children)]
    changed += [key.relation for key in foreign_keys if key.action != "refuses"]
    return Target(
        rule=rule,
        table=table,
        partitioned=facts["kind"] == "p",
        time=time,
        key=key,
        scrub=_scrubbed(cursor, table, columns, rule, key),
        children=tuple(child for child, _ in children),
        dangling=dangling,
        foreign_keys=foreign_keys,
        lacking=tuple(
            f"{privilege} on {relation}"
            for relation, missing in [
                (table, facts["lacking"]),
                # Rows of a child are not locked first, so that UPDATE is not needed.
                *((child.relation, missing - {"UPDATE"}) for child, missing in children),
                *unlocked,
            ]
            for privilege in sorted(missing)
        ),
        unidentified=tuple(
            refusing(
                cursor,
                [relation.oid for relation in changed],
                updates=bool(rule.scrub) or len(changed) > 1,
            )
        ),
        pending=_pending(cursor, table),
        owned=facts["owned"],
        delete_triggers=facts["triggers"],
    )


def _pending(cursor: Raw, table: Relation) -> tuple[str, ...]:
    cursor.execute(_PENDING, (table.oid,))
    return tuple(
        f"ALTER TABLE {parent} DETACH PARTITION {part} FINALIZE"
        for parent, part in cursor.fetchall()
    )


def table_named(cursor: Raw, written: str) -> tuple[Relation, dict[str, Any]]:
    """The table that settings name, with its kind and what the role lacks on it.

    Raises:
        RuleRefused: There is none, or rows of it must not be deleted by any settings.
    """
    cursor.execute(_TABLE, (written,))
    row = cursor.fetchone()
    if row is None:
        cursor.execute("SELECT current_user, current_setting('search_path')")
        role, path = cursor.fetchone() or ("", "")
        raise RuleRefused(
            f"there is no table {written} for the role {role}, whose search path is {path}",
            "name the schema as well, and GRANT USAGE on it",
        )
    oid, schema, name, kind, owned, lacking, heirs, rules, triggers, foreign = row
    table = Relation(int(oid), str(schema), str(name))
    own = own_relative(cursor, table.oid)
    if own is not None:
        raise RuleRefused(
            f"{written} is {own}, a table of this project's, which its own jobs look after",
            "take the rule out; audit_trim shortens the audit log, and job_run is kept",
        )
    if kind not in ("r", "p"):
        raise RuleRefused(
            f"{table} is {_KINDS.get(kind, 'no table')}", "name the table that holds the rows"
        )
    if schema in ("pg_catalog", "information_schema"):
        raise RuleRefused(f"{table} is a table of PostgreSQL's own", "take the rule out")
    chain = chained_by(cursor, table.oid)
    if chain is not None:
        raise RuleRefused(
            f"{table} looks like a chained log: its column {chain} names the row before, and "
            "without its beginning the chain proves nothing",
            "shorten such a log with what wrote the chain",
        )
    if heirs:
        raise RuleRefused(
            f"other tables inherit from {table}, and its primary key does not cover their rows",
            "write a rule for each of them, or make them partitions",
        )
    if rules:
        raise RuleRefused(
            f"{table} has a RULE on DELETE or UPDATE, which changes what a statement does",
            "use a trigger instead",
        )
    if foreign is not None:
        raise RuleRefused(
            f"the partition {foreign} of {table} is a foreign table, whose rows are elsewhere",
            "write rules for the other partitions",
        )
    if "SELECT" in lacking:
        raise RuleRefused(
            f"the role lacks SELECT on {table}", f"GRANT SELECT ON {table} to the role of the jobs"
        )
    return table, {"kind": kind, "owned": owned, "lacking": set(lacking), "triggers": triggers}


def columns_in(cursor: Raw, table: Relation) -> dict[str, tuple[str, bool, bool]]:
    """Each column with its type, and whether it is NOT NULL and generated."""
    cursor.execute(_COLUMNS, (table.oid,))
    return {
        str(name): (str(kind), bool(not_null), bool(generated))
        for name, kind, not_null, generated in cursor.fetchall()
    }


def column_named(table: Relation, columns: Iterable[str], written: str) -> str:
    """The name of a column as the catalog has it.

    Raises:
        RuleRefused: The table has no such column.
    """
    name = name_of(written)
    if name not in columns:
        raise RuleRefused(
            f"{table} has no column {name}",
            "write one that it has; a name with capital letters in double quotes: '\"sentAt\"'",
        )
    return name


def _time(
    cursor: Raw,
    table: Relation,
    columns: dict[str, tuple[str, bool, bool]],
    rule: RetentionRuleSettings,
) -> Column:
    name = column_named(table, columns, rule.time)
    column = Column(name, columns[name][0])
    kind = partitions.kind_of(column)
    if kind is None:
        raise RuleRefused(
            f"{table}.{name} is of type {column.type}",
            "a time is a timestamptz, a timestamp or a date; a `rule` of own_jobs reads numbers, "
            "texts and UUIDs of version 7 as well, by its due_as",
        )
    if kind == partitions.TIMESTAMP and rule.time_zone is None:
        raise RuleRefused(
            f"{table}.{name} is a timestamp without time zone, and the rule does not say in which "
            "zone it is written",
            "add time_zone: UTC, or the zone of whoever writes it",
        )
    if kind == partitions.TIMESTAMPTZ and rule.time_zone is not None:
        raise RuleRefused(
            f"{table}.{name} has a time zone of its own", "take time_zone out of the rule"
        )
    _require_zone(cursor, rule.time_zone)
    return column


def _require_zone(cursor: Raw, zone: str | None) -> None:
    if zone is None:
        return
    try:
        cursor.execute("SELECT now() AT TIME ZONE $1", (zone,))
    except psycopg.errors.InvalidParameterValue:
        raise RuleRefused(
            f"PostgreSQL knows no time zone {zone}", "write UTC, or a name of the IANA list"
        ) from None


def _key(
    cursor: Raw, table: Relation, columns: dict[str, tuple[str, bool, bool]]
) -> tuple[Column, ...]:
    cursor.execute(_KEY, (table.oid,))
    row = cursor.fetchone()
    if row is None:
        raise RuleRefused(
            f"{table} has no primary key, and no unique index that can stand for it",
            "add one: rows are taken in batches by their key",
        )
    return tuple(Column(name, columns[name][0]) for name in row[0])


def _scrubbed(
    cursor: Raw,
    table: Relation,
    columns: dict[str, tuple[str, bool, bool]],
    rule: RetentionRuleSettings,
    key: tuple[Column, ...],
) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(column_named(table, columns, written) for written in rule.scrub))
    cursor.execute(_PARTITIONED_BY, (table.oid,))
    fixed = {column.name for column in key} | {str(row[0]) for row in cursor.fetchall()}
    for name in names:
        _, not_null, generated = columns[name]
        if not_null or generated or name in fixed:
            what = "NOT NULL" if not_null else "generated" if generated else "part of a key"
            raise RuleRefused(
                f"{table}.{name} cannot be scrubbed: it is {what}",
                "name columns that may become NULL",
            )
    return names


def _children(
    cursor: Raw, rule: RetentionRuleSettings, table: Relation, key: tuple[Column, ...]
) -> Iterable[tuple[Child, set[str]]]:
    if rule.children and len(key) != 1:
        raise RuleRefused(
            f"the rule has children, and the key of {table} has {len(key)} columns",
            "let a foreign key with ON DELETE CASCADE take the children",
        )
    for child in rule.children:
        relation, facts = table_named(cursor, child.table)
        if relation.oid == table.oid:
            raise RuleRefused(
                f"{table} is a child of its own",
                "let a foreign key with ON DELETE CASCADE take the rows below a row",
            )
        refuse_reaching_own_tables(cursor, relation)
        columns = columns_in(cursor, relation)
        name = column_named(relation, columns, child.column)
        yield Child(relation, Column(name, columns[name][0])), facts["lacking"]


_CONTENT_TYPE = "content_type_id"
"""What Django calls the column that says of which table an object_id is."""


def _dangling(
    cursor: Raw,
    rule: RetentionRuleSettings,
    table: Relation,
    columns: dict[str, tuple[str, bool, bool]],
) -> tuple[Dangling | None, list[tuple[Relation, set[str]]]]:
    """What the rows name, and what the role lacks to keep others from writing there."""
    if rule.dangling is None:
        return None, []
    name = column_named(table, columns, rule.dangling.column)
    column = Column(name, columns[name][0])
    beside = (re.sub("_id$", "", name) + "_type", _CONTENT_TYPE)
    kinds = [each for each in beside if each in columns and each != name]
    looked_at = columns_of(rule.where) if rule.where is not None else set()
    for kind in kinds:
        if kind not in looked_at:
            raise RuleRefused(
                f"{table}.{kind} says of which table {name} is an id, and `where` does not look "
                "at it: a row that names one of another table would be taken for dangling",
                f"add it to `where`: {kind} = 'Message'",
            )
    named, unlocked = [], []
    for other in rule.dangling.nowhere_in:
        relation, facts = table_named(cursor, other.table)
        theirs = columns_in(cursor, relation)
        wanted = column_named(relation, theirs, other.column)
        if _compared_as(theirs[wanted][0]) != _compared_as(column.type):
            raise RuleRefused(
                f"{table}.{name} is of type {column.type}, and {relation}.{wanted} of type "
                f"{theirs[wanted][0]}: 7 and 007 would be two ids",
                "let a generated column hold the id in the type of the other table",
            )
        named.append(Child(relation, Column(wanted, theirs[wanted][0])))
        unlocked.append((relation, facts["lacking"] - {"DELETE"}))
    named.sort(key=lambda each: each.relation.oid)
    says = Column(kinds[0], columns[kinds[0]][0]) if kinds else None
    return Dangling(column, tuple(named), says), unlocked


def _compared_as(written: str) -> str:
    """What values of a type are compared as, without loss."""
    bare = re.sub(r"\(.*\)", "", written)
    if bare in ("smallint", "integer", "bigint", "numeric"):
        return "a number"
    return "a text" if bare in ("text", "character varying") else written
