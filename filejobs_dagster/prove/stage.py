"""Where the claims are tried: schemas of their own in a PostgreSQL, and a bucket in memory.

Each scene is a freshly migrated schema with a random name, dropped when the scene ends, however it
ends. Nothing else on the server is read or written.

What several claims do there is here too: threads at the same moment, statements seen and
interrupted, an application's uploads, history and its reading.
"""

from __future__ import annotations

import itertools
import os
import secrets
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import psycopg
from psycopg import sql
from psycopg.rows import TupleRow

from filejobs_dagster.embedded.environment import is_foreign
from filejobs_dagster.jobs import upload_cleanup
from filejobs_dagster.ledger.standing import Expectation, Standing, standings
from filejobs_dagster.postgres.connect import Connection, Database, DatabaseUnavailable
from filejobs_dagster.postgres.migrate import migrate
from filejobs_dagster.prove.evidence import NotShown
from filejobs_dagster.prove.store import INSTALLATION, PREFIX, Store
from filejobs_dagster.prove.workplace import run_in_bucket
from filejobs_dagster.uploads import Uploads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from concurrent.futures import Future
    from uuid import UUID

    from typing_extensions import Self

    from filejobs_dagster.embedded.s3 import EmbeddedS3
    from filejobs_dagster.ledger.outcome import Mode, Outcome
    from filejobs_dagster.prove.workplace import Workplace

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


# Doing a thing in several threads at the same moment.

T = TypeVar("T")

SECONDS_TO_MEET = 30.0


def together(count: int, work: Callable[[int, threading.Barrier], T]) -> list[T]:
    """Run `work` in `count` threads that share a barrier, and return what each gave.

    Raises:
        BaseException: The first failure of a thread that was not caused by another's.
    """
    barrier = threading.Barrier(count, timeout=SECONDS_TO_MEET)

    def guarded(number: int) -> T:
        try:
            return work(number, barrier)
        except BaseException:
            # The others must not wait for a thread that will never come.
            barrier.abort()
            raise

    with ThreadPoolExecutor(count, thread_name_prefix="filejobs-prove") as pool:
        futures = [pool.submit(guarded, number) for number in range(count)]
        wait(futures)
    errors = [error for future in futures if (error := future.exception()) is not None]
    errors.sort(key=lambda error: isinstance(error, threading.BrokenBarrierError))
    if errors:
        raise errors[0]
    return [future.result() for future in futures]


# Seeing that one backend has to wait for another.

SECONDS_TO_BLOCK = 20.0

_WAITS = "SELECT cardinality(pg_blocking_pids(%(pid)s)) > 0"


def has_to_wait(scene: Scene, process: Future[int], working: Future[Any]) -> bool:
    """Look until a backend waits for another one, or has done its work without waiting.

    Args:
        scene: Where it works.
        process: Its process id, as soon as it is known.
        working: Its work.

    Raises:
        NotShown: It did neither for long.
    """
    deadline = time.monotonic() + SECONDS_TO_BLOCK
    while not working.done():
        if time.monotonic() > deadline:
            raise NotShown("the second backend neither waited nor finished")
        if process.done() and scene.value(_WAITS, {"pid": process.result()}):
            return True
        time.sleep(0.01)
    return False


# Seeing, and interrupting, the statements that the project's own functions execute.


def watch(connection: Connection, before: Callable[[str], None] | None = None) -> list[str]:
    """Record every statement that the connection's cursors execute from now on.

    What a report shows as the guarded statement is therefore what PostgreSQL was given, never a
    copy that may have grown old.

    Args:
        connection: Its later cursors are watched.
        before: Called with each statement right before it is sent: where an interleaving happens.

    Returns:
        The list that the statements are added to.
    """
    seen: list[str] = []

    class WatchedCursor(psycopg.Cursor[TupleRow]):
        def execute(self, query: Any, params: Any = None, **options: Any) -> Self:
            text = _text(query, self)
            if before is not None:
                before(text)
            seen.append(text)
            return super().execute(query, params, **options)

    connection.cursor_factory = WatchedCursor
    return seen


def those_that(statements: list[str], *beginnings: str) -> str:
    """The different statements that begin in one of these ways, in the order of execution."""
    chosen = [
        statement
        for statement in dict.fromkeys(map(str.strip, statements))
        if statement.startswith(beginnings)
    ]
    return ";\n\n".join(chosen) if chosen else "(no such statement was executed)"


def _text(query: Any, cursor: psycopg.Cursor[TupleRow]) -> str:
    if isinstance(query, bytes):
        return query.decode()
    return query.as_string(cursor) if isinstance(query, sql.Composable) else str(query)


# What an application does with uploads, and the project's upload_cleanup afterwards.


def store_upload(scene: Scene, store: Store, body: bytes = b"a document") -> UUID:
    """Begin an upload, send its bytes, say that they are stored; return the row's id."""
    with scene.connect("application") as connection:
        with scene.database.transaction(connection) as cursor:
            begun = Uploads(cursor, scene.database.schema).begin(PREFIX, ".pdf")
        answer = store.client.put_object(Bucket=store.name, Key=begun.key, Body=body)
        with scene.database.transaction(connection) as cursor:
            Uploads(cursor, scene.database.schema).mark_stored(
                begun.id, etag=answer["ETag"], size_bytes=len(body)
            )
    return begun.id


def clean_up(scene: Scene, store: Store) -> Outcome:
    """Run `upload_cleanup` live.

    Raises:
        NotShown: It failed.
    """

    def body(at: Workplace) -> Outcome:
        storage = upload_cleanup.Storage(store.name, store.client, at.gate, at.references)
        return upload_cleanup.run(at.context, upload_cleanup.UploadCleanupRun(), storage)

    return run_in_bucket(scene, store, upload_cleanup.JOB, body)


# What two of the claims about standing share: history, and the project's reading of it.

STALE_AFTER = timedelta(hours=26)

_RECORD_DAILY = """
INSERT INTO job_run
    (run_id, installation, job, started_at, finished_at, outcome, mode, scanned, acted, detail)
SELECT %(job)s || '/' || day, %(installation)s, %(job)s,
       now() - (%(newest)s + day * interval '1 day') - interval '1 minute',
       now() - (%(newest)s + day * interval '1 day'),
       'ok', %(mode)s, 12, CASE WHEN %(mode)s = 'live' THEN 12 ELSE 0 END,
       '{"window": {"covers": "everything"}}'
  FROM generate_series(%(days)s::integer - 1, 0, -1) AS day
"""


@dataclass(frozen=True)
class Reading:
    """What the project says of some jobs.

    Attributes:
        statement: The query that it executed.
        by_job: Each job's standing.
    """

    statement: str
    by_job: dict[str, Standing]


def record_daily(
    scene: Scene, job: str, *, mode: Mode, days: int, newest: timedelta = timedelta(0)
) -> None:
    """Record one successful run a day, the newest of them `newest` ago."""
    scene.rows(
        _RECORD_DAILY,
        {
            "job": job,
            "installation": INSTALLATION,
            "mode": mode,
            "days": days,
            "newest": newest,
        },
    )


def read_standings(scene: Scene, jobs: Sequence[str], mode: Mode = "live") -> Reading:
    """Ask the project how the jobs stand, each with a threshold of `STALE_AFTER`."""
    expected = [
        Expectation(job, configured=True, mode=mode, stale_after=STALE_AFTER) for job in jobs
    ]
    with scene.connect("standing") as connection:
        statements = watch(connection)
        with scene.database.transaction(connection, read_only=True) as cursor:
            found = standings(cursor, INSTALLATION, expected)
    return Reading(
        those_that(statements, "SELECT expected.job"),
        {standing.job: standing for standing in found},
    )
