"""Where the claims are tried: schemas of their own in a PostgreSQL, and a bucket in memory.

Each scene is a freshly migrated schema with a random name, dropped when the scene ends, however it
ends. Nothing else on the server is read or written.
"""

from __future__ import annotations

import itertools
import os
import secrets
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from filejobs_dagster.embedded.environment import is_foreign
from filejobs_dagster.postgres.connect import Connection, Database, DatabaseUnavailable
from filejobs_dagster.postgres.migrate import migrate
from filejobs_dagster.prove.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from filejobs_dagster.embedded.s3 import EmbeddedS3

SCHEMA_PREFIX = "filejobs_prove_"

PATIENCE = timedelta(seconds=30)
"""How long to wait for the locks of a backend whose client was killed a moment ago."""


class StageUnavailable(Exception):
    """The server cannot be used for this; the message says what to do."""


class SchemaLeftBehind(Exception):
    """A schema could not be dropped; the message names it."""


@dataclass(frozen=True)
class Scene:
    """One schema with the project's tables, empty at the beginning.

    Attributes:
        database: The schema, for the project's own functions.
    """

    database: Database

    @contextmanager
    def connect(self, purpose: str) -> Iterator[Connection]:
        """Open a backend of its own, closed at the end."""
        connection = self.database.connect(f"prove {purpose}")
        try:
            yield connection
        finally:
            connection.close()

    def rows(
        self, statement: str, values: Mapping[str, Any] | None = None
    ) -> list[tuple[Any, ...]]:
        """Execute one statement in a transaction of its own and return its rows, if it has any."""
        with (
            self.connect("observer") as connection,
            self.database.transaction(connection) as cursor,
        ):
            cursor.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else []

    def value(self, statement: str, values: Mapping[str, Any] | None = None) -> Any:
        """The first value of a statement's only row.

        Raises:
            LookupError: There was not exactly one row.
        """
        (row,) = self.rows(statement, values) or [()]
        if not row:
            raise LookupError(f"PostgreSQL returned no row for: {statement}")
        return row[0]


class Stage:
    """A server on which scenes are set; `open_stage` makes one."""

    def __init__(self, url: str, *, embedded: bool, closing: ExitStack) -> None:
        """Internal: use `open_stage`."""
        self.url = url
        self.embedded = embedded
        self._closing = closing
        self._token = secrets.token_hex(4)
        self._numbers = itertools.count(1)

    def server(self) -> str:
        """What the claims are tried on, in words without a secret.

        Raises:
            DatabaseUnavailable: The server cannot be reached.
        """
        with Database(self.url).connect("prove") as connection:
            version = str(connection.info.parameter_status("server_version")).split(" ")[0]
        where = "temporary, embedded" if self.embedded else "a server of your own"
        return f"PostgreSQL {version} ({where})"

    @contextmanager
    def scene(self) -> Iterator[Scene]:
        """Make a migrated schema, and drop it at the end.

        Raises:
            StageUnavailable: The role may not create a schema.
            SchemaLeftBehind: The schema could not be dropped.
        """
        schema = f"{SCHEMA_PREFIX}{self._token}_{next(self._numbers)}"
        try:
            try:
                migrate(self.url, schema)
            except psycopg.errors.InsufficientPrivilege as error:
                raise StageUnavailable(
                    f"The schema {schema} could not be made: {error.diag.message_primary}. The "
                    "role needs CREATE on the database: GRANT CREATE ON DATABASE … TO …, or leave "
                    "--database-url-env out for a temporary server."
                ) from error
            yield Scene(Database(self.url, schema, lock_timeout=PATIENCE))
        finally:
            self._drop(schema)

    @cached_property
    def _s3(self) -> EmbeddedS3:
        from filejobs_dagster.embedded.s3 import EmbeddedS3  # noqa: PLC0415 (a second, not always needed)

        server = EmbeddedS3.start()
        self._closing.callback(server.stop)
        return server

    def store(self) -> Store:
        """Make an empty bucket on a real S3 server in this process, started on first use."""
        return Store.create(self._s3)

    def child_environment(self, scene: Scene, store: Store) -> dict[str, str]:
        """The environment of a process that works in this scene."""
        kept = {
            name: value
            for name, value in os.environ.items()
            # What libpq reads may be how a server of one's own is reached.
            if not is_foreign(name) or (name.startswith("PG") and not self.embedded)
        }
        return {
            **kept,
            **self._s3.environment(),
            "FILEJOBS_PROVE_DATABASE_URL": self.url,
            "FILEJOBS_PROVE_SCHEMA": scene.database.schema,
            "FILEJOBS_PROVE_BUCKET": store.name,
        }

    def _drop(self, schema: str) -> None:
        database = Database(self.url, lock_timeout=PATIENCE)
        try:
            with (
                database.connect("prove drops its schema") as connection,
                database.transaction(connection, unlimited=True) as cursor,
            ):
                cursor.execute(
                    sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema))
                )
        except (psycopg.Error, DatabaseUnavailable) as error:
            raise SchemaLeftBehind(
                f"The schema {schema} could not be dropped: {error}. "
                f"Do it by hand: DROP SCHEMA IF EXISTS {schema} CASCADE"
            ) from error


@contextmanager
def open_stage(url: str | None = None) -> Iterator[Stage]:
    """Give a stage on the server behind `url`, or on a temporary one that goes at the end.

    Raises:
        EmbeddedExtraMissingError: The extra `embedded` is not installed.
        EmbeddedPostgresError: The temporary server did not start.
    """
    with ExitStack() as closing:
        if url is None:
            from filejobs_dagster.embedded.postgres import EmbeddedPostgres  # noqa: PLC0415

            server = closing.enter_context(EmbeddedPostgres.start(durable=False))
            yield Stage(server.url(), embedded=True, closing=closing)
        else:
            yield Stage(url, embedded=False, closing=closing)
