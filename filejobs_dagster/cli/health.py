"""`filejobs live` and `filejobs ready`: what a container asks itself.

Each look asks one process and answers yes or no with a reason: code server, webserver, daemon,
Dagster's storage, and the project's database, migrated as far as this version needs.
"""

from __future__ import annotations

import http.client
import json
import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Annotated, NoReturn

import grpc
import psycopg
import typer
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from filejobs_dagster.cli import terminal
from filejobs_dagster.cli.terminal import print_error
from filejobs_dagster.postgres.connect import Database, DatabaseUnavailable
from filejobs_dagster.postgres.migrate import MigrationRefused, outstanding
from filejobs_dagster.text import sanitize, sanitize_exception
from filejobs_dagster.variables import VariableUnusable, variable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from psycopg.rows import TupleRow

    from filejobs_dagster.settings import Settings

STORAGE_VARIABLE = "FILEJOBS_DAGSTER_URL"
"""The variable in which the project's dagster.yaml looks for the address of its storage."""

CODE_PORT = 4000
WEB_PORT = 3000
TOLERANCE = 90
"""Seconds: three of the daemon's heartbeats."""


class Process(str, Enum):
    """What can be alive."""

    CODE = "code"
    WEBSERVER = "webserver"
    DAEMON = "daemon"


class Service(str, Enum):
    """What can be ready."""

    CODE = "code"
    WEBSERVER = "webserver"
    DAEMON = "daemon"
    DATABASE = "database"


_Host = Annotated[str, typer.Option("--host", help="Where code server or webserver listens.")]
_Port = Annotated[
    int | None,
    typer.Option(
        "--port",
        min=1,
        max=65535,
        help=f"Its port; {CODE_PORT} for code, {WEB_PORT} for webserver.",
        show_default=False,
    ),
]
_Prefix = Annotated[
    str, typer.Option("--path-prefix", help="As dagster-webserver was given it, such as /ops.")
]
_Timeout = Annotated[
    int, typer.Option("--timeout", min=1, max=60, help="Seconds to wait for an answer.")
]
_Tolerance = Annotated[
    int,
    typer.Option(
        "--tolerance",
        min=31,
        max=86400,
        help="daemon: seconds since the last heartbeat; one is due every 30.",
    ),
]
_Parts = Annotated[
    list[str] | None,
    typer.Option(
        "--part",
        help="daemon: a part that must show itself, such as SENSOR; may be repeated. Without it "
        "those that the project's dagster.yaml turns on.",
        show_default=False,
    ),
]


def live(
    what: Annotated[Process, typer.Argument(help="The process.")],
    host: _Host = "127.0.0.1",
    port: _Port = None,
    path_prefix: _Prefix = "",
    timeout: _Timeout = 5,
    tolerance: _Tolerance = TOLERANCE,
    part: _Parts = None,
) -> None:
    """Is a process of this installation alive? For the health checks of containers.

    code asks the code server's gRPC port, webserver asks /server_info, daemon reads the heartbeats
    in Dagster's storage, whose address stands in FILEJOBS_DAGSTER_URL. Reads no settings, imports
    no Dagster, and takes a fraction of a second. A process that is not alive is to be restarted;
    whether it can also do its work is what `filejobs ready` asks.

    [bold]Examples[/bold]
      filejobs live code --port 4000
      filejobs live webserver --port 3000 --path-prefix /ops
      filejobs live daemon --tolerance 90

    [bold]Exit codes[/bold]
      0   alive
      1   not alive, with the reason on standard error
      64  called wrongly
    """
    within = timedelta(seconds=timeout)
    if what is Process.DAEMON:
        _end(_daemon(_storage(within), tolerance, part))
    _end(_server(Service(what.value), host, port, path_prefix, within))


def ready(
    context: typer.Context,
    what: Annotated[Service, typer.Argument(help="The process, or the project's database.")],
    host: _Host = "127.0.0.1",
    port: _Port = None,
    path_prefix: _Prefix = "",
    timeout: _Timeout = 5,
    tolerance: _Tolerance = TOLERANCE,
    part: _Parts = None,
) -> None:
    """Can a process of this installation do its work? For readiness probes and deployments.

    database: filejobs.yaml has no mistake, the database answers, and every migration is applied.
    code: that, and the code server serves. webserver: it answers, and so does Dagster's storage.
    daemon: every part of it showed itself lately. What is not ready waits for something else; a
    restart does not help.

    [bold]Examples[/bold]
      filejobs ready database
      filejobs ready code --port 4000

    [bold]Exit codes[/bold]
      0   ready
      1   not ready, with the reason on standard error
      64  called wrongly
    """
    within = timedelta(seconds=timeout)
    if what is Service.DAEMON:
        _end(_daemon(_storage(within), tolerance, part))
    if what is Service.DATABASE:
        _end(_database(context))
    server = _server(what, host, port, path_prefix, within)
    if not server.well:
        _end(server)
    behind = _database(context) if what is Service.CODE else dagster_storage(_storage(within))
    _end(all_of(server, behind))


def _server(
    what: Service, host: str, port: int | None, path_prefix: str, timeout: timedelta
) -> Answer:
    if what is Service.CODE:
        return code_server(host, port or CODE_PORT, timeout)

    return webserver(host, port or WEB_PORT, timeout, path_prefix)


def _daemon(storage: DagsterStorage, tolerance: int, parts: list[str] | None) -> Answer:

    return daemon(storage, timedelta(seconds=tolerance), parts or EXPECTED_DAEMONS)


def _database(context: typer.Context) -> Answer:
    from filejobs_dagster.cli.terminal import Invocation  # noqa: PLC0415 (live reads no settings)

    invocation = Invocation.of(context)
    return database(invocation.require(), invocation.secrets)


def _storage(timeout: timedelta) -> DagsterStorage:

    try:
        url = variable(STORAGE_VARIABLE, os.environ)
    except VariableUnusable as error:
        print_error(f"NOT OK - {error}")
        raise typer.Exit(terminal.FAILED) from None
    if not url:
        print_error(
            f"NOT OK - {STORAGE_VARIABLE} is not set, so nobody knows where Dagster keeps its "
            "heartbeats. Set it as for the daemon; where Dagster's storage is not PostgreSQL, use "
            "`dagster-daemon liveness-check`."
        )
        raise typer.Exit(terminal.FAILED)
    return DagsterStorage(url, timeout)


def _end(answer: Answer) -> NoReturn:
    if not answer.well:
        print_error(str(answer))
        raise typer.Exit(terminal.FAILED)
    typer.echo(str(answer))
    raise typer.Exit(terminal.OK)


# What a look at one process found.


@dataclass(frozen=True)
class Answer:
    """Yes or no, and what was seen.

    Attributes:
        well: True for yes.
        said: One line: what was asked, and what came back. Without secrets.
    """

    well: bool
    said: str

    def __str__(self) -> str:
        return f"{'OK' if self.well else 'NOT OK'} - {self.said}"


def yes(said: str) -> Answer:
    """It is well."""
    return Answer(well=True, said=said)


def no(said: str) -> Answer:
    """It is not."""
    return Answer(well=False, said=said)


def all_of(*answers: Answer) -> Answer:
    """The first that says no, else all of them as one."""
    for answer in answers:
        if not answer.well:
            return answer
    return yes("; ".join(answer.said for answer in answers))


# The code server: the health service that every gRPC server of Dagster answers.

# No stubs are shipped with it.


_METHOD = "/grpc.health.v1.Health/Check"
_SERVICE = b"DagsterApi"

# The messages of grpc.health.v1, each with one field of number 1: the name of the service in the
# request, the status in the answer. Spelled out, they need no compiled schema to be imported.
_REQUEST = b"\x0a" + bytes([len(_SERVICE)]) + _SERVICE
_SERVING = b"\x08\x01"


def code_server(host: str, port: int, timeout: timedelta) -> Answer:
    """Ask whether a code server serves; it does not answer while it loads its definitions."""
    where = f"code server at {host}:{port}"
    with grpc.insecure_channel(f"{host}:{port}") as channel:
        check = channel.unary_unary(_METHOD, lambda message: message, lambda message: message)
        try:
            answer = check(_REQUEST, timeout=timeout.total_seconds())
        except grpc.RpcError as error:
            status = error.code().name if isinstance(error, grpc.Call) else type(error).__name__
            return no(f"{where} does not answer: {status}")
    if answer == _SERVING:
        return yes(f"{where} serves")
    return no(f"{where} answers that it does not serve")


# The daemon: the heartbeats that its parts write into Dagster's storage.

EXPECTED_DAEMONS = ("SENSOR", "SCHEDULER", "BACKFILL", "QUEUED_RUN_COORDINATOR", "MONITORING")
"""The parts that the project's dagster.yaml turns on and that this project needs."""

# The column `timestamp` has no time zone and holds the writer's session's; the body has the epoch.
_HEARTBEATS = """
SELECT daemon_type,
       extract(epoch FROM clock_timestamp())::float8 - (body::jsonb ->> 'timestamp')::float8
  FROM daemon_heartbeats
"""


def daemon(
    storage: DagsterStorage,
    tolerance: timedelta,
    expected: Sequence[str] = EXPECTED_DAEMONS,
) -> Answer:
    """Ask when each part of the daemon last showed itself; they do so every 30 seconds.

    Args:
        storage: Where heartbeats are.
        tolerance: How old the newest heartbeat of each part may be, by the storage's clock.
        expected: Parts that must show themselves.
    """
    try:
        with storage.cursor() as cursor:
            cursor.execute(_HEARTBEATS)
            ages: dict[str, float] = dict(cursor.fetchall())
    except psycopg.errors.UndefinedTable:
        return no("Dagster's storage has no heartbeats yet: no daemon ever ran")
    except psycopg.Error as error:
        return no(f"the daemon's heartbeats cannot be read: {storage.why(error)}")
    silent = [part for part in expected if ages.get(part, float("inf")) > tolerance.total_seconds()]
    if silent:
        said = ", ".join(f"{part} {_since(ages.get(part))}" for part in silent)
        limit = f"{tolerance.total_seconds():.0f} s"
        return no(f"the daemon is silent: {said}; tolerated are {limit}")
    oldest = max((ages[part] for part in expected), default=0.0)
    return yes(f"the daemon showed itself {max(0.0, oldest):.0f} s ago")


def _since(age: float | None) -> str:
    return "never" if age is None else f"for {age:.0f} s"


# Dagster's own storage in PostgreSQL.

_DRIVERS = ("postgresql+psycopg2://", "postgresql+psycopg://")


@dataclass(frozen=True)
class DagsterStorage:
    """Where it is.

    Attributes:
        url: As dagster.yaml has it; a driver's name in it is left out.
        timeout: For connecting and for a statement.
    """

    url: str = field(repr=False)
    timeout: timedelta

    @contextmanager
    def cursor(self) -> Iterator[psycopg.Cursor[TupleRow]]:
        """A cursor in a read-only transaction.

        Raises:
            psycopg.Error: It cannot be reached, or does not answer in time.
        """
        url = self.url
        for driver in _DRIVERS:
            if url.startswith(driver):
                url = f"postgresql://{url[len(driver) :]}"
        seconds = self.timeout.total_seconds()
        address = make_conninfo(url, connect_timeout=max(2, round(seconds)))
        with psycopg.connect(address, application_name="filejobs health") as connection:
            connection.read_only = True
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT set_config('statement_timeout', %s, true)", (f"{round(seconds)}s",)
                )
                yield cursor

    def why(self, error: psycopg.Error) -> str:
        """One line about a failure, without the address and its password."""
        return sanitize(" ".join(str(error).split()), known=(self.url, *self._password()))

    def _password(self) -> list[str]:
        try:
            password = conninfo_to_dict(self.url).get("password")
        except psycopg.ProgrammingError:
            return []
        return [str(password)] if password else []


def dagster_storage(storage: DagsterStorage) -> Answer:
    """Ask whether Dagster's tables are there and can be read."""
    try:
        with storage.cursor() as cursor:
            cursor.execute("SELECT to_regclass('runs') IS NOT NULL")
            row = cursor.fetchone()
    except psycopg.Error as error:
        return no(f"Dagster's storage does not answer: {storage.why(error)}")
    if row is None or not row[0]:
        return no("Dagster's storage answers, and has no table `runs` yet")
    return yes("Dagster's storage answers")


# The project's own database: reachable, and migrated as far as this version needs.


def database(settings: Settings, secrets: tuple[str, ...] = ()) -> Answer:
    """Ask whether the database answers and every migration is applied."""
    try:
        missing = outstanding(Database.of(settings.database))
    except (DatabaseUnavailable, MigrationRefused) as error:
        return no(" ".join(sanitize(str(error), known=secrets).split()))
    except psycopg.Error as error:
        return no(" ".join(sanitize_exception(error, known=secrets).split()))
    if missing:
        names = ", ".join(migration.name for migration in missing)
        return no(f"the database lacks {names}: run `filejobs migrate`")
    return yes("the database answers, and every migration is applied")


# The webserver: the page that says its version.

LONGEST_ANSWER = 10_000


def webserver(host: str, port: int, timeout: timedelta, path_prefix: str = "") -> Answer:
    """Ask a webserver for its version.

    Args:
        host: Its address.
        port: Its port.
        timeout: For connecting, and for each part of the answer.
        path_prefix: What `dagster-webserver --path-prefix` was given, such as `/dagster`.
    """
    where = f"webserver at {host}:{port}{path_prefix}"
    connection = http.client.HTTPConnection(host, port, timeout=timeout.total_seconds())
    try:
        connection.request("GET", f"{path_prefix}/server_info")
        response = connection.getresponse()
        body = response.read(LONGEST_ANSWER)
    except (OSError, http.client.HTTPException) as error:
        return no(f"{where} does not answer: {type(error).__name__}: {error}")
    finally:
        connection.close()
    if response.status != http.client.OK:
        return no(f"{where} answers with status {response.status}")
    version = _version(body)
    if version is None:
        return no(f"{where} is something else: its /server_info names no version")
    return yes(f"{where} answers, version {version}")


def _version(body: bytes) -> str | None:
    try:
        said = json.loads(body)
    except ValueError:
        return None
    version = said.get("dagster_webserver_version") if isinstance(said, dict) else None
    return version if isinstance(version, str) else None
