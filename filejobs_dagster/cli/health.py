"""`filejobs live` and `filejobs ready`: what a container asks itself."""

from __future__ import annotations

import os
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from filejobs_dagster.cli import exits
from filejobs_dagster.cli.output import print_error
from filejobs_dagster.variables import VariableUnusable, variable

if TYPE_CHECKING:
    from filejobs_dagster.health.answer import Answer
    from filejobs_dagster.health.dagster_storage import DagsterStorage

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
    from filejobs_dagster.health.answer import all_of  # noqa: PLC0415 (--help needs none of it)
    from filejobs_dagster.health.dagster_storage import dagster_storage  # noqa: PLC0415

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
        from filejobs_dagster.health.code_server import code_server  # noqa: PLC0415 (imports gRPC)

        return code_server(host, port or CODE_PORT, timeout)
    from filejobs_dagster.health.webserver import webserver  # noqa: PLC0415 (only when asked)

    return webserver(host, port or WEB_PORT, timeout, path_prefix)


def _daemon(storage: DagsterStorage, tolerance: int, parts: list[str] | None) -> Answer:
    from filejobs_dagster.health.daemon import EXPECTED_DAEMONS, daemon  # noqa: PLC0415

    return daemon(storage, timedelta(seconds=tolerance), parts or EXPECTED_DAEMONS)


def _database(context: typer.Context) -> Answer:
    from filejobs_dagster.cli.invocation import Invocation  # noqa: PLC0415 (live reads no settings)
    from filejobs_dagster.health.database import database  # noqa: PLC0415

    invocation = Invocation.of(context)
    return database(invocation.require(), invocation.secrets)


def _storage(timeout: timedelta) -> DagsterStorage:
    from filejobs_dagster.health.dagster_storage import DagsterStorage  # noqa: PLC0415

    try:
        url = variable(STORAGE_VARIABLE, os.environ)
    except VariableUnusable as error:
        print_error(f"NOT OK - {error}")
        raise typer.Exit(exits.FAILED) from None
    if not url:
        print_error(
            f"NOT OK - {STORAGE_VARIABLE} is not set, so nobody knows where Dagster keeps its "
            "heartbeats. Set it as for the daemon; where Dagster's storage is not PostgreSQL, use "
            "`dagster-daemon liveness-check`."
        )
        raise typer.Exit(exits.FAILED)
    return DagsterStorage(url, timeout)


def _end(answer: Answer) -> NoReturn:
    if not answer.well:
        print_error(str(answer))
        raise typer.Exit(exits.FAILED)
    typer.echo(str(answer))
    raise typer.Exit(exits.OK)
