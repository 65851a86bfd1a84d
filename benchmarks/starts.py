"""What `dagster job execute` costs over `import dagster`: wall seconds of whole processes."""

from __future__ import annotations

import resource
import statistics
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.installation import MODULE, Installation
from benchmarks.measurement import Measurement, Value, more, readable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.scale import Scale
    from benchmarks.surroundings import Surroundings

NAME = "starts"
SUMMARY = "`dagster job execute` of a job with nothing to do, against `import dagster`"


@dataclass(frozen=True)
class Start:
    """The median of several starts of one command.

    Attributes:
        wall: Seconds from its start to its end.
        processor: Seconds of processor time, which other work on the machine changes less.
    """

    wall: Value
    processor: float


def run(surroundings: Surroundings, scale: Scale) -> Iterator[Measurement]:
    """Time four processes, in turn, so that a slow moment of the machine meets all of them."""
    installation = Installation.make(surroundings)
    commands = {
        "python -c 'import dagster'": _import("dagster"),
        f"python -c 'import {MODULE}'": _import(MODULE),
        "dagster job execute, an empty job": installation.execute("benchmarks.empty_job", "empty"),
        "dagster job execute, upload_reservations": installation.execute(),
    }
    dagster, definitions, empty, ours = _medians(installation, commands, scale.starts)
    for what, measured, compared in (
        ("loading the definitions, against Dagster alone", definitions, dagster),
        ("dagster job execute with nothing due, against import dagster", ours, dagster),
        ("dagster job execute with nothing due, against an empty job's", ours, empty),
    ):
        yield Measurement(
            benchmark=NAME,
            what=what,
            measured=measured.wall,
            compared=compared.wall,
            ratio=more(measured.wall, compared.wall),
            reading="times as long",
            note=f"medians of {scale.starts}; processor time {readable(measured.processor)} s "
            f"against {readable(compared.processor)} s",
        )


def _import(module: str) -> list[str]:
    return [sys.executable, "-c", f"import {module}"]


def _medians(
    installation: Installation, commands: dict[str, list[str]], starts: int
) -> list[Start]:
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    # Makes Dagster's tables, so that no process has to.
    with installation.instance():
        pass
    for _ in range(starts):
        for name, command in commands.items():
            used, begun = _processor_seconds(), time.perf_counter()
            installation.run(command)
            taken[name].append((time.perf_counter() - begun, _processor_seconds() - used))
    return [
        Start(
            Value(statistics.median(wall for wall, _ in times), "s", name),
            statistics.median(used for _, used in times),
        )
        for name, times in taken.items()
    ]


def _processor_seconds() -> float:
    """What the processes that have ended used, in user and system mode."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
