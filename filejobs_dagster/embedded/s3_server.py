"""The S3 server itself, and the process that `EmbeddedS3Process` starts.

`python -m filejobs_dagster.embedded.s3_server` prints its address as one line, serves, and ends
when its standard input closes.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING

from filejobs_dagster.embedded.missing import require

if TYPE_CHECKING:
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
    # One line per request, on standard error, is of no use to anybody here.
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    server: ThreadedMotoServer = moto.ThreadedMotoServer(ip_address=LOOPBACK, port=0, verbose=False)
    server.start()
    return server


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
