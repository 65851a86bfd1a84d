"""A sweep from start to end, against `s5cmd ls` or `rclone lsf`, `psql`, `sort` and `comm`."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from benchmarks.canned_process import CannedListingProcess
from benchmarks.canned_rows import FOLDERS, refer
from benchmarks.collector import NotTheSameWork
from benchmarks.measurement import Measurement, Value, more
from benchmarks.orphans_child import Task, search
from benchmarks.orphans_speed import processor_time, require_same
from benchmarks.shell_tools import INSTALLED_BY, Found, find_orphans, installed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.orphans_child import Who
    from benchmarks.scale import Scale
    from benchmarks.surroundings import Surroundings

NAME = "orphans_against_tools"
SUMMARY = "a sweep from start to end, against a listing tool, psql, sort and comm"

_SIDES: dict[Who, str] = {
    "classify only": "up to the classes",
    "sweep": "with marks and a list for review",
}


def run(surroundings: Surroundings, scale: Scale) -> Iterator[Measurement]:
    """Compare with each tool that is installed, for each share of orphans.

    Raises:
        NotMeasured: No such tool is installed.
    """
    tools = installed()
    with CannedListingProcess.start(scale.objects, FOLDERS) as server:
        for share in scale.shares:
            database_url = surroundings.database()
            orphans = refer(database_url, scale.objects, share)
            theirs = {
                tool: _in_shell(surroundings, tool, database_url, server, scale.objects, orphans)
                for tool in tools
            }
            for who in _SIDES:
                ours = _sweep(surroundings, who, database_url, server, scale.objects, orphans)
                for tool, found in theirs.items():
                    yield _compared(who, ours, tool, found, share)
            surroundings.drop(database_url)


def _sweep(
    surroundings: Surroundings,
    who: Who,
    database_url: str,
    server: CannedListingProcess,
    objects: int,
    orphans: int,
) -> Found:
    with TemporaryDirectory(dir=surroundings.folder) as folder:
        begun = time.perf_counter()
        done = search(surroundings, Task(who, database_url, server.endpoint_url, folder))
        seconds = time.perf_counter() - begun
    require_same("the sweep", done, objects, orphans)
    return Found(done.objects, done.orphans, seconds, done.processor_seconds)


def _in_shell(
    surroundings: Surroundings,
    tool: str,
    database_url: str,
    server: CannedListingProcess,
    objects: int,
    orphans: int,
) -> Found:
    environment = surroundings.environment(**server.environment())
    with TemporaryDirectory(dir=surroundings.folder) as folder:
        found = find_orphans(tool, database_url, server.endpoint_url, Path(folder), environment)
    if (found.objects, found.orphans) != (objects, orphans):
        raise NotTheSameWork(f"Of {objects} objects with {orphans} orphans, {tool} found {found}.")
    return found


def _compared(who: Who, ours: Found, tool: str, theirs: Found, share: int) -> Measurement:
    speeds = [
        Value(ours.objects / ours.seconds, "objects/s", "the sweep"),
        Value(theirs.objects / theirs.seconds, "objects/s", f"{tool}, psql, sort, comm"),
    ]
    others = [
        f"{other} is not installed here: {way}"
        for other, way in INSTALLED_BY.items()
        if other not in installed()
    ]
    return Measurement(
        benchmark=NAME,
        what=f"{ours.objects:,} objects, {share} % orphans, from the process's start to its end, "
        f"{_SIDES[who]}",
        measured=speeds[0],
        compared=speeds[1],
        ratio=more(*speeds),
        reading="times as fast",
        note="; ".join(
            [
                processor_time("the sweep", ours.processor_seconds, ours.objects),
                processor_time("the others together", theirs.processor_seconds, theirs.objects),
                *others,
            ]
        ),
    )
