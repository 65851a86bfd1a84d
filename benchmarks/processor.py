"""Processor time: of a connection's server process, and of this one.

Other work on the machine distorts it far less than the time on the clock.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.measurement import readable

if TYPE_CHECKING:
    import psycopg

THOUSAND = 1000
MILLION = 1_000_000

_USER, _SYSTEM = 11, 12
"""Behind the command's name in /proc/PID/stat, whose fields `man proc_pid_stat` counts from 1."""


def own_and_server_seconds(*connections: psycopg.Connection[Any]) -> float:
    """Processor seconds until now: this process with all threads, and the servers of connections.

    The difference of two calls is what the work in between took, checkpoints and vacuum aside,
    which PostgreSQL leaves to other processes. The server must run on this machine.
    """
    return time.process_time() + sum(map(server_seconds, connections))


def server_seconds(connection: psycopg.Connection[Any]) -> float:
    """Processor seconds until now of a connection's server process, on this machine."""
    content = Path(f"/proc/{connection.info.backend_pid}/stat").read_text(encoding="utf-8")
    # The name may hold spaces and parentheses; nothing behind the last one does.
    fields = content.rpartition(")")[2].split()
    return (int(fields[_USER]) + int(fields[_SYSTEM])) / os.sysconf("SC_CLK_TCK")


def a_million(who: str, seconds: float, events: int) -> str:
    """Processor time for a million events, in words."""
    return f"{who} took {readable(seconds / events * MILLION)} s of processor time a million"
