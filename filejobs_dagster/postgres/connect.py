"""Connections and transactions to the operator's database.

Every setting is made with SET LOCAL at the start of a transaction, never for a session: behind
PgBouncer in transaction mode a session setting would reach a stranger's transaction.

Beside them: the one clock, which is the database's, rows that must be there, and which failures of
a transaction pass, so that the same one is worth another try.
"""

from __future__ import annotations

import re
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeAlias, TypeVar

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from filejobs_dagster.text import Teaching

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

    from psycopg.errors import Diagnostic

Connection: TypeAlias = psycopg.Connection[TupleRow]

Reachable: TypeAlias = "Connection | Callable[[], Connection]"
"""A connection, or what gives the one that is open by now: a run makes its own anew."""


def reached(at: Reachable) -> Connection:
    """The connection that is meant at this moment."""
    return at if isinstance(at, psycopg.Connection) else at()


APPLICATION_NAME_BYTES = 63
"""PostgreSQL cuts `application_name` here (NAMEDATALEN - 1)."""

FREE_WITHIN = timedelta(seconds=10)
"""How long a transaction may take to begin. A server does that at once; behind a pooler whose
connections are all in use the client waits where no timeout of PostgreSQL's counts, and runs that
hold one connection and wait for another would wait for each other for ever."""

NEEDED_AT_ONCE = 3
"""Connections of a pool that one run needs: for its locks, for its work, and one now and then."""

WHAT_A_RUN_NEEDS = (
    "A run needs two connections of the pool at the same time and a third one now and then: "
    f"{NEEDED_AT_ONCE} for each live run that may be at work at once"
)

_KEEP_ALIVE: Mapping[str, int] = {
    "keepalives": 1,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    # Keep-alives are not sent while data is unacknowledged; without this limit, a partition of the
    # network would hold a statement for a quarter of an hour. Milliseconds.
    "tcp_user_timeout": 60_000,
}


_UNREADABLE = (psycopg.ProgrammingError, UnicodeError)
"""`%ba` in a password is no UTF-8 once it is decoded."""


_BEGINNING = """
SELECT set_config('search_path', %s, true),
       set_config('TimeZone', 'UTC', true),
       -- The only forms that the client reads; the order of day and month stays.
       set_config('DateStyle', 'ISO', true),
       set_config('IntervalStyle', 'postgres', true),
       set_config('lock_timeout', %s, true),
       set_config('statement_timeout', %s, true),
       -- A policy that hides rows must raise, not look like "nothing is due".
       set_config('row_security', 'off', true),
       set_config('idle_in_transaction_session_timeout', '5min', true),
       -- A COMMIT that warns is no commit (see CommitUnconfirmed): no role may silence that.
       set_config('client_min_messages', 'warning', true),
       -- Bytes go once this is committed, so it must outlive a crash, whatever role, database or
       -- server say. remote_apply waits for more than on does; all the others for less.
       set_config('synchronous_commit',
                  CASE current_setting('synchronous_commit')
                      WHEN 'remote_apply' THEN 'remote_apply'
                      ELSE 'on'
                  END, true)
"""


class DatabaseUnavailable(Teaching):
    """The database could not be reached; the message says where and what to check."""


class NoConnectionFree(psycopg.OperationalError):
    """A transaction did not begin in time; the connection is closed, and nothing was sent on it."""

    def __init__(self, where: str) -> None:
        super().__init__(
            f"At {where} no transaction began within {FREE_WITHIN.total_seconds():g} seconds: "
            "where a pooler such as PgBouncer stands between, all connections of its pool are in "
            f"use, or its server is away. {WHAT_A_RUN_NEEDS}. Make the pool larger (pool_size or "
            "default_pool_size of PgBouncer), or let fewer runs work at once; `filejobs doctor` "
            "tries how many there are."
        )


class CommitUnconfirmed(psycopg.OperationalError, Teaching):
    """A COMMIT came back, and its transaction may all the same be lost: no bytes may go for it.

    Nor may the transaction be tried again: on this server it has usually been committed.

    Attributes:
        said: The server's own sentence.
    """

    def __init__(self, said: str) -> None:
        super().__init__(
            f"PostgreSQL came back from COMMIT with a warning: {said}. What was written may be on "
            "this server alone, and is lost when another one takes over, so it is taken for not "
            "committed: nothing was deleted because of it. See that the standbys of "
            "synchronous_standby_names are there (docs/failover.md), then run the job again. Rows "
            "may be gone; taking their objects away is the task of storage_orphans."
        )
        self.said = said


class _Connection(psycopg.Connection[TupleRow]):
    """A connection on which no transaction waits for ever to begin."""

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **kwargs: Any) -> Any:
        """Do what psycopg does, and give up when there is no answer to what begins a transaction.

        Raises:
            NoConnectionFree: No answer came in time, or PgBouncer's own patience ended before.
        """
        if self.info.transaction_status is not TransactionStatus.IDLE:
            return super().wait(gen, *args, **kwargs)
        where = f"{self.info.host}:{self.info.port}/{self.info.dbname}"
        try:
            return super().wait(_answered(gen), *args, **kwargs)
        except (TimeoutError, psycopg.OperationalError) as error:
            if isinstance(error, TimeoutError) or "query_wait_timeout" in str(error):
                # The pooler must forget that this client stands in its queue.
                self.close()
                raise NoConnectionFree(where) from None
            raise


def _answered(gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """Drive one of psycopg's generators: it yields what it waits for, and is sent what is ready.

    Raises:
        TimeoutError: Nothing was ready for too long; psycopg looks several times a second.
    """
    latest = time.monotonic() + FREE_WITHIN.total_seconds()
    try:
        awaited = next(gen)
        while True:
            ready = yield awaited
            if not ready and time.monotonic() > latest:
                raise TimeoutError
            awaited = gen.send(ready)
    except StopIteration as end:
        return end.value


class RevealsSecret(Protocol):
    """A secret that gives its value only when asked."""

    def reveal(self) -> str:
        """Return the value."""
        ...


class DatabaseOptions(Protocol):
    """What `filejobs.yaml` says under `database`."""

    @property
    def url(self) -> RevealsSecret:
        """The connection string."""
        ...

    @property
    def schema_name(self) -> str:
        """The schema that holds the project's tables."""
        ...

    @property
    def connect_timeout(self) -> timedelta:
        """How long one connection attempt may take."""
        ...

    @property
    def statement_timeout(self) -> timedelta:
        """How long one statement may take."""
        ...

    @property
    def lock_timeout(self) -> timedelta:
        """How long one statement may wait for a lock."""
        ...

    @property
    def sslmode(self) -> str | None:
        """The libpq option of that name."""
        ...

    @property
    def sslrootcert(self) -> str | None:
        """The libpq option of that name."""
        ...

    @property
    def sslcert(self) -> str | None:
        """The libpq option of that name."""
        ...

    @property
    def sslkey(self) -> str | None:
        """The libpq option of that name."""
        ...


@dataclass(frozen=True)
class Database:
    """Where the project's tables are, and the limits under which they are used.

    Attributes:
        url: A libpq connection string or URL; a secret, never shown.
        schema: The schema that holds the project's tables.
        connect_timeout: Limit of one connection attempt.
        statement_timeout: Limit of one statement.
        lock_timeout: Limit of waiting for one lock.
        tls: libpq's TLS options, passed through (`sslmode`, `sslrootcert`, …).
        reads_only: True for sessions in which PostgreSQL refuses every change.
    """

    url: str = field(repr=False)
    schema: str = "public"
    connect_timeout: timedelta = timedelta(seconds=10)
    statement_timeout: timedelta = timedelta(seconds=30)
    lock_timeout: timedelta = timedelta(seconds=5)
    tls: Mapping[str, str] = field(default_factory=dict)
    reads_only: bool = False

    @classmethod
    def of(cls, options: DatabaseOptions) -> Database:
        """Build from the settings of `filejobs.yaml`."""
        tls = {
            "sslmode": options.sslmode,
            "sslrootcert": options.sslrootcert,
            "sslcert": options.sslcert,
            "sslkey": options.sslkey,
        }
        return cls(
            url=options.url.reveal(),
            schema=options.schema_name,
            connect_timeout=options.connect_timeout,
            statement_timeout=options.statement_timeout,
            lock_timeout=options.lock_timeout,
            tls={name: value for name, value in tls.items() if value is not None},
        )

    def elsewhere(self, url: str) -> Database:
        """A database of the operator's, with these limits; its URL holds its TLS."""
        return replace(self, url=url, tls={})

    def connect(self, purpose: str) -> Connection:
        """Open a connection in autocommit mode; transactions are opened by `transaction`.

        What begins a transaction on it, a lone statement too, raises `NoConnectionFree` when there
        is no answer within `FREE_WITHIN`.

        Args:
            purpose: Appears as `application_name` behind `filejobs/`, cut to 63 bytes.

        Raises:
            DatabaseUnavailable: The connection could not be made.
        """
        url = self._readable_url(purpose)
        conninfo = make_conninfo(
            url,
            connect_timeout=max(1, round(self.connect_timeout.total_seconds())),
            application_name=application_name(purpose),
            **self.tls,
            **_KEEP_ALIVE,
            **({"options": _only_reading(url)} if self.reads_only else {}),
        )
        try:
            # PgBouncer in transaction mode gives each transaction another server, where a
            # statement that was prepared before does not exist.
            connection = _Connection.connect(conninfo, autocommit=True, prepare_threshold=None)
        except psycopg.Error as error:
            raise DatabaseUnavailable(
                f"Could not connect to PostgreSQL at {self.address()} for {purpose}: "
                f"{type(error).__name__}: {_without_newlines(error)}. "
                "Check that the server runs, that the address and the role in the database "
                "variable are right, and that the server accepts more connections."
            ) from error
        # A claim must see what others have committed meanwhile, whatever the role's default says.
        connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
        return connection

    def _readable_url(self, purpose: str) -> str:
        """The URL, once it is certain that no later message can quote a piece of the password."""
        try:
            complaint = _misread(self.url, conninfo_to_dict(self.url))
        except _UNREADABLE as error:
            # libpq quotes what it stumbled over, and that is as often as not the password.
            complaint = re.sub(r'"[\s\S]*"', "(not shown)", _without_newlines(error))
        if complaint is None:
            return self.url
        raise DatabaseUnavailable(
            f"Could not connect to PostgreSQL for {purpose}: the address in the database variable "
            f"cannot be read: {complaint}. It looks like postgresql://role:password@host:5432/name;"
            " in the password write @ as %40, / as %2F, : as %3A and % as %25."
        ) from None

    def address(self) -> str:
        """Host, port and database name, without the role's password."""
        try:
            parts = conninfo_to_dict(self.url)
        except _UNREADABLE:
            return "an address that libpq cannot read"
        if _misread(self.url, parts) is not None:
            return "an address that libpq misreads"
        host = parts.get("host") or parts.get("hostaddr") or "the default socket"
        return f"{host}:{parts.get('port') or 5432}/{parts.get('dbname') or ''}"

    @contextmanager
    def transaction(
        self, connection: Connection, *, read_only: bool = False, unlimited: bool = False
    ) -> Iterator[psycopg.Cursor[TupleRow]]:
        """Open one transaction with this database's limits, and commit it at the end.

        Args:
            connection: One of `connect`.
            read_only: Make PostgreSQL refuse every write.
            unlimited: Leave out the statement timeout (a migration may take its time).

        Yields:
            A cursor inside the transaction.

        Raises:
            NoConnectionFree: It did not begin: a pooler had no connection for it.
            CommitUnconfirmed: COMMIT came back with a warning.
            psycopg.Error: The transaction was rolled back, or the connection broke.
        """
        warnings: list[str] = []

        def note(said: Diagnostic) -> None:
            # It is read here, because it is gone when the handler returns. A warning of a deferred
            # trigger has no say in the commit, and is told by its context: where it was raised.
            if said.severity_nonlocalized == "WARNING" and not said.context:
                warnings.append(said.message_primary or "(no text)")

        connection.add_notice_handler(note)
        try:
            with connection.transaction(), connection.cursor() as cursor:
                cursor.execute(
                    _BEGINNING,
                    (
                        # pg_temp last: a temporary table of that name must not shadow ours.
                        sql.Identifier(self.schema).as_string(connection) + ", pg_temp",
                        _milliseconds(self.lock_timeout),
                        "0" if unlimited else _milliseconds(self.statement_timeout),
                    ),
                )
                if read_only or self.reads_only:
                    cursor.execute("SET TRANSACTION READ ONLY")
                yield cursor
                if connection.info.transaction_status is TransactionStatus.INERROR:
                    # Somebody caught the error. PostgreSQL answers such a COMMIT with ROLLBACK,
                    # which the client library takes for a success.
                    raise psycopg.errors.InFailedSqlTransaction(
                        "A statement of this transaction failed, so it cannot be committed: it was "
                        "rolled back."
                    )
                # What came so far was said by statements. What comes now, COMMIT says.
                warnings.clear()
        finally:
            connection.remove_notice_handler(note)
        if warnings:
            raise CommitUnconfirmed(warnings[0])


READ_ONLY_OPTION = "-c default_transaction_read_only=on"
"""As libpq's `options`, also in PGOPTIONS: transactions of the session are read-only unless one
asks for more."""


def _only_reading(url: str) -> str:
    known = conninfo_to_dict(url).get("options")
    return f"{known} {READ_ONLY_OPTION}" if known else READ_ONLY_OPTION


def application_name(purpose: str) -> str:
    """`filejobs/` and the purpose, within what PostgreSQL keeps of an application name."""
    return f"filejobs/{purpose}".encode()[:APPLICATION_NAME_BYTES].decode(errors="ignore")


def close_after_interrupt(connection: Connection) -> None:
    """End a connection whose statement may still run.

    An interrupt in this process does not reach the server: without a cancel the statement goes
    on and keeps its locks.
    """
    if connection.closed:
        return
    try:
        connection.cancel_safe(timeout=5)
    except psycopg.Error as error:
        sys.stderr.write(f"filejobs: could not cancel the running statement: {error}\n")
    connection.close()


def _misread(url: str, parts: Mapping[str, object]) -> str | None:
    """Say where libpq has taken a piece of an unescaped password for something else."""
    if "@" in str(parts.get("host") or "")[1:]:
        return "there is an @ in the host"
    if not re.fullmatch(r"[0-9,]*", str(parts.get("port") or "")):
        return "the port is not a number"
    if "://" in url and "%40" not in url and "@" in str(parts.get("dbname") or ""):
        return "there is an @ in the database's name"
    return None


def _milliseconds(duration: timedelta) -> str:
    return f"{round(duration.total_seconds() * 1000)}ms"


def _without_newlines(error: BaseException) -> str:
    return " ".join(str(error).split())


# Reading rows that must be there.


def one(cursor: psycopg.Cursor[TupleRow]) -> tuple[Any, ...]:
    """Return the row that the statement must have given.

    Raises:
        LookupError: There was none; the statement's meaning was misjudged.
    """
    row = cursor.fetchone()
    if row is None:
        raise LookupError("PostgreSQL returned no row where one was certain")
    return row


# The one clock: the database's.


def database_now(cursor: psycopg.Cursor[TupleRow]) -> datetime:
    """Return the database's time with its time zone.

    `clock_timestamp()`, not `now()`: the latter is the start of the transaction.
    """
    cursor.execute("SELECT clock_timestamp()")
    moment = one(cursor)[0]
    if not isinstance(moment, datetime):  # pragma: no cover - psycopg's own contract
        raise TypeError(f"clock_timestamp() gave {type(moment).__name__}")
    return moment


# Failures of a transaction that pass: the same transaction is worth another try.

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

TRANSIENT = (
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
    psycopg.errors.LockNotAvailable,
)
"""All of them are raised before a commit, never by one: trying again cannot do a thing twice.

`CommitUnconfirmed` is none of them: on this server its transaction has been committed.
"""

TRIES = 4


def trying_again(
    transaction: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs
) -> Result:
    """Run a function that is one transaction, up to four times.

    Raises:
        psycopg.Error: The last try failed, or a try failed for a reason that does not pass.
    """
    attempts = Retrying(
        retry=retry_if_exception_type(TRANSIENT),
        stop=stop_after_attempt(TRIES),
        wait=wait_random_exponential(multiplier=0.1, max=2),
        reraise=True,
    )
    return attempts(transaction, *args, **kwargs)
