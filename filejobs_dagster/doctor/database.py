"""The project's database: reachable, new enough, migrated, writable."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

from filejobs_dagster.doctor.finding import Finding, failed, ok, skipped, warning
from filejobs_dagster.doctor.rights import (
    SCHEMA,
    asked_of,
    lacking,
    own_rights,
    statements,
    their_rights,
)
from filejobs_dagster.postgres.connect import (
    NEEDED_AT_ONCE,
    WHAT_A_RUN_NEEDS,
    DatabaseUnavailable,
    NoConnectionFree,
    one,
)
from filejobs_dagster.postgres.migrate import MigrationRefused, outstanding

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.doctor.rights import Right
    from filejobs_dagster.postgres.connect import Connection, Database
    from filejobs_dagster.settings import Settings

OLDEST_SERVER = 14
TWO_TO_WORK_AT_ALL = 2
"""Connections: one that holds a run's locks, and one for its work."""

_WHAT_IT_LOSES = (
    "no live run prevents what an asynchronous standby loses when it is promoted: set "
    "synchronous_standby_names to at least two and synchronous_commit to on, see docs/failover.md"
)

# PUBLIC is 0. A role that has made nothing here and owns nothing is what is looked for.
_OTHERS = """
WITH grants AS (
    SELECT 'schema' AS what, nspowner AS owner, acl.grantee
      FROM pg_namespace, aclexplode(nspacl) AS acl
     WHERE nspname = %(schema)s AND privilege_type = 'CREATE'
     UNION ALL
    SELECT 'EXECUTE on audit_append_many', proowner, acl.grantee
      FROM pg_proc, aclexplode(coalesce(proacl, acldefault('f', proowner))) AS acl
     WHERE pg_proc.oid = to_regprocedure('audit_append_many(text,text[])')
     UNION ALL
    SELECT 'INSERT on audit_event', relowner, acl.grantee
      FROM pg_class, aclexplode(relacl) AS acl
     WHERE pg_class.oid = to_regclass('audit_event') AND privilege_type = 'INSERT'
)
SELECT what, string_agg(DISTINCT name, ', ' ORDER BY name)
  FROM (SELECT what, grantee,
               CASE grantee WHEN 0 THEN 'PUBLIC' ELSE pg_get_userbyid(grantee)::text END AS name
          FROM grants
         WHERE grantee <> ALL(ARRAY(SELECT owner FROM grants))) AS others
 WHERE what = 'schema'
    OR name <> current_user
   AND NOT EXISTS (SELECT FROM pg_auth_members
                    WHERE roleid = grantee AND pg_get_userbyid(member) = current_user)
 GROUP BY what
"""


def check_database(
    database: Database, connection: Connection, settings: Settings
) -> Iterator[Finding]:
    """Look at everything that one open connection can tell.

    Args:
        database: Where the tables are.
        connection: To it, outside a transaction.
        settings: All of them: what the jobs need, and how many may be at work at once.
    """
    yield _version(database, connection)
    with database.transaction(connection, read_only=True) as cursor:
        cursor.execute("SELECT current_user")
        role = str(one(cursor)[0])
        missing = lacking(cursor, own_rights(settings), role)
    schema = _schema(database, missing)
    yield schema
    privileges = _privileges(role, missing, complete=schema.verdict == "ok")
    yield privileges
    yield from _on_theirs(database, connection, settings, role)
    with database.transaction(connection, read_only=True) as cursor:
        yield from _others(cursor, database.schema)
        yield _primary(cursor)
        yield check_standbys("standbys", cursor)
        yield _pooler(database, cursor, connection.info.backend_pid, len(settings.jobs))
        if schema.verdict == privileges.verdict == "ok":
            yield _installations(cursor, settings.installation)


def _installations(cursor: psycopg.Cursor[TupleRow], installation: str) -> Finding:
    """Two installations on one schema would claim each other's rows and look into one bucket."""
    cursor.execute(
        """
        SELECT installation FROM job_progress WHERE installation <> %(own)s
        UNION
        SELECT installation FROM mirror_watermark WHERE installation <> %(own)s
        LIMIT 5
        """,
        {"own": installation},
    )
    others = ", ".join(sorted(row[0] for row in cursor.fetchall()))
    if not others:
        return ok("installations", f"only {installation} works on this schema")
    return warning(
        "installations",
        f"{others} worked on this schema, too",
        "give each installation a schema or a database of its own: they would claim each other's "
        "rows. After a renaming, open runs of the old name are no longer recorded",
    )


def _version(database: Database, connection: Connection) -> Finding:
    major, minor = divmod(connection.info.server_version, 10_000)
    found = f"PostgreSQL {major}.{minor} at {database.address()}"
    if major < OLDEST_SERVER:
        return failed("database", found, f"use PostgreSQL {OLDEST_SERVER} or newer")
    return ok("database", found)


def _schema(database: Database, missing: list[Right]) -> Finding:
    if any(right.kind == SCHEMA or right.name == "filejobs_migration" for right in missing):
        return skipped("migrations", "this role may not look; see privileges")
    try:
        lacking = outstanding(database)
    except MigrationRefused as error:
        return failed("migrations", str(error), "the message says which side to change")
    if lacking:
        names = ", ".join(migration.name for migration in lacking)
        return failed("migrations", f"outstanding: {names}", "run `filejobs migrate`")
    return ok("migrations", f"the schema {database.schema} is up to date")


def _privileges(role: str, missing: list[Right], *, complete: bool) -> Finding:
    """Name each right that is missing by the statement that gives it."""
    if missing:
        return _missing("privileges", role, missing)
    if not complete:
        return skipped("privileges", "the tables are not all there yet; see migrations")
    return ok("privileges", f"the role {role} may do what the jobs do")


def _on_theirs(
    database: Database, connection: Connection, settings: Settings, role: str
) -> Iterator[Finding]:
    """The same for the operator's own tables in this database; a source elsewhere fails itself."""
    missing: list[Right] = []
    found = [
        their_rights(database, connection, asked)
        for asked in asked_of(settings)
        if asked.database is None
    ]
    if not found:
        return
    with database.transaction(connection, read_only=True) as cursor:
        rights = dict.fromkeys(right for each in found for right in each.rights)
        missing = lacking(cursor, rights, role, columns=True)
    unknown = "; ".join(f"{each.by}: {each.unknown}" for each in found if each.unknown is not None)
    if missing:
        yield _missing("your tables", role, missing)
    elif unknown:
        yield warning(
            "your tables",
            f"which rights they need cannot be told: {unknown}",
            "see that the statements in the settings name tables that are there",
        )
    else:
        yield ok("your tables", f"the role {role} may use the tables that the settings name")


def _missing(check: str, role: str, missing: list[Right]) -> Finding:
    said = ", ".join(f"{right.privilege} on {right.thing.as_string()}" for right in missing)
    cure = "; ".join(each.as_string() for each in statements(missing, role))
    return failed(check, f"the role {role} lacks {said}", f"as the owner of the tables: {cure};")


def _others(cursor: psycopg.Cursor[TupleRow], schema: str) -> Iterator[Finding]:
    """Say who else can append to any chain, or can put functions where those of the owner run."""
    cursor.execute(_OTHERS, {"schema": schema})
    others: dict[str, str] = dict(cursor.fetchall())
    creators = others.pop("schema", None)
    if creators is None:
        yield ok("schema rights", f"nobody but owners may create in the schema {schema}")
    else:
        yield warning(
            "schema rights",
            f"{creators} may create in the schema {schema}, where functions run with the rights "
            "of their owner: what is made there could be called by them",
            f"REVOKE CREATE ON SCHEMA {schema} FROM {creators}, as the owner of the schema, or use "
            "a schema of the project's own",
        )
    if others:
        yield warning(
            "audit writers",
            "; ".join(f"{roles} has {what}" for what, roles in sorted(others.items()))
            + ": such a role may write any event into any chain",
            "leave that to the role of the jobs: REVOKE it from the others, as the owner of the "
            "tables, and let applications call audit_record (docs/audit.md)",
        )
    else:
        yield ok("audit writers", "nobody but this role and the owner may write into any chain")


def _primary(cursor: psycopg.Cursor[TupleRow]) -> Finding:
    cursor.execute(
        "SELECT pg_is_in_recovery(), current_setting('default_transaction_read_only') = 'on'"
    )
    standby, read_only = one(cursor)
    if standby:
        return failed(
            "primary",
            "this server is a standby",
            "connect to the primary: references read from a standby may be out of date",
        )
    if read_only:
        return failed(
            "primary",
            "default_transaction_read_only is on for this role or database",
            "switch it off for the role of the jobs",
        )
    return ok("primary", "this server takes writes")


def check_standbys(check: str, cursor: psycopg.Cursor[TupleRow]) -> Finding:
    """Say what a standby that is promoted can still lose.

    Args:
        check: What the finding is called.
        cursor: In a transaction on the primary.
    """
    cursor.execute(
        """
        SELECT count(*),
               count(*) FILTER (WHERE sync_state IS NULL),
               string_agg(application_name, ', ' ORDER BY application_name)
                   FILTER (WHERE sync_state = 'async' AND state IN ('streaming', 'catchup')),
               count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')),
               current_setting('synchronous_standby_names'),
               current_user
          FROM pg_stat_replication
        """
    )
    connected, unseen, asynchronous, synchronous, names, role = one(cursor)
    if not connected:
        return ok(check, "no standby is connected, so none can be promoted that is behind")
    if unseen:
        return warning(
            check,
            f"{connected} are connected, and whether they are asynchronous is not told to {role}; "
            f"synchronous_standby_names is {names or 'empty'}",
            f"GRANT pg_read_all_stats TO {role}, as a superuser; {_WHAT_IT_LOSES}",
        )
    if asynchronous is None or synchronous:
        return ok(
            check,
            f"a commit waits for a synchronous standby ({names})"
            + ("" if asynchronous is None else f"; never promote {asynchronous}: asynchronous"),
        )
    return warning(
        check,
        f"{asynchronous} replicates asynchronously: promoted, it may lack the last commits, those "
        "of runs whose bytes are gone among them",
        _WHAT_IT_LOSES,
    )


def _pooler(
    database: Database, cursor: psycopg.Cursor[TupleRow], announced: int, jobs: int
) -> Finding:
    """A pooler makes up the process id that it announces to its clients."""
    cursor.execute("SELECT pg_backend_pid()")
    if one(cursor)[0] == announced:
        return ok("pooler", "the connection reaches PostgreSQL directly")
    held = _held_at_once(database)
    found = "a pooler such as PgBouncer stands between, and gives " + (
        f"at least {held} connections at once" if held == NEEDED_AT_ONCE else f"only {held} at once"
    )
    needed = f"{NEEDED_AT_ONCE} x {max(1, jobs)} live runs = {NEEDED_AT_ONCE * max(1, jobs)}"
    finding = warning if held >= TWO_TO_WORK_AT_ALL else failed
    return finding(
        "pooler",
        found,
        f"{WHAT_A_RUN_NEEDS}: allow for {needed} server connections (pool_size), as each job has "
        "one live run at most (fewer where the run queue lets fewer work at once), and for what "
        "else comes through this pool. Let it pool by session or by transaction, never by "
        "statement, and set no "
        "idle_transaction_timeout below the longest max_runtime",
    )


def _held_at_once(database: Database) -> int:
    """Try how many transactions a run can hold; the caller holds the first."""
    with ExitStack() as stack:
        for held in range(1, NEEDED_AT_ONCE):
            try:
                connection = stack.enter_context(closing(database.connect("doctor")))
                stack.enter_context(database.transaction(connection, read_only=True))
            except (NoConnectionFree, DatabaseUnavailable):
                return held
    return NEEDED_AT_ONCE
