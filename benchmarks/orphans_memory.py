"""Peak memory of a sweep's process: a bucket of few objects against one of many."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.canned_process import CannedListingProcess
from benchmarks.canned_rows import FOLDERS, refer
from benchmarks.measurement import Measurement, Value, more
from benchmarks.orphans_child import Task, search
from benchmarks.orphans_speed import KILOBYTES, processor_time, require_same

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.orphans_child import Done
    from benchmarks.scale import Scale
    from benchmarks.surroundings import Surroundings

NAME = "orphans_memory"
SUMMARY = "peak memory of a sweep's process, many objects and references against few"

LIMIT = 300
"""MiB that are to suffice for ten million objects and as many references."""


def run(surroundings: Surroundings, scale: Scale) -> Iterator[Measurement]:
    """Compare for each share of orphans."""
    for share in scale.shares_for_memory:
        few = _classified(surroundings, scale.few_objects, share)
        many = _classified(surroundings, scale.many_objects, share)
        peaks = [
            Value(it.peak_kilobytes / KILOBYTES, "MiB", f"{it.objects:,}") for it in (many, few)
        ]
        kept = "kept" if peaks[0].number < LIMIT else "EXCEEDED"
        yield Measurement(
            benchmark=NAME,
            what=f"classifying {many.objects:,} objects against as many references, "
            f"{share} % orphans",
            measured=peaks[0],
            compared=peaks[1],
            ratio=more(*peaks),
            reading="times the memory",
            note=f"limit of {LIMIT} MiB {kept}; {many.objects / many.seconds:,.0f} objects/s; "
            + processor_time("it", many.processor_seconds, many.objects),
        )


def _classified(surroundings: Surroundings, objects: int, share: int) -> Done:
    database_url = surroundings.database()
    orphans = refer(database_url, objects, share)
    with CannedListingProcess.start(objects, FOLDERS) as server:
        done = search(surroundings, Task("classify only", database_url, server.endpoint_url))
    surroundings.drop(database_url)
    require_same("the sweep", done, objects, orphans)
    return done
