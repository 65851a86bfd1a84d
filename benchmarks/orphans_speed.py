"""Objects classified per second by one process, and its memory, against a set and a paginator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.canned_process import CannedListingProcess
from benchmarks.canned_rows import FOLDERS, refer
from benchmarks.collector import NotTheSameWork
from benchmarks.measurement import Measurement, Value, more, readable
from benchmarks.orphans_child import Task, search

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.orphans_child import Done, Who
    from benchmarks.scale import Scale
    from benchmarks.surroundings import Surroundings

NAME = "orphans_speed"
SUMMARY = "objects classified per second, against boto3's paginator and a Python set"

TARGET = 50_000
"""Objects a second that one process is to reach."""

KILOBYTES = 1024
MILLION = 1_000_000


def run(surroundings: Surroundings, scale: Scale) -> Iterator[Measurement]:
    """Compare speed, then memory, for each share of orphans."""
    with CannedListingProcess.start(scale.objects, FOLDERS) as server:
        for share in scale.shares:
            database_url = surroundings.database()
            orphans = refer(database_url, scale.objects, share)

            def done(who: Who, database_url: str = database_url, expected: int = orphans) -> Done:
                found = search(surroundings, Task(who, database_url, server.endpoint_url))
                require_same(who, found, scale.objects, expected)
                return found

            yield from _compared(done("classify only"), done("script"), share)
            surroundings.drop(database_url)


def require_same(who: str, done: Done, objects: int, orphans: int) -> None:
    """Make sure that a side looked at everything and found every orphan.

    Raises:
        NotTheSameWork: It did not.
    """
    if (done.objects, done.orphans) != (objects, orphans):
        raise NotTheSameWork(
            f"Of {objects} objects with {orphans} orphans, {who} reports {done.objects} with "
            f"{done.orphans}."
        )


def processor_time(who: str, seconds: float, objects: int) -> str:
    """What other work on the machine distorts less than the time on the clock."""
    return f"{who} took {readable(seconds / objects * MILLION)} s of processor time a million"


def _compared(ours: Done, script: Done, share: int) -> Iterator[Measurement]:
    what = f"listing, references and classes of {ours.objects:,} objects, {share} % orphans"
    speeds = [Value(it.objects / it.seconds, "objects/s", "") for it in (ours, script)]
    reached = "reached" if speeds[0].number >= TARGET else "missed"
    names = ("the sweep", "a paginator and a set")
    yield Measurement(
        benchmark=NAME,
        what=what,
        measured=Value(speeds[0].number, "objects/s", names[0]),
        compared=Value(speeds[1].number, "objects/s", names[1]),
        ratio=more(*speeds),
        reading="times as fast",
        note="; ".join(
            [
                f"target of {TARGET:,}/s {reached}",
                processor_time(names[0], ours.processor_seconds, ours.objects),
                processor_time(names[1], script.processor_seconds, script.objects),
            ]
        ),
    )
    peaks = [
        Value(it.peak_kilobytes / KILOBYTES, "MiB", name)
        for it, name in zip((ours, script), names, strict=True)
    ]
    yield Measurement(
        benchmark=NAME,
        what=f"peak memory of that, {share} % orphans",
        measured=peaks[0],
        compared=peaks[1],
        ratio=more(*peaks),
        reading="times the memory",
    )
