"""Numbered SQL files, applied once, in order, under a lock, and never changed afterwards."""

from __future__ import annotations

import hashlib
import re
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING

from psycopg import errors, sql

from filejobs_dagster.postgres.connect import Database, one
from filejobs_dagster.text import Teaching

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import psycopg
    from psycopg.rows import TupleRow

_NAME = re.compile(r"^(?P<number>\d{4})_[a-z0-9_]+\.sql$")

# What keeps writers of a table out, or all of its readers too, until the transaction is over.
_LOCKS = re.compile(
    r"^\s*(?:ALTER TABLE(?: ONLY)?|LOCK(?: TABLE)?|CREATE (?:UNIQUE )?INDEX \w+\s+ON"
    r"|CREATE(?: OR REPLACE)? TRIGGER .*?\sON)\s+(\w+)",
    re.MULTILINE | re.DOTALL,
)

LARGE = 100 * 1024**2
"""Bytes, indexes included, from which on `locked` names a table."""

LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('filejobs/migrate', 0))"

RECORD_TABLE = """
CREATE TABLE IF NOT EXISTS filejobs_migration (
    number     integer PRIMARY KEY,
    name       text NOT NULL,
    checksum   text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
)
"""


class MigrationRefused(Teaching):
    """The database and the files disagree; nothing was applied."""


@dataclass(frozen=True)
class Migration:
    """One numbered file.

    Attributes:
        number: Its place in the order, from 1 without gaps.
        name: The file's name.
        text: Its SQL.
    """

    number: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        """SHA-256 of the text, in hexadecimal."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def shipped() -> tuple[Migration, ...]:
    """Return the migrations of this version, in order.

    Raises:
        MigrationRefused: A file's name or number breaks the sequence.
    """
    folder = resources.files("filejobs_dagster.postgres") / "migrations"
    found = []
    for entry in folder.iterdir():
        match = _NAME.match(entry.name)
        if match:
            text = entry.read_text(encoding="utf-8")
            found.append(Migration(int(match["number"]), entry.name, text))
    found.sort(key=lambda migration: migration.number)
    numbers = [migration.number for migration in found]
    if numbers != list(range(1, len(found) + 1)):
        raise MigrationRefused(f"The shipped migrations are not numbered 1, 2, 3 …: {numbers}")
    return tuple(found)


# What a migration wants before it, of a table on which its own lock would be held for too long.
_BEFOREHAND = re.compile(r"^((?:CREATE|REINDEX) INDEX CONCURRENTLY .*);$", re.MULTILINE)


def migrate(
    url: str,
    schema: str = "public",
    *,
    available: Sequence[Migration] | None = None,
    beforehand: Callable[[str], None] | None = None,
) -> list[Migration]:
    """Bring the schema to this version, in one transaction, and return what was applied.

    Two callers at once wait for each other: the second finds nothing to do.

    Args:
        url: The database; the role needs CREATE on the schema.
        schema: Made when it does not exist.
        available: Other migrations than the shipped ones (for tests).
        beforehand: Told of each index of a large table before it is built CONCURRENTLY, which locks
            out nobody and may take long. None: a migration that wants one is refused, with the
            statement as its hint.

    Raises:
        MigrationRefused: An applied file was changed, or the database is ahead of this version.
        psycopg.Error: A statement failed; nothing of the run was kept but indexes that were built
            beforehand, which are used next time.
    """
    database = Database(url, schema)
    try:
        return _apply(database, shipped() if available is None else available)
    except errors.ObjectNotInPrerequisiteState as refused:
        wanted = _BEFOREHAND.findall(refused.diag.message_hint or "")
        if beforehand is None or not wanted:
            raise
    with database.connect("indexes before a migration") as connection:
        connection.execute("SET statement_timeout = 0")
        for statement in wanted:
            beforehand(statement)
            # Another caller may have built it meanwhile.
            with suppress(errors.DuplicateTable):
                connection.execute(statement.encode())
    return _apply(database, shipped() if available is None else available)


def _apply(database: Database, available: Sequence[Migration]) -> list[Migration]:
    with (
        database.connect("migrate") as connection,
        database.transaction(connection, unlimited=True) as cursor,
    ):
        _wait_for_other_migrations(cursor)
        if not _schema_exists(cursor, database.schema):
            cursor.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(database.schema)))
        cursor.execute(RECORD_TABLE)
        outstanding = _outstanding(cursor, available)
        for migration in outstanding:
            # The text is a file of this package and holds no parameters.
            cursor.execute(migration.text.encode())
            cursor.execute(
                "INSERT INTO filejobs_migration (number, name, checksum) VALUES (%s, %s, %s)",
                (migration.number, migration.name, migration.checksum),
            )
    return outstanding


def outstanding(database: Database) -> list[Migration]:
    """Return what `migrate` would apply, without writing anything.

    Raises:
        MigrationRefused: An applied file was changed, or the database is ahead of this version.
        DatabaseUnavailable: The database could not be reached.
    """
    with (
        database.connect("a look at the migrations") as connection,
        database.transaction(connection, read_only=True) as cursor,
    ):
        return outstanding_in(cursor)


def outstanding_in(cursor: psycopg.Cursor[TupleRow]) -> list[Migration]:
    """The same, in a transaction of the database.

    Raises:
        MigrationRefused: An applied file was changed, or the database is ahead of this version.
    """
    cursor.execute("SELECT to_regclass('filejobs_migration') IS NOT NULL")
    return _outstanding(cursor, shipped()) if one(cursor)[0] else list(shipped())


def locked(
    cursor: psycopg.Cursor[TupleRow], migrations: Sequence[Migration], large: int = LARGE
) -> list[str]:
    """Which large tables the migrations lock until they are over, each in half a sentence.

    Args:
        cursor: In a transaction of the database.
        migrations: That are outstanding.
        large: From how many bytes on a table counts.
    """
    found = []
    for migration in migrations:
        for table in dict.fromkeys(_LOCKS.findall(migration.text)):
            cursor.execute(
                "SELECT pg_size_pretty(size)"
                "  FROM pg_total_relation_size(to_regclass(%s)) AS size WHERE size >= %s",
                (table, large),
            )
            row = cursor.fetchone()
            if row is not None:
                found.append(f"{migration.name} locks {table} ({row[0]})")
    return found


def _wait_for_other_migrations(cursor: psycopg.Cursor[TupleRow]) -> None:
    """Take the lock, however long another caller's migrations need; then limit waiting again."""
    cursor.execute("SELECT current_setting('lock_timeout'), set_config('lock_timeout', '0', true)")
    usual = one(cursor)[0]
    cursor.execute(LOCK)
    cursor.execute("SELECT set_config('lock_timeout', %s, true)", (usual,))


def _schema_exists(cursor: psycopg.Cursor[TupleRow], schema: str) -> bool:
    cursor.execute("SELECT FROM pg_namespace WHERE nspname = %s", (schema,))
    return cursor.fetchone() is not None


def _outstanding(
    cursor: psycopg.Cursor[TupleRow], available: Sequence[Migration]
) -> list[Migration]:
    cursor.execute("SELECT number, name, checksum FROM filejobs_migration ORDER BY number")
    by_number = {migration.number: migration for migration in available}
    applied = set()
    for number, name, checksum in cursor.fetchall():
        migration = by_number.get(number)
        if migration is None:
            raise MigrationRefused(
                f"The database has migration {number} ({name}), which this version does not "
                "know. A newer version of filejobs_dagster migrated it: install that version."
            )
        if migration.checksum != checksum:
            raise MigrationRefused(
                f"{migration.name} was changed after it had been applied (applied "
                f"{checksum[:12]}…, now {migration.checksum[:12]}…). Restore the file; a change "
                "of the schema needs a new numbered file."
            )
        applied.add(number)
    return [migration for migration in available if migration.number not in applied]
