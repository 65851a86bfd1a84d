"""Migrated databases, one for each test: making one takes four times as long as emptying one."""

from __future__ import annotations

import time
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
from psycopg import sql

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.embedded.postgres import EmbeddedPostgres

CATALOGS = (
    *("pg_attrdef", "pg_attribute", "pg_cast", "pg_collation", "pg_constraint", "pg_default_acl"),
    *("pg_depend", "pg_description", "pg_enum", "pg_event_trigger", "pg_extension", "pg_index"),
    *("pg_foreign_data_wrapper", "pg_inherits", "pg_init_privs", "pg_largeobject_metadata"),
    *("pg_namespace", "pg_operator", "pg_policy", "pg_proc", "pg_publication", "pg_rewrite"),
    *("pg_seclabel", "pg_sequence", "pg_statistic", "pg_statistic_ext", "pg_trigger", "pg_type"),
)
"""Where a change of definitions, rights or statistics leaves a row that is newer, or one fewer."""

# What emptying itself changes of `pg_class`, where the rows are kept, is not asked for.
BESIDE_THE_CATALOGS = """
ARRAY[
    (SELECT max(xmin::text::bigint) || ' ' || count(*) FROM public.filejobs_migration),
    (SELECT md5(string_agg(concat_ws(' ', oid, relname, relnamespace, reltype, relowner, relam,
                                     relpersistence, relkind, relchecks, relhasrules,
                                     relhastriggers, relrowsecurity, relforcerowsecurity,
                                     relreplident, relispartition, relacl, reloptions,
                                     reltablespace), '/' ORDER BY oid))
       FROM pg_class WHERE oid >= 16384),
    (SELECT concat_ws(' ', datdba, datallowconn, datconnlimit, datistemplate, datacl)
       FROM pg_database WHERE datname = current_database()),
    (SELECT count(*)::text FROM pg_db_role_setting WHERE setdatabase IN
            (SELECT oid FROM pg_database WHERE datname = current_database())),
    (SELECT count(*)::text FROM pg_prepared_xacts WHERE database = current_database())
]
"""
EVERYTHING_BUT_ROWS = "SELECT {beside} || ARRAY[{catalogs}]".format(
    beside=BESIDE_THE_CATALOGS,
    catalogs=", ".join(
        f"(SELECT max(xmin::text::bigint) || ' ' || count(*) FROM pg_catalog.{name})"
        for name in CATALOGS
    ),
)
# A session that ends says how many rows it has written where. Asking for those sums takes a quarter
# of what looking into the catalogs takes a new session.
WRITTEN = f"""
SELECT {BESIDE_THE_CATALOGS} || ARRAY(
    SELECT concat_ws(' ', pg_stat_get_tuples_inserted(catalog), pg_stat_get_tuples_updated(catalog),
                     pg_stat_get_tuples_deleted(catalog))
      FROM unnest('{{{",".join(f"pg_catalog.{name}" for name in CATALOGS)}}}'::regclass[])
           WITH ORDINALITY AS at (catalog, nth) ORDER BY nth)
"""
# Of a few rows, deleting them takes a quarter of the time of new files for the table.
EMPTY = """
SELECT format(CASE WHEN pg_relation_size(oid) > 65536
                   THEN 'TRUNCATE public.%I CASCADE' ELSE 'DELETE FROM public.%I' END, relname)
  FROM pg_class
 WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
   AND relname <> 'filejobs_migration' AND pg_relation_size(oid) > 0
"""
OTHERS = """
SELECT pid FROM pg_stat_activity
 WHERE datname = %(name)s AND backend_type = 'client backend'
"""

# Neither triggers nor rules keep what is append-only; no setting of the server or a role counts.
EMPTYING = (
    "-c session_replication_role=replica -c default_transaction_read_only=off"
    " -c search_path=pg_catalog -c lock_timeout=5s -c statement_timeout=20s"
)
SECONDS_TO_GO = 0.05


class Databases:
    """The databases of a worker, each used by one test after the other and by none at a time.

    A test gets one with a name that no test before it knew. Emptied is what holds rows; a database
    in which more than rows changed (a table, a trigger, a right, a setting) is dropped.
    """

    def __init__(self, server: EmbeddedPostgres, template: str) -> None:
        self._server = server
        self._template = template
        self.clean: list[str] = []
        self._as_made: list[str] = []
        self._written: dict[str, list[str]] = {}
        self._beside: psycopg.Connection | None = None

    @contextmanager
    def one(self) -> Iterator[str]:
        """The address of a migrated database without rows."""
        name = self.clean.pop() if self.clean else self._made()
        yield self._server.url(name)
        try:
            self.clean.append(self._emptied(name))
        except (_NotOnlyRows, psycopg.Error):
            self._server.drop_database(name)

    def _made(self) -> str:
        name = f"test_{uuid.uuid4().hex}"
        url = self._server.create_database(name, self._template)
        if not self._as_made:
            with psycopg.connect(url, options=EMPTYING) as connection:
                self._as_made = _asked(connection, EVERYTHING_BUT_ROWS)
        return name

    def close(self) -> None:
        """Close what was kept open."""
        if self._beside is not None:
            self._beside.close()

    def _server_itself(self) -> psycopg.Connection:
        """One connection for all tests: a new one for each is a sixth of what emptying takes."""
        if self._beside is None or self._beside.closed:
            self._beside = psycopg.connect(self._server.url(), autocommit=True, options=EMPTYING)
        return self._beside

    def _emptied(self, name: str) -> str:
        _end_others(self._server_itself(), name)
        with psycopg.connect(
            self._server.url(name), autocommit=True, options=EMPTYING
        ) as connection:
            written = _asked(connection, WRITTEN)
            if (
                written != self._written.pop(name, None)
                and _asked(connection, EVERYTHING_BUT_ROWS) != self._as_made
            ):
                raise _NotOnlyRows
            for (statement,) in connection.execute(EMPTY).fetchall():
                connection.execute(statement)
            connection.execute("SELECT setval(seqrelid, seqstart, false) FROM pg_sequence")
            session = connection.info.backend_pid
        _wait_for_the_end(session)
        # Who still thinks of the old name, a thread that was forgotten, finds nothing there.
        clean = f"test_{uuid.uuid4().hex}"
        self._server_itself().execute(
            sql.SQL("ALTER DATABASE {} RENAME TO {}").format(
                sql.Identifier(name), sql.Identifier(clean)
            )
        )
        self._written[clean] = written
        return clean


class _NotOnlyRows(Exception):
    """Somebody changed a definition, a right or a setting."""


def _asked(connection: psycopg.Connection, statement: str) -> list[str]:
    [(found,)] = connection.execute(statement.encode()).fetchall()
    return list(found)


def _wait_for_the_end(session: int) -> None:
    """PostgreSQL looks again a tenth of a second after it has met somebody who is leaving."""
    until = time.monotonic() + SECONDS_TO_GO
    while Path(f"/proc/{session}").exists() and time.monotonic() < until:
        time.sleep(0.0005)


def _end_others(server: psycopg.Connection, name: str) -> None:
    """Sessions that were closed end a moment later; one that nobody closed is ended."""
    until = time.monotonic() + SECONDS_TO_GO
    values = {"name": name}
    while server.execute(OTHERS, values).fetchall():
        if time.monotonic() > until:
            server.execute(
                f"SELECT pg_terminate_backend(pid, 5000) FROM ({OTHERS}) AS found", values
            )
            return
        time.sleep(0.002)
