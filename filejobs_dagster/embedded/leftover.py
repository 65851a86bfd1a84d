"""Ends a server that an earlier process left running in the same data directory."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from filejobs_dagster.embedded.missing import require

if TYPE_CHECKING:
    from pathlib import Path

SECONDS_TO_STOP = 10.0


def processes_of(data: Path) -> list[Any]:
    """PostgreSQL's processes that work in a data directory.

    `postmaster.pid` alone proves nothing: after a crash its number may belong to any other process.
    Every process of PostgreSQL has the data directory as its working directory.

    Args:
        data: The data directory, resolved.

    Returns:
        `psutil.Process` objects, empty when no server runs there. Processes that may not be
        inspected belong to others and are left out.
    """
    psutil = require("psutil")
    found = []
    for process in psutil.process_iter(["name"]):
        if "postgres" not in (process.info["name"] or ""):
            continue
        try:
            directory = process.cwd()
        except (psutil.AccessDenied, psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
        if directory == str(data):
            found.append(process)
    return found


def end_leftover_server(data: Path) -> bool:
    """End whatever server still runs in a data directory, and clear its lock file.

    The caller must hold the directory's own lock, so that nobody is using that server.

    Args:
        data: The data directory, resolved. It need not exist.

    Returns:
        Whether a server was running.

    Raises:
        psutil.Error: A process could not be ended.
    """
    psutil = require("psutil")
    processes = processes_of(data)
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(processes, timeout=SECONDS_TO_STOP)
    # The server would refuse to start when this number now belongs to another process.
    (data / "postmaster.pid").unlink(missing_ok=True)
    return bool(processes)
