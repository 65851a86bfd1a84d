"""`filejobs dev`: the web UI on the demo's data, from the first look to Ctrl-C."""

from __future__ import annotations

import ipaddress
import threading
from typing import TYPE_CHECKING

from rich.markup import escape

from filejobs_dagster.demo import servers, web
from filejobs_dagster.demo.configuration import process_environment
from filejobs_dagster.demo.screen import DemoFailed
from filejobs_dagster.demo.story import load_demo, stop_everything

if TYPE_CHECKING:
    from rich.console import Console

    from filejobs_dagster.demo.place import DemoPlace
    from filejobs_dagster.demo.servers import Servers

SECONDS_BETWEEN_LOOKS = 1.0

WORTH_A_LOOK = (
    ("/jobs", "the jobs; upload_reservations has a Launchpad with every setting explained"),
    (
        "/locations/filejobs/jobs/upload_reservations/partitions",
        "the days on which it ran, and a backfill",
    ),
    ("/runs", "the runs, with their numbers"),
    (
        "/locations/filejobs/sensors/job_freshness",
        "the sensor that fails when a job is stale, behind or has never run",
    ),
)


def serve(place: DemoPlace, console: Console, *, host: str, port: int) -> None:
    """Run the webserver and the daemon until SIGINT or SIGTERM, and leave no process behind.

    What a demo left running is used and goes on running; what had to be started here ends here.

    Args:
        place: The demo; loaded first where it is not.
        console: Where to print.
        host: What the webserver listens on.
        port: Its port.

    Raises:
        DemoFailed: The port is taken, another `filejobs dev` runs here, or a process ended.
        EmbeddedExtraMissingError: The extra `embedded` is not installed.
    """
    place.must_be_ours()
    _must_be_alone(place)
    web.must_be_free(host, port)
    if not is_loopback(host):
        console.print(
            f"[bold red]Warning:[/bold red] the web UI listens on {escape(host)}. It has no "
            "authentication: whoever reaches it can start every job, live ones too.",
            soft_wrap=True,
        )
    running = servers.find(place) if place.loaded.exists() else None
    if running is not None:
        _serve(place, console, running, host=host, port=port)
        return
    console.print("No demo is running here, so its servers are started and its data loaded first.")
    load_demo(place, console)
    try:
        found = servers.find(place)
        if found is None:
            raise DemoFailed(
                "to use the servers that were just started",
                "they have ended",
                f"read {place.logs / 'servers.log'}",
            )
        _serve(place, console, found, host=host, port=port)
    finally:
        stop_everything(place)
        console.print("PostgreSQL and the S3 server were stopped too.")


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a server that listens on `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _must_be_alone(place: DemoPlace) -> None:
    running = web.running(place)
    if not running:
        return
    if running[0].role != "filejobs dev":
        # Its command was killed; what it had started is of no use to anybody.
        web.stop(place)
        return
    raise DemoFailed(
        f"to run the web UI on {place.shown()}",
        f"`filejobs dev` runs there already (process {running[0].pid})",
        "use that one, or stop it with Ctrl-C or `filejobs demo --stop`",
    )


def _serve(place: DemoPlace, console: Console, running: Servers, *, host: str, port: int) -> None:
    printing = threading.Lock()

    def say(line: str) -> None:
        with printing:
            console.print(f"[dim]{escape(line)}[/dim]", soft_wrap=True)

    processes = web.Web(place, process_environment(place, running), say)
    with web.until_told_to_stop() as told:
        try:
            console.print("Starting the webserver and the daemon …")
            processes.start(host, port)
            if processes.wait_until_ready(host, port, told):
                _introduce(console, web.address(host, port), place)
            while not told.wait(SECONDS_BETWEEN_LOOKS):
                processes.must_run()
                _must_have_servers(running)
        finally:
            try:
                console.print("Stopping …")
            finally:
                processes.stop()
            console.print("The webserver and the daemon have ended.")


def _must_have_servers(running: Servers) -> None:
    if running.keeper.process() is None:
        raise DemoFailed(
            "to keep the web UI on the demo's data",
            "PostgreSQL and the S3 server were stopped by another command",
            "run `filejobs demo` again",
        )


def _introduce(console: Console, url: str, place: DemoPlace) -> None:
    console.print(f"[bold green]The web UI is ready: {url}[/bold green]", highlight=False)
    for path, meaning in WORTH_A_LOOK:
        console.print(f"  {url}{path}", style="cyan", highlight=False, soft_wrap=True)
        console.print(f"      {meaning}", highlight=False, soft_wrap=True)
    console.print(
        "Ctrl-C stops it; PostgreSQL and S3 go on until `filejobs demo --stop`. "
        f"Below: runs that the daemon starts, warnings and errors; everything "
        f"else is in {place.shown()}/logs.",
        highlight=False,
        soft_wrap=True,
    )
