"""An endpoint to scrape."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, start_http_server

from filejobs_dagster.metrics.exposition import ReadingCollector

if TYPE_CHECKING:
    from collections.abc import Callable
    from wsgiref.simple_server import WSGIServer

    from filejobs_dagster.metrics.reading import Reading


def serve(take: Callable[[], Reading], host: str, port: int) -> tuple[WSGIServer, threading.Thread]:
    """Answer scrapes from a thread of its own.

    Args:
        take: Takes one reading; must not raise. Called by one scrape at a time, so that scrapers
            in a hurry do not take the database's connections.
        host: The address to listen on.
        port: The port; 0 for a free one.

    Returns:
        The server, of which `shutdown` and `server_close` end it, and its thread.

    Raises:
        OSError: Nobody can listen there.
    """
    alone = threading.Lock()

    def one_at_a_time() -> Reading:
        with alone:
            return take()

    registry = CollectorRegistry(auto_describe=False)
    registry.register(ReadingCollector(one_at_a_time))
    return start_http_server(port, addr=host, registry=registry)
