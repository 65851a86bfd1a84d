"""One search for orphans in a process of its own, which says what it found and what it took.

`python -m benchmarks.orphans_child` reads its task, a JSON object, from standard input.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from benchmarks.canned_listing import BUCKET
from benchmarks.child import ChildFailed, peak_kilobytes
from benchmarks.reservations import PREFIX
from filejobs_dagster.embedded.s3 import S3Endpoint

if TYPE_CHECKING:
    from benchmarks.surroundings import Surroundings

Who = Literal["classify only", "sweep", "scan", "script", "expire"]


@dataclass(frozen=True)
class Task:
    """What the process is to do.

    Attributes:
        who: A part of the project's sweep, the whole of it, a scan, boto3's paginator and a set, or
            the end of copies in quarantine.
        database_url: Where the rows are.
        endpoint_url: Of the canned listing.
        folder: Where a whole sweep's list goes.
        bucket: Where the objects are.
    """

    who: Who
    database_url: str
    endpoint_url: str
    folder: str = ""
    bucket: str = BUCKET


@dataclass(frozen=True)
class Done:
    """What the process found, and what it took.

    Attributes:
        objects: Objects looked at.
        orphans: Objects that no row names.
        seconds: From the first request or statement to the last one; without imports.
        processor_seconds: Of this process, all of its threads and its imports together.
        peak_kilobytes: The most memory that was resident at once.
    """

    objects: int
    orphans: int
    seconds: float
    processor_seconds: float
    peak_kilobytes: int


def search(surroundings: Surroundings, task: Task) -> Done:
    """Start a process for the task and wait for its end.

    Raises:
        ChildFailed: It did not finish; why stands on standard error.
    """
    process = subprocess.run(
        [sys.executable, "-m", "benchmarks.orphans_child"],
        input=json.dumps(asdict(task)),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        env=surroundings.environment(**S3Endpoint(task.endpoint_url).environment()),
    )
    if process.returncode != 0:
        raise ChildFailed(f"The search ({task.who}) ended with exit code {process.returncode}.")
    return Done(**json.loads(process.stdout))


def main() -> None:
    """Do the task and say how it went."""
    task = Task(**json.loads(sys.stdin.read()))
    # Each side pays for the memory of what it imports, and for nothing of the other's.
    work = {"script": _script, "scan": _scan}.get(task.who, _ours)
    objects, orphans, seconds = work(task)
    done = Done(objects, orphans, seconds, time.process_time(), peak_kilobytes())
    sys.stdout.write(json.dumps(asdict(done)))


def _ours(task: Task) -> tuple[int, int, float]:
    from benchmarks.sweeping import classify_only, expire, sweep  # noqa: PLC0415

    server = S3Endpoint(task.endpoint_url)
    begun = time.perf_counter()
    if task.who == "sweep":
        outcome = sweep(task.database_url, server, Path(task.folder))
    elif task.who == "expire":
        outcome = expire(task.database_url, server, task.bucket)
    else:
        outcome = classify_only(task.database_url, server)
    seconds = time.perf_counter() - begun
    return outcome.scanned or 0, int(outcome.detail["orphans"]), seconds


def _scan(task: Task) -> tuple[int, int, float]:
    from filejobs_dagster.scan.scanning import Options, scan  # noqa: PLC0415

    begun = time.perf_counter()
    found = scan(Options(task.database_url, BUCKET, endpoint_url=task.endpoint_url))
    seconds = time.perf_counter() - begun
    said = f"{found.read_bytes:,} bytes of the database in {found.read_seconds} s"
    sys.stderr.write(f"{said}; {found.total}\n")
    return found.total.all.objects, found.total.unreferenced.objects, seconds


def _script(task: Task) -> tuple[int, int, float]:
    from benchmarks.paginator_and_set import find_orphans  # noqa: PLC0415

    client = S3Endpoint(task.endpoint_url).client()
    begun = time.perf_counter()
    objects, orphans = find_orphans(task.database_url, client, BUCKET, PREFIX)
    return objects, len(orphans), time.perf_counter() - begun


if __name__ == "__main__":
    main()
