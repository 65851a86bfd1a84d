"""What the migrations made, and whether it is still there: tables, constraints, triggers, rules.

The jobs rely on what the database refuses: a key whose object is about to be deleted, a row of the
audit log that changes, an upload that comes back from cleanup. A trigger that is off refuses
nothing, and nobody notices. `inventory.json` says what a fresh migration leaves in the catalog; a
test makes it again and compares. What operators add to these tables is theirs, and is not looked
at.

Facts are compared, never the texts of definitions: each version of PostgreSQL spells those in its
own way.
"""

from __future__ import annotations

import json
import re
from collections import deque
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from filejobs_dagster.postgres.connect import one
from filejobs_dagster.postgres.migrate import shipped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import psycopg
    from psycopg.rows import TupleRow

FILE = "inventory.json"

SETTING = "setting"
TABLE = "table"
COLUMN = "column"
KINDS = (
    SETTING, TABLE, "trigger", "rule", "function", "constraint", "unique index", COLUMN,
)  # fmt: skip
"""In the order in which they are told: first what keeps files from being lost."""

# A fact that is false or null in a fresh migration is not demanded: operators may tighten.
_CATALOG = """
WITH own AS (
    SELECT oid, relname::text AS name, relkind, relpersistence
      FROM pg_class
     WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %(schema)s)
       AND relkind IN ('r', 'p', 'v', 'm', 'f')
       AND (%(tables)s::text[] IS NULL OR relname = ANY(%(tables)s::text[]))
)
SELECT 'table', name, name,
       jsonb_build_object('ordinary', relkind IN ('r', 'p'), 'logged', relpersistence = 'p')
  FROM own
 UNION ALL
SELECT 'column', own.name, attname,
       jsonb_build_object('type', format_type(atttypid, atttypmod),
                          'collation', (SELECT collname FROM pg_collation
                                         WHERE pg_collation.oid = attcollation),
                          'not_null', attnotnull,
                          'filled', atthasdef)
  FROM own
  JOIN pg_attribute ON attrelid = own.oid AND attnum > 0 AND NOT attisdropped
 UNION ALL
SELECT 'constraint', own.name, conname,
       jsonb_build_object('type', contype,
                          'columns', ARRAY(SELECT attname::text
                                             FROM unnest(conkey) WITH ORDINALITY AS at (number, nth)
                                             JOIN pg_attribute ON attrelid = conrelid
                                                              AND attnum = number
                                            -- In a key the order says something.
                                            ORDER BY CASE contype WHEN 'c' THEN attname END, nth),
                          'refers_to', (SELECT relname FROM pg_class
                                         WHERE pg_class.oid = confrelid),
                          'on_delete', nullif(confdeltype, ' '),
                          'validated', convalidated,
                          -- A column that PostgreSQL 18 has brought; before, the name means the
                          -- value beside.
                          'enforced', (SELECT conenforced FROM pg_constraint AS itself
                                        WHERE itself.oid = pg_constraint.oid),
                          'usable', (SELECT indisvalid AND indisready AND indislive
                                       FROM pg_index
                                      WHERE indexrelid = conindid AND contype IN ('p', 'u')),
                          -- What a foreign key does, it does by triggers of its own.
                          'off', CASE contype WHEN 'f' THEN
                                     ARRAY(SELECT format('ALTER TABLE %%s ENABLE TRIGGER %%I',
                                                         tgrelid::regclass, tgname)
                                             FROM pg_trigger
                                            WHERE tgconstraint = pg_constraint.oid
                                              AND tgenabled NOT IN ('O', 'A')
                                            ORDER BY tgname) END)
  FROM own
  JOIN pg_constraint ON conrelid = own.oid AND contype IN ('c', 'f', 'p', 'u', 'x')
 CROSS JOIN (SELECT true AS conenforced) AS where_unknown
 UNION ALL
SELECT 'unique index', own.name, relname,
       jsonb_build_object('columns', ARRAY(SELECT coalesce(attname::text, 'an expression')
                                             FROM unnest(indkey) WITH ORDINALITY AS at (number, nth)
                                             LEFT JOIN pg_attribute ON attrelid = indrelid
                                                                   AND attnum = number
                                            ORDER BY nth),
                          'partial', indpred IS NOT NULL,
                          'usable', indisvalid AND indisready AND indislive)
  FROM own
  JOIN pg_index ON indrelid = own.oid AND indisunique
  JOIN pg_class ON pg_class.oid = indexrelid
 WHERE NOT EXISTS (SELECT FROM pg_constraint
                    WHERE conindid = indexrelid AND contype IN ('p', 'u', 'x'))
 UNION ALL
SELECT 'trigger', own.name, tgname,
       jsonb_build_object('enabled', tgenabled,
                          'function', proname,
                          'own_function', pronamespace = (SELECT oid FROM pg_namespace
                                                           WHERE nspname = %(schema)s),
                          'events', tgtype,
                          'columns', ARRAY(SELECT attname::text
                                             FROM pg_attribute
                                            WHERE attrelid = tgrelid AND attnum = ANY(tgattr)
                                            ORDER BY attnum),
                          'conditional', tgqual IS NOT NULL,
                          'arguments', encode(tgargs, 'escape'),
                          'deferrable', tgdeferrable,
                          'deferred', tginitdeferred)
  FROM own
  JOIN pg_trigger ON tgrelid = own.oid AND NOT tgisinternal
  JOIN pg_proc ON pg_proc.oid = tgfoid
 UNION ALL
SELECT 'rule', own.name, rulename,
       jsonb_build_object('enabled', ev_enabled, 'event', ev_type, 'instead', is_instead,
                          'does_nothing', pg_get_ruledef(pg_rewrite.oid)
                                          LIKE '%%DO INSTEAD NOTHING;',
                          'conditional', ev_qual::text <> '<>')
  FROM own
  JOIN pg_rewrite ON ev_class = own.oid AND own.relkind IN ('r', 'p')
 UNION ALL
SELECT 'function', '', format('%%s(%%s)', proname, oidvectortypes(proargtypes)),
       jsonb_build_object('text', encode(sha256(convert_to(prosrc, 'UTF8')), 'hex'),
                          'language', (SELECT lanname FROM pg_language
                                        WHERE pg_language.oid = prolang),
                          'returns', format_type(prorettype, NULL),
                          'with_rights_of_owner', prosecdef,
                          'finds_own_tables', (
                              SELECT bool_or(starts_with(replace(setting, '"', ''),
                                                         'search_path=' || replace(
                                                             %(schema)s::text, '"', '')))
                                FROM unnest(proconfig) AS setting
                               WHERE setting LIKE 'search_path=%%'))
  FROM pg_proc
 WHERE pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = %(schema)s)
   AND prokind = 'f'
   AND (%(functions)s::text[] IS NULL OR proname = ANY(%(functions)s::text[]))
 UNION ALL
-- Where it is replica, triggers do not fire that are not ENABLE ALWAYS, and no foreign key either.
SELECT 'setting', '', 'session_replication_role',
       jsonb_build_object('replica', ARRAY(
           SELECT 'this connection'
            WHERE current_setting('session_replication_role') = 'replica'
            UNION ALL
           SELECT concat_ws(' in ', 'role ' || quote_ident(rolname),
                                    'database ' || quote_ident(datname))
             FROM pg_db_role_setting
             LEFT JOIN pg_roles ON pg_roles.oid = setrole
             LEFT JOIN pg_database ON pg_database.oid = setdatabase
            WHERE coalesce(datname, current_database()) = current_database()
              AND 'session_replication_role=replica' = ANY(
                      ARRAY(SELECT lower(setting) FROM unnest(setconfig) AS setting))
            ORDER BY 1))
"""

# A row that was changed is another row: made by another transaction, or at another place.
_VERSION = """
WITH own AS MATERIALIZED (
    SELECT oid, xmin, ctid FROM pg_class
     WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = %(schema)s)
), numbers AS MATERIALIZED (
    SELECT ARRAY(SELECT oid FROM own) AS own
)
SELECT pg_postmaster_start_time(),
       (SELECT oid FROM pg_database WHERE datname = current_database()),
       current_setting('session_replication_role'),
       sum(hashtextextended(made, 0))
  FROM (SELECT concat_ws(' ', 'class', oid, xmin, ctid) FROM own
         UNION ALL
        SELECT concat_ws(' ', 'attribute', xmin, ctid) FROM pg_attribute
         WHERE attrelid = ANY ((SELECT own FROM numbers)::oid[]) AND attnum > 0
         UNION ALL
        SELECT concat_ws(' ', 'constraint', xmin, ctid) FROM pg_constraint
         WHERE conrelid = ANY ((SELECT own FROM numbers)::oid[])
         UNION ALL
        SELECT concat_ws(' ', 'index', xmin, ctid) FROM pg_index
         WHERE indrelid = ANY ((SELECT own FROM numbers)::oid[])
         UNION ALL
        SELECT concat_ws(' ', 'trigger', xmin, ctid) FROM pg_trigger
         WHERE tgrelid = ANY ((SELECT own FROM numbers)::oid[])
         UNION ALL
        SELECT concat_ws(' ', 'rule', xmin, ctid) FROM pg_rewrite
         WHERE ev_class = ANY ((SELECT own FROM numbers)::oid[])
         UNION ALL
        SELECT concat_ws(' ', 'function', xmin, ctid) FROM pg_proc
         WHERE pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = %(schema)s)
         UNION ALL
        SELECT concat_ws(' ', 'schema', xmin, ctid) FROM pg_namespace
         UNION ALL
        SELECT concat_ws(' ', 'setting', xmin, ctid) FROM pg_db_role_setting) AS rows (made)
"""

_LEFT_UNCHECKED = re.compile(
    r"ADD CONSTRAINT (\w+)(?:(?!ADD CONSTRAINT)[^;])*? NOT VALID", re.DOTALL
)
"""Constraints that a migration does not check against the rows that are there already."""


_OF_THE_LOG = ("audit_", "refuse_audit_", "demand_audit_")


@dataclass(frozen=True)
class Thing:
    """One thing of the catalog.

    Attributes:
        kind: One of `KINDS`.
        table: To which it belongs; empty for a function.
        name: Its own.
        facts: What is compared, by name.
    """

    kind: str
    table: str
    name: str
    facts: Mapping[str, Any]

    @property
    def key(self) -> tuple[str, str, str]:
        """By what it is found again."""
        return self.kind, self.table, self.name

    @property
    def of_the_log(self) -> bool:
        """Whether it belongs to the audit log."""
        return (self.table or self.name).startswith(_OF_THE_LOG)

    def __str__(self) -> str:
        """As sentences name it."""
        of = f" of {self.table}" if self.table not in ("", self.name) else ""
        return f"the {self.kind} {self.name}{of}"


@dataclass(frozen=True)
class Change:
    """One thing that is not as the migrations made it.

    Attributes:
        thing: As a fresh migration leaves it.
        found: What is wrong with it, as the rest of a sentence.
        mend: The SQL statement that mends it, or where the statement that makes it stands.
    """

    thing: Thing
    found: str
    mend: str

    def __str__(self) -> str:
        """All of it."""
        return f"{self.thing} {self.found} ({self.mend})"


@cache
def expected() -> tuple[Thing, ...]:
    """What a fresh migration leaves, from the file that is shipped."""
    text = (resources.files("filejobs_dagster.postgres") / FILE).read_text(encoding="utf-8")
    return tuple(Thing(**entry) for entry in json.loads(text))


def in_the_catalog(
    cursor: psycopg.Cursor[TupleRow], schema: str, of: Sequence[Thing] | None = None
) -> list[Thing]:
    """Read what is there, in one statement.

    Args:
        cursor: In any transaction.
        schema: Of the project's tables.
        of: Look at these tables and functions only; None for everything in the schema.

    Raises:
        psycopg.Error: The database would not say.
    """
    tables = functions = None
    if of is not None:
        tables = sorted({thing.table for thing in of if thing.table})
        functions = sorted({thing.name.split("(")[0] for thing in of if thing.kind == "function"})
    cursor.execute(_CATALOG, {"schema": schema, "tables": tables, "functions": functions})
    return [Thing(*row) for row in cursor.fetchall()]


def as_file(cursor: psycopg.Cursor[TupleRow], schema: str) -> str:
    """The file's text, from a schema that holds a fresh migration and nothing else."""
    unchecked = {
        name for migration in shipped() for name in _LEFT_UNCHECKED.findall(migration.text)
    }
    lines = []
    for thing in sorted(in_the_catalog(cursor, schema), key=lambda thing: thing.key):
        facts = {
            name: value
            for name, value in thing.facts.items()
            if value is not None and value is not False
            if not (name == "validated" and thing.name in unchecked)
        }
        entry = {"kind": thing.kind, "table": thing.table, "name": thing.name, "facts": facts}
        lines.append(json.dumps(entry, sort_keys=True))
    return "[\n" + ",\n".join(lines) + "\n]\n"


def changes(cursor: psycopg.Cursor[TupleRow], schema: str) -> list[Change]:
    """Compare what is there with what the migrations made.

    That takes three times as long as asking whether it is what was compared before: a run asks
    before each of its batches.

    Args:
        cursor: In any transaction.
        schema: Of the project's tables.

    Returns:
        What is gone, off or another thing by now; empty when all is as it was made.

    Raises:
        psycopg.Error: The database would not say.
    """
    version = _version(cursor, schema)
    if version in _AS_MADE:
        return []
    wanted = expected()
    there = {thing.key: thing for thing in in_the_catalog(cursor, schema, wanted)}
    found = list(_compared(wanted, there, schema))
    # What changed while it was read is not known by the version from before.
    if not found and version == _version(cursor, schema):
        _AS_MADE.append(version)
    return found


_AS_MADE: deque[tuple[Any, ...]] = deque(maxlen=64)
"""Versions in which nothing was changed, of the databases that this process knows."""


def _version(cursor: psycopg.Cursor[TupleRow], schema: str) -> tuple[Any, ...]:
    """What names a state of the catalog: no two states of one server's database share it.

    A server's start is part of it. Until it is started again its history is one line, in which no
    transaction's number comes twice.
    """
    return (schema, *one(cursor.execute(_VERSION, {"schema": schema})))


MOST_TOLD = 3
"""A sentence that names more of them is not read."""


def told(found: Sequence[Change]) -> str:
    """The first few changes, and how many more there are."""
    more = len(found) - MOST_TOLD
    said = "; ".join(map(str, found[:MOST_TOLD]))
    return f"{said}; and {more} more, which `filejobs migrate` names" if more > 0 else said


def _compared(
    wanted: Sequence[Thing], there: Mapping[tuple[str, str, str], Thing], schema: str
) -> Iterator[Change]:
    refusing = {each.table for each in wanted if each.kind in _REFUSING and each.key in there}
    tables = [thing for thing in wanted if thing.kind == TABLE]
    others = {table.name for table in tables if _is_another(table, there, refusing)}
    for thing in sorted(wanted, key=lambda thing: (KINDS.index(thing.kind), thing.key)):
        if thing.table in others and thing.kind != TABLE:
            # Nothing else of that table can be right, and once said is enough.
            continue
        found = there.get(thing.key)
        if found is None:
            yield Change(thing, "is gone", _made_by(thing))
        elif thing.name in others:
            yield Change(thing, _what_else(found), _made_by(thing))
        else:
            differing = [name for name, value in thing.facts.items() if found.facts[name] != value]
            if differing:
                yield Change(thing, *_differs(thing, found, differing, schema))


def _is_another(
    table: Thing, there: Mapping[tuple[str, str, str], Thing], refusing: set[str]
) -> bool:
    """Whether under the name of a table lies nothing, no table, or one that was made by hand."""
    found = there.get(table.key)
    return found is None or not found.facts["ordinary"] or table.name not in refusing


_REFUSING = ("trigger", "rule", "constraint")


def _what_else(found: Thing) -> str:
    if not found.facts["ordinary"]:
        return "is no table any more"
    return "is a bare copy: none of its constraints, triggers and rules is there"


def _differs(thing: Thing, found: Thing, differing: Sequence[str], schema: str) -> tuple[str, str]:
    """What is wrong, and what mends it."""
    altered = f"ALTER TABLE {_named(schema)}.{_named(thing.table)}"
    if thing.kind == SETTING:
        who = ", ".join(found.facts["replica"])
        return (
            f"is replica for {who}, so that triggers and foreign keys do not fire",
            f"ALTER ROLE or ALTER DATABASE … RESET {thing.name}",
        )
    if "enabled" in differing:
        switch = f"{_FIRING[thing.facts['enabled']]} {thing.kind.upper()} {_named(thing.name)}"
        return f"is {_firing(thing, found)}", f"{altered} {switch}"
    if "off" in differing:
        return "is off", "; ".join(found.facts["off"])
    if differing == ["logged"]:
        return "is unlogged: a crash empties it", f"{altered} SET LOGGED"
    if differing == ["validated"]:
        return (
            "was never checked against the rows that are there",
            f"{altered} VALIDATE CONSTRAINT {_named(thing.name)}",
        )
    what = ", ".join(name.replace("_", " ") for name in differing)
    return f"is not as it was made ({what})", _made_by(thing)


_FIRING = {"O": "ENABLE", "A": "ENABLE ALWAYS", "R": "ENABLE REPLICA", "D": "DISABLE"}


def _firing(thing: Thing, found: Thing) -> str:
    now, made = found.facts["enabled"], thing.facts["enabled"]
    return "off" if now == "D" else f"{_FIRING[now]} and no longer {_FIRING[made]}"


def _made_by(thing: Thing) -> str:
    """The migration that makes it, for people to read."""
    name = thing.name.split("(")[0]
    makers = [each.name for each in shipped() if re.search(rf"\b{re.escape(name)}\b", each.text)]
    if not makers:
        makers = [
            each.name
            for each in shipped()
            if re.search(rf"(CREATE|ALTER) TABLE {re.escape(thing.table)}\b", each.text)
        ]
    if not makers:
        return "made by `filejobs migrate` itself"
    # The last one has the definition that counts; a table is made by the first.
    return f"made by {makers[0] if thing.kind == TABLE else makers[-1]}"


def _named(name: str) -> str:
    plain = re.fullmatch(r"[a-z_][a-z0-9_]*", name)
    return name if plain else '"' + name.replace('"', '""') + '"'
