"""`filejobs demo`: a collector at work on a made-up feature; `filejobs dev`: the web UI on it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

HOME = Path(".filejobs")

Home = Annotated[
    Path,
    typer.Option(
        "--home",
        metavar="DIRECTORY",
        help="The state folder. It is made, emptied by each demo, and holds nothing else.",
    ),
]


def demo(
    home: Home = HOME,
    stop: Annotated[
        bool,
        typer.Option(
            "--stop", help="Only end what an earlier `filejobs demo` or `filejobs dev` runs."
        ),
    ] = False,
    small: Annotated[
        bool, typer.Option("--small", help="Load about a sixth of the data, for a slow machine.")
    ] = False,
) -> None:
    """Show a collector at work, and its record.

    Starts a PostgreSQL and an S3 server (SeaweedFS) of its own, on this machine only, loads
    thousands of files and expired reservations, and runs upload_reservations through Dagster: dry
    first, then live while clients complete their uploads. It checks that nothing was lost. Then
    storage_orphans marks what no row names, takes it a day later (the demo's clock is bent for
    that, and it says how) into quarantine, and one object is restored. At last it prints what
    job_run, the standing of every job and the audit log say. No account, no Docker, no network.

    Each call begins anew. The two servers keep running afterwards, so that `filejobs dev` and your
    own commands find the data; `filejobs demo --stop`, or removing the folder, ends them.

    [bold]Examples[/bold]
      filejobs demo
      filejobs demo --home /tmp/look
      filejobs demo --stop

    [bold]Exit codes[/bold]
      0 everything ran and was checked, 1 a step failed: the message says what was tried, what was
      found and what to do, and the servers were stopped; the logs stay in the folder
    """
    from filejobs_dagster.demo.feature import SMALL, USUAL  # noqa: PLC0415
    from filejobs_dagster.demo.place import DemoPlace  # noqa: PLC0415
    from filejobs_dagster.demo.screen import (  # noqa: PLC0415
        DemoFailed,
        ending_like_ctrl_c,
        screen,
    )
    from filejobs_dagster.demo.story import run_demo, stop_everything  # noqa: PLC0415

    place = DemoPlace.at(home)
    console = screen()
    try:
        if stop:
            place.must_be_ours()
            stopped = stop_everything(place)
            console.print(
                "\n".join(f"Stopped {what}." for what in stopped) or "Nothing was running."
            )
            return
        with ending_like_ctrl_c():
            run_demo(place, console, SMALL if small else USUAL)
    except DemoFailed as error:
        sys.stderr.write(f"The demo failed.\n{error}\n")
        raise typer.Exit(1) from None


# `filejobs dev`: the web UI and the daemon on the demo's data.


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
    from filejobs_dagster.demo.place import DemoPlace  # noqa: PLC0415
    from filejobs_dagster.demo.screen import (  # noqa: PLC0415
        DemoFailed,
        ending_like_ctrl_c,
        screen,
    )
    from filejobs_dagster.demo.serving import serve  # noqa: PLC0415

    try:
        with ending_like_ctrl_c():
            serve(DemoPlace.at(home), screen(), host=host, port=port)
    except DemoFailed as error:
        sys.stderr.write(f"The web UI cannot run.\n{error}\n")
        raise typer.Exit(1) from None
