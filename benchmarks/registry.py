"""The benchmarks, in the order of the table: the one place that names them all.

A new one is a module of its own with `NAME`, `SUMMARY` and
`run(surroundings, scale) -> Iterator[Measurement]`, an entry here, and the sizes that it needs in
`Scale`. It brings both sides of its comparison, on the same data, and raises `NotTheSameWork`
when one of them did less than the other, or `NotMeasured` when this machine lacks what it is
compared with. The tests then run it at the tiny scale by themselves.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.measurement import Measurement
    from benchmarks.scale import Scale
    from benchmarks.surroundings import Surroundings

MODULES: tuple[str, ...] = (
    "throughput",
    "memory",
    "inserts",
    "backlog",
    "delay",
    "starts",
    "orphans_speed",
    "orphans_memory",
    "orphans_against_tools",
    "orphans_removal",
    "quarantined",
    "named_elsewhere",
    "scan_memory",
    "audit_append",
    "audit_verify",
    "audit_trim",
)


class Benchmark(Protocol):
    """What a module of a benchmark has."""

    NAME: str
    """Its module's name, by which it is chosen."""

    SUMMARY: str
    """One line for people."""

    def run(self, surroundings: Surroundings, scale: Scale) -> Iterator[Measurement]:
        """Measure; each row as soon as it is known."""
        ...


def benchmark(name: str) -> Benchmark:
    """Import one.

    Raises:
        KeyError: There is none of that name; the message has those that there are.
    """
    if name not in MODULES:
        raise KeyError(f"There is no benchmark {name!r}; there are: {', '.join(MODULES)}.")
    return cast("Benchmark", import_module(f"benchmarks.{name}"))
