"""`filejobs dev`: the web UI and the daemon on the demo's data."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from filejobs_dagster.cli.demo import HOME, Home


def dev(
    port: Annotated[
        int, typer.Option("--port", min=1, max=65535, help="The web UI's port.")
    ] = 3000,
    host: Annotated[
        str,
        typer.Option(
            "--host",
            help="The address to listen on. Anything but loopback opens a web UI without "
            "authentication to others.",
        ),
    ] = "127.0.0.1",
    home: Home = HOME,
) -> None:
    """Open the web UI on the demo's data; Ctrl-C stops it.

    Starts Dagster's webserver and daemon on the instance that `filejobs demo` has left, schedules
    and sensors included. Without a demo it starts the servers and loads the data itself first, and
    ends them with itself; no collector has run then.

    [bold]Examples[/bold]
      filejobs dev
      filejobs dev --port 3001

    [bold]Exit codes[/bold]
      0 stopped by Ctrl-C or SIGTERM, 1 the port is taken or a process ended by itself
    """
    from filejobs_dagster.demo.failure import DemoFailed  # noqa: PLC0415 (only this command)
    from filejobs_dagster.demo.place import DemoPlace  # noqa: PLC0415
    from filejobs_dagster.demo.screen import ending_like_ctrl_c, screen  # noqa: PLC0415
    from filejobs_dagster.demo.serving import serve  # noqa: PLC0415

    try:
        with ending_like_ctrl_c():
            serve(DemoPlace.at(home), screen(), host=host, port=port)
    except DemoFailed as error:
        sys.stderr.write(f"The web UI cannot run.\n{error}\n")
        raise typer.Exit(1) from None
