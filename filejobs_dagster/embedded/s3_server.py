"""The S3 server itself, and the process that `EmbeddedS3Process` starts.

`python -m filejobs_dagster.embedded.s3_server` prints its address as one line, serves, and ends
when its standard input closes.
"""

from __future__ import annotations

import functools
import logging
import os
import sys
from typing import TYPE_CHECKING

from filejobs_dagster.embedded.environment import require

if TYPE_CHECKING:
    from types import ModuleType

    from flask import Flask
    from moto.server import ThreadedMotoServer

LOOPBACK = "127.0.0.1"


def serve() -> ThreadedMotoServer:
    """Start serving in a thread of this process, on a free port of the loopback address.

    Returns:
        moto's server, ready to answer.

    Raises:
        EmbeddedExtraMissingError: The extra `embedded` is not installed.
    """
    moto = require("moto.server")
    _in_less_time(require("moto.moto_server.threaded_moto_server"))
    # One line per request, on standard error, is of no use to anybody here.
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    server: ThreadedMotoServer = moto.ThreadedMotoServer(ip_address=LOOPBACK, port=0, verbose=False)
    server.start()
    return server


@functools.cache
def _in_less_time(moto: ModuleType) -> None:
    """Leave out of each request what moto does again and again: a quarter of its time.

    Where moto asks Flask for debug mode, each makes a class of its own. And for each it lists its
    own folder, to learn which service a host is.
    """
    dispatcher = moto.DomainDispatcherApplication
    dispatcher.get_backend_for_host = functools.cache(dispatcher.get_backend_for_host)
    make = moto.create_backend_app

    def made(service: str) -> Flask:
        app: Flask = make(service)
        app.debug = False
        return app

    vars(moto)["create_backend_app"] = made


def main() -> None:
    """Serve until standard input closes."""
    host, port = serve().get_host_and_port()
    sys.stdout.write(f"http://{host}:{port}\n")
    sys.stdout.flush()
    sys.stdin.read()
    # Requests in flight belong to an owner who has gone; nothing here outlives the process.
    os._exit(0)


if __name__ == "__main__":
    main()
