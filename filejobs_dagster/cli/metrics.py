"""`filejobs metrics`: numbers for Prometheus, at an endpoint or in a text file."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from filejobs_dagster.cli import terminal
from filejobs_dagster.cli.terminal import Invocation, print_error


def metrics(
    context: typer.Context,
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            help="Answer scrapes at this address, until SIGTERM or Ctrl-C.",
            show_default=False,
        ),
    ] = None,
    textfile: Annotated[
        Path | None,
        typer.Option(
            "--textfile",
            metavar="PATH",
            help="Write them once into this file, whose name ends in .prom, and end.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Show the jobs' numbers to Prometheus; with neither option on standard output.

    Each scrape reads filejobs.yaml and the database anew, in a read-only transaction and for at
    most a few seconds. When that fails there is `filejobs_up 0` and nothing else: no number is
    ever older than its scrape. docs/reference/metrics.md names each; examples/ has a dashboard for
    Grafana and rules for alerts.

    [bold]Examples[/bold]
      filejobs metrics --listen 127.0.0.1:9464
      filejobs metrics --textfile /var/lib/node_exporter/filejobs.prom

    [bold]Exit codes[/bold]
      0   shown, written, or ended by a signal
      1   nothing could be read (the file then says filejobs_up 0), the file
          cannot be written, or nobody can listen at the address
      64  called wrongly
    """
    if listen is not None and textfile is not None:
        raise typer.BadParameter("an endpoint and a file are two calls", param_hint="--textfile")
    config = Invocation.of(context).config
    if listen is not None:
        _serve(config, *_address(listen))
    else:
        _write(config, textfile)


def _address(listen: str) -> tuple[str, int]:
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:  # noqa: PLR2004 (the last port)
        raise typer.BadParameter(
            f"{listen!r} is not an address and a port; write 127.0.0.1:9464", param_hint="--listen"
        )
    return host.removeprefix("[").removesuffix("]"), int(port)


def _serve(config: Path | None, host: str, port: int) -> None:
    from filejobs_dagster.metrics.exposition import (  # noqa: PLC0415
        read,
        serve,
    )

    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    try:
        server, thread = serve(lambda: read(config), host, port)
    except OSError as error:
        print_error(
            f"Nobody can listen at {host}:{port} ({error.strerror or type(error).__name__}). Name "
            "an address of this machine and a port that is free."
        )
        raise typer.Exit(terminal.FAILED) from None
    typer.echo(f"Metrics at http://{host}:{server.server_port}/metrics")
    sys.stdout.flush()
    ended.wait()
    server.shutdown()
    server.server_close()
    thread.join()


def _write(config: Path | None, textfile: Path | None) -> None:
    from filejobs_dagster.metrics.exposition import (  # noqa: PLC0415
        read,
        text_of,
        write_textfile,
    )

    reading = read(config)
    text = text_of(reading)
    if textfile is None:
        sys.stdout.write(text)
    else:
        try:
            write_textfile(textfile, text)
        except OSError as error:
            print_error(
                f"{textfile} cannot be written ({error.strerror or type(error).__name__}). Its "
                "directory must exist and be writable: the file is replaced as a whole."
            )
            raise typer.Exit(terminal.FAILED) from None
    if reading.trouble is not None:
        print_error(reading.trouble)
        raise typer.Exit(terminal.FAILED)
