"""The process that keeps the demo's servers: PostgreSQL and SeaweedFS, each as a child.

`python -m filejobs_dagster.demo.keeper HOME` starts both, writes their addresses to
`HOME/servers.json`, and keeps them until it is told to end (SIGTERM) or until that file is gone or
names another process: whoever removes the folder ends the servers with it. Then the data goes too,
of both: a database without its objects would name bytes that are gone. Where SeaweedFS has no
package, moto keeps the objects in this process's memory.
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
from filejobs_dagster.embedded.seaweedfs import SeaweedFS, weed_program

if TYPE_CHECKING:
    from types import FrameType

    from filejobs_dagster.embedded.s3 import S3Endpoint

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
        with start_store(place) as storage:
            announce(place, postgres, storage)
            while not ended.wait(SECONDS_BETWEEN_LOOKS) and _still_wanted(place):
                pass
    finally:
        if _still_wanted(place):
            place.servers.unlink(missing_ok=True)
        postgres.stop()
        for directory in (postgres.directory, place.postgres, place.objects):
            shutil.rmtree(directory, ignore_errors=True)
    # The threads of moto have nothing to finish: whoever spoke to them has gone.
    sys.stdout.flush()
    os._exit(0)


def start_store(place: DemoPlace) -> S3Endpoint:
    """SeaweedFS, or moto where it is not installed.

    Raises:
        EmbeddedS3Error: It did not start.
    """
    weed = weed_program()
    if weed is None:
        return EmbeddedS3.start()
    place.objects.mkdir()
    return SeaweedFS.start(weed, place.objects)


def announce(place: DemoPlace, postgres: EmbeddedPostgres, storage: S3Endpoint) -> None:
    """Make the databases and write down where everything is."""
    write_record(
        place.servers,
        {
            "keeper": Recorded.of("servers", os.getpid()).as_json(),
            "database_url": postgres.create_database(DATABASE),
            "dagster_url": postgres.create_database(DAGSTER_DATABASE),
            "s3_endpoint": storage.endpoint_url,
            "filer": storage.filer if isinstance(storage, SeaweedFS) else None,
            "postgres_directory": str(postgres.directory),
        },
    )


def _still_wanted(place: DemoPlace) -> bool:
    record = read_record(place.servers)
    return record is not None and record.get("keeper", {}).get("pid") == os.getpid()


if __name__ == "__main__":
    main()
