"""One collector in a process of its own, which says what it did and how much memory it took.

`python -m benchmarks.child` reads its task, a JSON object, from standard input.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from benchmarks.collector import collect
from filejobs_dagster.embedded.s3 import S3Endpoint
from filejobs_dagster.jobs.upload_reservations import UploadReservationsRun

if TYPE_CHECKING:
    from benchmarks.surroundings import Surroundings

_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True)
class Task:
    """What the process is to do.

    Attributes:
        database_url: Where the reservations are.
        endpoint_url: Of the object storage.
        bucket: Where their objects are.
        limit: Most reservations.
        batch_size: In one transaction.
        count_bytes: Whether sizes are asked for.
        mode: `live` collects, `dry` only counts.
    """

    database_url: str
    endpoint_url: str
    bucket: str
    limit: int
    batch_size: int = 500
    count_bytes: bool = False
    mode: Literal["dry", "live"] = "live"


@dataclass(frozen=True)
class Done:
    """What the process did.

    Attributes:
        scanned: Reservations looked at.
        acted: Reservations collected; 0 for a dry run.
        peak_kilobytes: The most memory that was resident at once.
    """

    scanned: int
    acted: int
    peak_kilobytes: int


class ChildFailed(Exception):
    """The process ended otherwise than by finishing its task."""


def start(surroundings: Surroundings, task: Task) -> subprocess.Popen[str]:
    """Start the process; `finish` waits for it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=surroundings.environment(**S3Endpoint(task.endpoint_url).environment()),
    )
    if process.stdin is not None:
        process.stdin.write(json.dumps(asdict(task)))
        process.stdin.close()
    return process


def finish(process: subprocess.Popen[str]) -> Done:
    """Wait for the process.

    Raises:
        ChildFailed: It did not finish its task; why stands on standard error.
    """
    said = process.stdout.read() if process.stdout is not None else ""
    if process.wait() != 0:
        raise ChildFailed(f"The collector's process ended with exit code {process.returncode}.")
    return Done(**json.loads(said))


def peak_kilobytes() -> int:
    """The most memory this process had resident; what its parent had does not count."""
    found = _PEAK.search(Path("/proc/self/status").read_text(encoding="ascii"))
    if found is None:
        raise ChildFailed("/proc/self/status does not say VmHWM: this is not Linux.")
    return int(found[1])


def main() -> None:
    """Do the task and say how it went."""
    task = Task(**json.loads(sys.stdin.read()))
    request = UploadReservationsRun(
        limit=task.limit, batch_size=task.batch_size, count_bytes=task.count_bytes
    )
    server = S3Endpoint(task.endpoint_url)
    outcome = collect(task.database_url, server, task.bucket, request, mode=task.mode)
    done = Done(outcome.scanned or 0, outcome.acted or 0, peak_kilobytes())
    sys.stdout.write(json.dumps(asdict(done)))


if __name__ == "__main__":
    main()
