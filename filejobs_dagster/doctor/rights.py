"""What each role needs in the databases, said once: `filejobs grants` prints it, doctor looks.

What the project's own tables need follows from the jobs of the settings. What the operator's own
tables need follows from their statements, and PostgreSQL itself says which tables those name: it
locks them when it reads a statement, before anybody's rights are asked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.registry import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from psycopg.rows import TupleRow

    from filejobs_dagster.postgres.connect import Connection
    from filejobs_dagster.settings import Settings
    from filejobs_dagster.settings.section import Asked

Who = Literal["jobs", "status", "mirror", "application"]

TABLE, SEQUENCE, FUNCTION, SCHEMA = "TABLE", "SEQUENCE", "FUNCTION", "SCHEMA"

_ALL = ("SELECT", "INSERT", "UPDATE", "DELETE")
_ORDER = (*_ALL, "USAGE", "EXECUTE")
_GROWS = ("SELECT", "INSERT", "UPDATE")

_Needed = tuple[tuple[str, tuple[str, ...]], ...]

# What `filejobs status` (with and without --check), `runs` and `metrics` read.
_READ_BY_STATUS: _Needed = tuple(
    (table, ("SELECT",))
    for table in (
        "filejobs_migration", "job_run", "job_progress", "mirror_watermark", "hold", "mute",
        "alert_condition", "alert_delivery",
    )
)  # fmt: skip

# The record of runs that are over, and the alerts.
_MIRROR: _Needed = (
    ("filejobs_migration", ("SELECT",)),
    ("job_run", ("SELECT", "INSERT")),
    ("job_progress", _GROWS),
    ("mirror_watermark", _GROWS),
    ("hold", ("SELECT",)),
    ("mute", ("SELECT",)),
    ("alert_condition", _ALL),
    ("alert_delivery", _GROWS),
)

# SELECT … FOR UPDATE needs UPDATE as well.
_EVERY_JOB: _Needed = (
    *_MIRROR,
    ("audit_chain", ("SELECT",)),
    ("bucket_adoption", _GROWS),
    ("orphan_pass", ("SELECT",)),
    ("bucket_doubt", ("SELECT",)),
    # Whoever looks after the jobs has their role at hand, and a brake must not wait for the owner.
    ("hold", _GROWS),
    ("mute", _GROWS),
)

_DELETES_BYTES: _Needed = (
    ("file", ("SELECT",)),
    ("upload", ("SELECT",)),
    ("attachment", ("SELECT",)),
    ("orphan_pass", ("SELECT", "DELETE")),
    ("bucket_doubt", _ALL),
    ("never_arrived", _ALL),
    ("setback", _ALL),
)

# Where bytes hang on databases of the operator's beside ours.
_ELSEWHERE: _Needed = (("watched_database", _GROWS),)

_TRIGGER: _Needed = (("http_start", ("SELECT", "INSERT", "DELETE")),)

_OF_APPLICATION: dict[str, _Needed] = {
    "file": (("file", _GROWS),),
    "upload": (("upload", _GROWS), ("attachment", ("SELECT", "INSERT", "DELETE"))),
}

_APPENDS = "audit_append_many(text, text[])"
_RECORDS = "audit_record(text, text[])"

_NUMBERED = {
    "job_run": "job_run_id_seq",
    "alert_condition": "alert_condition_id_seq",
    "alert_delivery": "alert_delivery_id_seq",
}


@dataclass(frozen=True, order=True)
class Right:
    """One privilege on one thing.

    Attributes:
        kind: TABLE, SEQUENCE, FUNCTION or SCHEMA.
        schema: Where the thing is; its own name for a schema.
        name: The thing; of a function with the types of its arguments.
        privilege: As GRANT spells it.
    """

    kind: str
    schema: str
    name: str
    privilege: str

    @property
    def thing(self) -> sql.Composable:
        """As GRANT names it."""
        if self.kind == SCHEMA:
            return sql.SQL("SCHEMA {}").format(sql.Identifier(self.schema))
        if self.kind == FUNCTION:
            name, _, arguments = self.name.partition("(")
            return sql.SQL("FUNCTION {}({}").format(
                sql.Identifier(self.schema, name), sql.SQL(arguments)
            )
        where = sql.Identifier(self.schema, self.name)
        return where if self.kind == TABLE else sql.SQL("SEQUENCE {}").format(where)


@dataclass(frozen=True)
class Theirs:
    """What a statement of the operator's needs.

    Attributes:
        by: What asks: `source avatars`.
        rights: On the tables that it names.
        unknown: Why they could not be told, or None.
    """

    by: str
    rights: tuple[Right, ...] = ()
    unknown: str | None = None


def statements(rights: Iterable[Right], role: str) -> list[sql.Composed]:
    """The fewest GRANTs that give a role these rights, each without a semicolon."""
    by_thing: dict[str, tuple[sql.Composable, list[str]]] = {}
    for right in rights:
        thing = right.thing
        _, privileges = by_thing.setdefault(thing.as_string(), (thing, []))
        if right.privilege not in privileges:
            privileges.append(right.privilege)
    return [
        sql.SQL("GRANT {} ON {} TO {}").format(
            sql.SQL(", ").join(map(sql.SQL, sorted(privileges, key=_ORDER.index))),
            thing,
            sql.Identifier(role),
        )
        for thing, privileges in by_thing.values()
    ]


def own_rights(settings: Settings, who: Who = "jobs") -> tuple[Right, ...]:
    """What a role needs on the project's own tables, for the jobs of the settings."""
    from filejobs_dagster.door.databases import operators  # noqa: PLC0415 (--help is fast)

    schema = settings.database.schema_name

    needed: list[tuple[str, tuple[str, ...]]] = []
    functions: tuple[str, ...] = ()
    if who == "application":
        changed = {table for name in settings.jobs for table, _ in BY_NAME[name].privileges}
        needed += [line for table in _OF_APPLICATION if table in changed
                   for line in _OF_APPLICATION[table]]  # fmt: skip
        functions = (_RECORDS,)
    elif who == "jobs":
        needed += _EVERY_JOB
        jobs = [BY_NAME[name] for name in settings.jobs]
        emptied = {settings.bucket_of(job.name)[0] for job in jobs if job.deletes_bytes}
        if emptied:
            needed += _DELETES_BYTES
        if operators(settings, emptied, Database.of(settings.database)):
            needed += _ELSEWHERE
        needed += [
            (table, (privilege,))
            for job in jobs
            for table, privilege in job.privileges
            # A job that works on tables of the operator's leaves the project's alone.
            if not (table == "file" and any(settings.jobs[job.name].declared()))
        ]
        needed += () if settings.trigger is None else _TRIGGER
        functions = (_APPENDS,)
    else:
        needed += _READ_BY_STATUS if who == "status" else _MIRROR
    rights = [Right(SCHEMA, schema, schema, "USAGE")]
    for table, privileges in needed:
        rights += [Right(TABLE, schema, table, privilege) for privilege in privileges]
        if "INSERT" in privileges and table in _NUMBERED:
            rights.append(Right(SEQUENCE, schema, _NUMBERED[table], "USAGE"))
    rights += [Right(FUNCTION, schema, function, "EXECUTE") for function in functions]
    return tuple(dict.fromkeys(rights))


# Read from the catalog, which everybody may: to_regclass answers only who may use the schema.
_LACKING = """
SELECT place
  FROM unnest(%(kinds)s::text[], %(schemas)s::text[], %(names)s::text[], %(privileges)s::text[])
           WITH ORDINALITY AS needed (kind, schema, name, privilege, place)
  JOIN pg_namespace ON nspname = schema
  LEFT JOIN pg_class ON relnamespace = pg_namespace.oid AND relname = name
                    AND kind IN ('TABLE', 'SEQUENCE')
  LEFT JOIN pg_proc ON pronamespace = pg_namespace.oid AND kind = 'FUNCTION'
                   AND format('%%s(%%s)', proname, oidvectortypes(proargtypes)) = name
 WHERE CASE kind
       WHEN 'SCHEMA' THEN NOT has_schema_privilege(%(role)s, pg_namespace.oid, privilege)
       WHEN 'TABLE' THEN NOT (has_table_privilege(%(role)s, pg_class.oid, privilege)
            OR %(columns)s AND privilege <> 'DELETE'
               AND has_any_column_privilege(%(role)s, pg_class.oid,
                                            replace(privilege, 'DELETE', 'SELECT')))
       WHEN 'SEQUENCE' THEN NOT has_sequence_privilege(%(role)s, pg_class.oid, privilege)
       ELSE NOT has_function_privilege(%(role)s, pg_proc.oid, privilege)
       END
 ORDER BY place
"""


def lacking(
    cursor: psycopg.Cursor[TupleRow],
    rights: Iterable[Right],
    role: str,
    *,
    columns: bool = False,
) -> list[Right]:
    """Those that a role has not; what is not there lacks nothing.

    Args:
        cursor: In a transaction.
        rights: What it should have.
        role: Which must exist.
        columns: A right on any column of a table is as good: whoever gave it knew which.
    """
    asked = list(rights)
    cursor.execute(
        _LACKING,
        {
            "role": role,
            "columns": columns,
            "kinds": [right.kind for right in asked],
            "schemas": [right.schema for right in asked],
            "names": [right.name for right in asked],
            "privileges": [right.privilege for right in asked],
        },
    )
    return [asked[place - 1] for (place,) in cursor.fetchall()]


def cure(cursor: psycopg.Cursor[TupleRow], settings: Settings) -> str | None:
    """The statements that give the role of this session what the jobs need, or None.

    Args:
        cursor: In a transaction.
        settings: All of them.
    """
    role = cursor.connection.info.user
    missing = statements(lacking(cursor, own_rights(settings), role), role)
    if not missing:
        return None
    return f"As the owner of the tables: {'; '.join(each.as_string() for each in missing)};"


def role_of(url: str) -> str | None:
    """The role that a connection string names, or None."""
    return str(conninfo_to_dict(url).get("user") or "") or None


def asked_of(settings: Settings) -> Iterator[Asked]:
    """Every statement and table of the operator's that the settings name."""
    from filejobs_dagster.settings.section import Asked  # noqa: PLC0415 (pydantic)

    for bucket in settings.buckets.values():
        for source in bucket.sources:
            by = f"source {source.name}"
            yield Asked(by, source.database, statement=source.sql, replica=source.read_from)
            if source.recheck_sql is not None:
                yield Asked(by, source.database, statement=source.recheck_sql)
    for job in settings.jobs.values():
        yield from job.asked()


def their_rights(database: Database, connection: Connection, asked: Asked) -> Theirs:
    """What one statement of the operator's needs, as their database says it.

    Args:
        database: The one that the statement is for.
        connection: To it, outside a transaction; its role needs no right on the tables.
        asked: The statement, or the table.
    """
    found: list[Right] = []
    if asked.table is not None:
        with database.transaction(connection, read_only=True) as cursor:
            cursor.execute("SET LOCAL search_path TO DEFAULT")
            cursor.execute(_ONE_TABLE, {"name": asked.table})
            found = [
                Right(TABLE, schema, name, privilege)
                for schema, name in cursor.fetchall()
                for privilege in asked.privileges
            ]
        why: str | None = f"there is no {asked.table}"
    else:
        found, why = _of_statement(database, connection, asked.statement or "")
    if not found:
        return Theirs(asked.by, unknown=why)
    schemas = dict.fromkeys(right.schema for right in found)
    usage = [Right(SCHEMA, schema, schema, "USAGE") for schema in schemas]
    return Theirs(asked.by, tuple(dict.fromkeys([*usage, *found])))


_ONE_TABLE = """
SELECT nspname::text, relname::text
  FROM (SELECT parse_ident(%(name)s) AS parts) AS said
  JOIN pg_class ON relname = parts[cardinality(parts)] AND relkind IN ('r', 'p', 'v', 'm', 'f')
  JOIN pg_namespace ON pg_namespace.oid = relnamespace
 WHERE CASE cardinality(parts) WHEN 1 THEN pg_table_is_visible(pg_class.oid)
       ELSE nspname = parts[1] END
"""

_LOCKED = """
SELECT nspname::text, relname::text, array_agg(mode),
       ARRAY(SELECT ARRAY[nspname, sequence.relname]::text[]
               FROM pg_depend JOIN pg_class AS sequence ON sequence.oid = objid
              WHERE refobjid = pg_class.oid AND deptype = 'a' AND sequence.relkind = 'S')
  FROM pg_locks
  JOIN pg_class ON pg_class.oid = relation
  JOIN pg_namespace ON pg_namespace.oid = relnamespace
 WHERE pid = pg_backend_pid() AND locktype = 'relation'
   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND relkind IN ('r', 'p', 'v', 'm', 'f')
   AND nspname NOT IN ('pg_catalog', 'information_schema')
 GROUP BY pg_class.oid, nspname, relname
 ORDER BY nspname, relname
"""

_QUALIFIED = re.compile(r'"?([\w$]+)"?\s*\.\s*"?([\w$]+)"?')

_NAMED = """
SELECT nspname::text, relname::text
  FROM unnest(%(schemas)s::text[], %(names)s::text[]) AS said (schema, name)
  JOIN pg_namespace ON nspname = schema
  JOIN pg_class ON relnamespace = pg_namespace.oid AND relname = name
 WHERE relkind IN ('r', 'p', 'v', 'm', 'f')
"""

_VERBS = ("INSERT", "UPDATE", "DELETE")


def _of_statement(
    database: Database, connection: Connection, statement: str
) -> tuple[list[Right], str | None]:
    words = {word.upper() for word in re.findall(r"\w+", statement)}
    verbs = ["SELECT", *(verb for verb in _VERBS if verb in words)]
    found: list[Right] = []
    try:
        with database.transaction(connection, read_only=True) as cursor:
            cursor.execute("SET LOCAL search_path TO DEFAULT")
            # Nothing is executed. What follows a semicolon would be, and the settings refuse it.
            cursor.execute(f"PREPARE filejobs_rights AS\n{statement}".encode())
            cursor.execute("DEALLOCATE filejobs_rights")
            cursor.execute(_LOCKED)
            for schema, name, modes, sequences in cursor.fetchall():
                if name.upper() not in words and f'"{name}"' not in statement:
                    continue  # below a view, which is read with the rights of the view's owner
                changed = "RowExclusiveLock" in modes
                privileges = verbs if changed else ["SELECT"]
                if "RowShareLock" in modes and "UPDATE" not in privileges:
                    privileges = [*privileges, "UPDATE"]
                found += [Right(TABLE, schema, name, privilege) for privilege in privileges]
                if changed and "INSERT" in privileges:
                    found += [Right(SEQUENCE, of, called, "USAGE") for of, called in sequences]
    except psycopg.Error as error:
        # Whoever may not use the schema cannot have the statement read; its names stand in it.
        why = " ".join(str(error.diag.message_primary or error).split())
    else:
        return found, "it names no table"
    pairs = _QUALIFIED.findall(statement)
    with database.transaction(connection, read_only=True) as cursor:
        cursor.execute(
            _NAMED, {"schemas": [pair[0] for pair in pairs], "names": [pair[1] for pair in pairs]}
        )
        found = [
            Right(TABLE, schema, name, verb) for schema, name in cursor.fetchall() for verb in verbs
        ]
    return found, why
