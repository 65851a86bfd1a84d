"""Processes that outlive the command that started them, and how they are ended later.

A process id alone proves nothing: after a crash or a restart of the machine the number may belong
to any other process. So a record also holds when the process began and its whole command line, and
a process that differs in either is a stranger's and is left alone.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from filejobs_dagster.embedded.environment import require

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SECONDS_OF_TOLERANCE = 2.0
"""The kernel counts a start in ticks since boot, and the moment of boot moves with the clock."""

SECONDS_FOR_FAMILY = 5.0
SECONDS_BETWEEN_LOOKS = 0.05


@dataclass(frozen=True)
class Recorded:
    """One process that was started.

    Attributes:
        role: What it is, in a word for people.
        pid: Its process id.
        began: When it began, in seconds since 1970.
        command: Its command line.
    """

    role: str
    pid: int
    began: float
    command: tuple[str, ...]

    @classmethod
    def of(cls, role: str, pid: int) -> Recorded:
        """Record a running process.

        Raises:
            psutil.NoSuchProcess: It is gone already.
        """
        process = require("psutil").Process(pid)
        return cls(role, pid, process.create_time(), tuple(process.cmdline()))

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Recorded:
        """Read what `as_json` wrote."""
        return cls(
            role=str(value["role"]),
            pid=int(value["pid"]),
            began=float(value["began"]),
            command=tuple(str(word) for word in value["command"]),
        )

    def as_json(self) -> dict[str, Any]:
        """The record as JSON values."""
        return asdict(self)

    def process(self) -> Any | None:
        """The `psutil.Process`, or None when it is gone or the number belongs to a stranger."""
        psutil = require("psutil")
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.began) <= SECONDS_OF_TOLERANCE
            if not same or process.status() == psutil.STATUS_ZOMBIE:
                return None
            return process if tuple(process.cmdline()) == self.command else None
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            return None


def write_record(path: Path, value: dict[str, Any]) -> None:
    """Write a file that readers see whole or not at all."""
    unfinished = path.with_suffix(".new")
    unfinished.write_text(json.dumps(value, indent=1) + "\n")
    unfinished.replace(path)


def read_record(path: Path) -> dict[str, Any] | None:
    """Read what `write_record` wrote; None when there is no such thing."""
    try:
        value = json.loads(path.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    return value if isinstance(value, dict) else None


def end(recorded: Sequence[Recorded], *, patience: float) -> list[Recorded]:
    """End processes that really are the recorded ones, with everything that they started.

    Args:
        recorded: Each may be gone.
        patience: Seconds between asking politely and killing.

    Returns:
        Those that were running.
    """
    psutil = require("psutil")
    running = [(entry, process) for entry in recorded if (process := entry.process()) is not None]
    family = []
    for _, process in running:
        with suppress(psutil.NoSuchProcess):
            family += process.children(recursive=True)
    leaders = [process for _, process in running]
    for process in leaders:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    _wait(leaders, patience)
    for process in filter(_alive, family):
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    _kill(_wait([*family, *leaders], SECONDS_FOR_FAMILY))
    return [entry for entry, _ in running]


def end_session(leader: int, *, patience: float) -> None:
    """End whatever is left of a session: politely first, so that a run can say its final word.

    Args:
        leader: The process that began the session. A child of the caller that has not been waited
            for: until then nobody else can get its number.
        patience: Seconds between asking politely and killing.
    """
    psutil = require("psutil")
    left = _session(leader)
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    _wait(left, patience)
    _kill(_session(leader))


def _kill(processes: list[Any]) -> None:
    psutil = require("psutil")
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    _wait(processes, SECONDS_FOR_FAMILY)


def _wait(processes: list[Any], seconds: float) -> list[Any]:
    """Wait until processes have ended, and return those that have not.

    psutil's own wait goes on while a dead process waits to be seen by its parent, and in a
    container the parent of orphans may never look.
    """
    deadline = time.monotonic() + seconds
    while (left := [one for one in processes if _alive(one)]) and time.monotonic() < deadline:
        time.sleep(SECONDS_BETWEEN_LOOKS)
    return left


def _alive(process: Any) -> bool:
    psutil = require("psutil")
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _session(leader: int) -> list[Any]:
    """The processes of a session. One that is dead and waits to be seen by its parent is none."""
    found = []
    for process in require("psutil").process_iter():
        with suppress(ProcessLookupError, PermissionError):
            if os.getsid(process.pid) == leader and _alive(process):
                found.append(process)
    return found
