"""Peak memory of a collector's process: few reservations against many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from benchmarks import child, reservations
from benchmarks.collector import NotTheSameWork
from benchmarks.measurement import Measurement, Value, more

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.scale import Scale
    from benchmarks.surroundings import Surroundings

NAME = "memory"
SUMMARY = "peak memory of a collector's process, many reservations against few"

KILOBYTES = 1024
BUCKET = "memory"


def run(surroundings: Surroundings, scale: Scale) -> Iterator[Measurement]:
    """Compare a dry run, then a live one, each over everything."""
    modes: tuple[Literal["dry", "live"], ...] = ("dry", "live")
    for mode in modes:
        few = _peak(surroundings, scale.few, mode)
        many = _peak(surroundings, scale.many, mode)
        yield Measurement(
            benchmark=NAME,
            what=f"{mode} run over {scale.many:,} reservations, against {scale.few:,}",
            measured=many,
            compared=few,
            ratio=more(many, few),
            reading="times the memory",
            note=f"{scale.many // scale.few} times the rows, without sizes, on canned S3",
        )


def _peak(surroundings: Surroundings, count: int, mode: Literal["dry", "live"]) -> Value:
    """Measure one process.

    Raises:
        NotTheSameWork: It did not reach every reservation.
    """
    database_url = surroundings.database()
    reservations.reserve(database_url, count)
    server = surroundings.canned()
    bucket = f"{BUCKET}-{mode}-{count}"
    # A dry run that asks for no sizes never looks at the objects.
    reservations.store(server, bucket, reservations.keys(database_url) if mode == "live" else [])
    task = child.Task(
        database_url=database_url,
        endpoint_url=server.endpoint_url,
        bucket=bucket,
        limit=count,
        mode=mode,
    )
    done = child.finish(child.start(surroundings, task))
    surroundings.drop(database_url)
    if (done.scanned, done.acted) != (count, count if mode == "live" else 0):
        raise NotTheSameWork(f"Of {count} reservations a {mode} run reports {done}.")
    return Value(done.peak_kilobytes / KILOBYTES, "MiB", f"{count:,} reservations")
