"""deleted_files: the queries of derived objects, and what may keep deleted files for ever."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

from filejobs_dagster.doctor.finding import Finding, failed, ok, warning
from filejobs_dagster.doctor.reservations import compared_columns
from filejobs_dagster.jobs.collecting.detail import SourceRefused
from filejobs_dagster.jobs.deleted_files.collection import FileTable
from filejobs_dagster.jobs.deleted_files.derived import DerivedObjects
from filejobs_dagster.jobs.upload_reservations.claims import tables_read
from filejobs_dagster.settings.statements import NotOneStatement, parsed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    import psycopg

    from filejobs_dagster.jobs.deleted_files.settings import DeletedFilesSettings, DerivedSettings
    from filejobs_dagster.postgres.connect import Connection, Database
    from filejobs_dagster.settings import SourceSettings

    Cursor = psycopg.Cursor[Any]

MOST_UNDATED = 10_000
_CONSTRAINTS = ("file_deleted_at_is_a_date", "file_retain_until_is_a_date")

# Whether an index begins with the column; whether the foreign key of the column to `file` exists,
# and whether it takes rows away with their file.
_TABLE = """
SELECT table_class.oid::regclass::text,
       EXISTS (SELECT FROM pg_index
                WHERE indrelid = table_class.oid AND indisvalid
                  AND indkey[0] = column_of_file.attnum
                  AND indpred IS NULL),
       key_of_file.confdeltype = 'c'
  FROM pg_class AS table_class
  JOIN pg_attribute AS column_of_file
    ON attrelid = table_class.oid AND attname = %(column)s AND NOT attisdropped
  LEFT JOIN pg_constraint AS key_of_file
    ON contype = 'f' AND conrelid = table_class.oid AND confrelid = %(file)s::regclass
   AND conkey[1] = column_of_file.attnum
   -- A column that PostgreSQL 18 has brought.
   AND coalesce((to_jsonb(key_of_file) ->> 'conenforced')::boolean, true)
 WHERE table_class.oid = to_regclass(%(table)s)
   AND relkind IN ('r', 'p')
 ORDER BY key_of_file.confdeltype = 'c' DESC NULLS LAST
 LIMIT 1
"""

# Foreign keys to `file` that take rows away with it, or empty them, and lack an index: each
# deletion of a file then reads the whole table.
_UNINDEXED = """
SELECT conrelid::regclass::text, attname
  FROM pg_constraint
  JOIN pg_attribute ON attrelid = conrelid AND attnum = conkey[1]
 WHERE contype = 'f' AND confrelid = %(file)s::regclass AND conparentid = 0
   AND NOT EXISTS (SELECT FROM pg_index
                    WHERE indrelid = conrelid AND indkey[0] = conkey[1]
                      AND indisvalid AND indpred IS NULL)
 ORDER BY 1, 2
"""


def check_deleted_files(
    settings: DeletedFilesSettings,
    references: Sequence[SourceSettings],
    database: Database,
    connection: Connection,
) -> Iterator[Finding]:
    """Look at the table, and at each query of derived objects; none of them is executed.

    Args:
        settings: `jobs.deleted_files`.
        references: `sources` of the job's bucket, by which the gate knows the tables.
        database: The project's own.
        connection: An open connection to it.
    """
    with database.transaction(connection, read_only=True) as cursor:
        yield _undated(cursor, settings)
        yield from _not_validated(cursor)
        looked_at = {name for query in settings.derived for name in tables_read(query.sql)}
        yield from _without_index(cursor, database.schema, looked_at)
    for query in settings.derived:
        yield from _derived(query, references, database, connection)


def _undated(cursor: Cursor, settings: DeletedFilesSettings) -> Finding:
    check = "deleted_files dates"
    table = FileTable(settings.restore_window)
    count = table.count_without_date(cursor, most=MOST_UNDATED + 1)
    if not count:
        return ok(check, "every deleted file says when it was deleted")
    said = f"more than {MOST_UNDATED:,}" if count > MOST_UNDATED else f"{count:,}"
    return warning(
        check,
        f"{said} deleted files have no deleted_at, so they are never collected",
        "delete by delete_file(id), which writes it; for those that are there: UPDATE file SET "
        "deleted_at = clock_timestamp() WHERE state = 'deleted' AND deleted_at IS NULL, in "
        "batches; their restore window then begins now",
    )


def _not_validated(cursor: Cursor) -> Iterator[Finding]:
    cursor.execute(
        "SELECT conname FROM pg_constraint WHERE conrelid = 'file'::regclass"
        " AND conname = ANY(%s) AND NOT convalidated ORDER BY 1",
        (list(_CONSTRAINTS),),
    )
    for (name,) in cursor.fetchall():
        yield warning(
            "deleted_files dates",
            f"rows from before the constraint {name} were never looked at, and one without a "
            "real date is never collected",
            f"ALTER TABLE file VALIDATE CONSTRAINT {name}, which locks nobody out; it names a row "
            "that breaks the rule by failing",
        )


def _without_index(cursor: Cursor, schema: str, looked_at: Collection[str]) -> Iterator[Finding]:
    cursor.execute(_UNINDEXED, {"file": _file(schema)})
    for table, column in cursor.fetchall():
        if table.rpartition(".")[2] in looked_at:
            continue
        yield warning(
            "deleted_files foreign keys",
            f"{table}.{column} refers to file and has no index, so each file that is deleted "
            f"reads the whole of {table}",
            f"CREATE INDEX CONCURRENTLY ON {table} ({column})",
        )


def _derived(
    query: DerivedSettings,
    references: Sequence[SourceSettings],
    database: Database,
    connection: Connection,
) -> Iterator[Finding]:
    name = f"derived {query.name}"
    try:
        with database.transaction(connection, read_only=True):
            DerivedObjects([query], connection).preflight()
    except SourceRefused as refused:
        yield failed(
            name,
            str(refused),
            "GRANT SELECT to the role of the jobs, name the schema of each table, or mend the "
            "query",
        )
        return
    yield ok(name, "PostgreSQL plans the query for the role of the jobs")
    yield _known_to_the_gate(name, query, references, database, connection)
    with database.transaction(connection, read_only=True) as cursor:
        # The operator's names are those of the role's own search path.
        cursor.execute("SET LOCAL search_path TO DEFAULT")
        for table in _tables(query.sql):
            yield from _table(name, query, table, database, cursor)


def _known_to_the_gate(
    name: str,
    query: DerivedSettings,
    references: Sequence[SourceSettings],
    database: Database,
    connection: Connection,
) -> Finding:
    check = f"{name} references"
    here = [source.sql for source in references if source.database is None]
    try:
        with database.transaction(connection, read_only=True):
            DerivedObjects([query], connection).require_sources(here, database.schema)
    except SourceRefused as refused:
        return failed(check, str(refused), "every run of deleted_files refuses until then")
    return ok(check, "the gate knows which keys rows name that stay")


def _table(
    name: str, query: DerivedSettings, table: str, database: Database, cursor: Cursor
) -> Iterator[Finding]:
    """Look at the column that the query compares with the ids of files."""
    columns = compared_columns(query.sql, table.rpartition(".")[2].strip('"'))
    if not columns:
        return
    cursor.execute(_TABLE, {"table": table, "column": columns[0], "file": _file(database.schema)})
    row = cursor.fetchone()
    if row is None:
        return
    found, indexed, cascades = row
    if not indexed:
        yield warning(
            f"{name} index",
            f"{found} has no index that begins with {columns[0]}, so each batch reads it as a "
            "whole while its files are locked",
            f"CREATE INDEX CONCURRENTLY ON {found} ({columns[0]})",
        )
    if not cascades:
        yield warning(
            f"{name} foreign key",
            f"{found}.{columns[0]} has no foreign key to file with ON DELETE CASCADE: rows stay "
            "behind and keep their objects, and one that comes while its file is claimed is "
            "neither seen nor refused",
            f"ALTER TABLE {found} ADD FOREIGN KEY ({columns[0]}) REFERENCES "
            f"{_file(database.schema)} ON DELETE CASCADE NOT VALID, then VALIDATE CONSTRAINT",
        )


def _tables(sql: str) -> list[str]:
    """The tables that a query reads, as it writes them."""
    try:
        query = parsed(sql)
    except NotOneStatement:
        return []
    common = {each.alias for each in query.find_all(exp.CTE)}
    found = {
        exp.table_(table.name, db=table.db or None, quoted=table.this.args.get("quoted")).sql(
            dialect="postgres"
        ): None
        for table in query.find_all(exp.Table)
        if isinstance(table.this, exp.Identifier) and table.name not in common
    }
    return list(found)


def _file(schema: str) -> str:
    return '"' + schema.replace('"', '""') + '".file'
