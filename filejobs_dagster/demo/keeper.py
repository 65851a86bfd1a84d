"""The process that keeps the demo's servers: PostgreSQL as a child, the S3 server in a thread.

`python -m filejobs_dagster.demo.keeper HOME` starts both, writes their addresses to
`HOME/servers.json`, and keeps them until it is told to end (SIGTERM) or until that file is gone or
names another process: whoever removes the folder ends the servers with it. Then the data goes too.
The S3 server keeps its objects in memory, so a database without it would name bytes that are gone.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from filejobs_dagster.demo.place import DemoPlace
from filejobs_dagster.demo.processes import Recorded, read_record, write_record
from filejobs_dagster.embedded import EmbeddedPostgres, EmbeddedS3

if TYPE_CHECKING:
    from types import FrameType

MODULE = "filejobs_dagster.demo.keeper"
DATABASE = "filejobs"
DAGSTER_DATABASE = "dagster"
SECONDS_BETWEEN_LOOKS = 1.0


def main() -> None:
    """Start, announce, keep, stop."""
    ended = threading.Event()

    def end(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001 (what signal() calls)
        ended.set()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    place = DemoPlace.at(Path(sys.argv[1]))
    # Not durable: the next demo begins anew, so a power failure costs nothing.
    postgres = EmbeddedPostgres.start(place.postgres, durable=False, fresh=True)
    try:
        announce(place, postgres, EmbeddedS3.start())
        while not ended.wait(SECONDS_BETWEEN_LOOKS) and _still_wanted(place):
            pass
    finally:
        if _still_wanted(place):
            place.servers.unlink(missing_ok=True)
        postgres.stop()
        for directory in (postgres.directory, place.postgres):
            shutil.rmtree(directory, ignore_errors=True)
    # The S3 server's threads have nothing to finish: whoever spoke to them has gone.
    sys.stdout.flush()
    os._exit(0)


def announce(place: DemoPlace, postgres: EmbeddedPostgres, storage: EmbeddedS3) -> None:
    """Make the databases and write down where everything is."""
    write_record(
        place.servers,
        {
            "keeper": Recorded.of("servers", os.getpid()).as_json(),
            "database_url": postgres.create_database(DATABASE),
            "dagster_url": postgres.create_database(DAGSTER_DATABASE),
            "s3_endpoint": storage.endpoint_url,
            "postgres_directory": str(postgres.directory),
        },
    )


def _still_wanted(place: DemoPlace) -> bool:
    record = read_record(place.servers)
    return record is not None and record.get("keeper", {}).get("pid") == os.getpid()


if __name__ == "__main__":
    main()
