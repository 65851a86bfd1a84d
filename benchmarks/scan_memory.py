"""Peak memory of a scan's process: a bucket of few objects against one of many."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg

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

NAME = "scan_memory"
SUMMARY = "peak memory of a scan's process, many objects and rows against few"

SHARE = 10
"""Of a hundred objects, so many have no row."""


def run(surroundings: Surroundings, scale: Scale) -> Iterator[Measurement]:
    """Compare."""
    few = _scanned(surroundings, scale.few_objects)
    many = _scanned(surroundings, scale.many_objects)
    peaks = [Value(it.peak_kilobytes / KILOBYTES, "MiB", f"{it.objects:,}") for it in (many, few)]
    yield Measurement(
        benchmark=NAME,
        what=f"a scan of {many.objects:,} objects and nearly as many rows, {SHARE} % without one",
        measured=peaks[0],
        compared=peaks[1],
        ratio=more(*peaks),
        reading="times the memory",
        note=f"{many.objects / many.seconds:,.0f} objects/s; "
        + processor_time("it", many.processor_seconds, many.objects),
    )


def _scanned(surroundings: Surroundings, objects: int) -> Done:
    database_url = surroundings.database()
    orphans = refer(database_url, objects, SHARE)
    with psycopg.connect(database_url, autocommit=True) as connection:
        # A row that holds a longer name would be a reason to be unsure of its object.
        connection.execute("ALTER TABLE file DISABLE TRIGGER USER")
        connection.execute("DELETE FROM file WHERE storage_key LIKE '%.elsewhere'")
        connection.execute("VACUUM file")
    with CannedListingProcess.start(objects, FOLDERS) as server:
        done = search(surroundings, Task("scan", database_url, server.endpoint_url))
    surroundings.drop(database_url)
    require_same("the scan", done, objects, orphans)
    return done
