"""What the numbers were measured on; without it they say little."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg

if TYPE_CHECKING:
    from benchmarks.surroundings import Surroundings

PACKAGES = ("dagster", "psycopg", "boto3", "moto")
GIBIBYTE = 2**30

_MODEL = re.compile(r"^model name\s*:\s*(.+)$", re.MULTILINE)


def describe(surroundings: Surroundings) -> dict[str, str]:
    """Cores, memory and versions, each under the name that the report shows."""
    return {
        "cores": f"{len(os.sched_getaffinity(0))} ({_processor()})",
        "load before": f"{os.getloadavg()[0]:.2f} (average of one minute)",
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / GIBIBYTE:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "postgresql": f"{_postgresql(surroundings)}, commits wait for the disk",
        **{name: version(name) for name in PACKAGES},
    }


def _processor() -> str:
    found = _MODEL.search(Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    return platform.machine() if found is None else " ".join(found[1].split())


def _postgresql(surroundings: Surroundings) -> str:
    with psycopg.connect(surroundings.postgres.url()) as connection:
        return str(connection.info.parameter_status("server_version"))
