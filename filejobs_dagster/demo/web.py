"""The web UI and the daemon on the demo's data: started, watched and ended together."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from filejobs_dagster.demo.place import shown
from filejobs_dagster.demo.processes import (
    Recorded,
    end,
    end_session,
    read_record,
    write_record,
)
from filejobs_dagster.demo.screen import ENDING, DemoFailed, handling
from filejobs_dagster.demo.servers import tail

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path
    from types import FrameType

    from filejobs_dagster.demo.place import DemoPlace

SECONDS_TO_START = 120.0
SECONDS_TO_STOP = 15.0
SECONDS_FOR_RUNS = 10.0
"""What a run that is at work gets to write its final word."""

SECONDS_BETWEEN_LOOKS = 0.2
PORTS_TO_PROPOSE_FROM = 100

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_WORTH_SHOWING = re.compile(
    r" - (?:WARNING|ERROR|CRITICAL) - |Completed launch of run|^filejobs_dagster\S+: "
)
_NOISE = re.compile(
    # The first start has nothing to go on from. Of a failed tick the next line says why. What is
    # beta in Dagster is a developer's business.
    r"No cursor for event type|Sensor (?:tick|daemon) caught an error|(?:Beta|Preview)Warning: "
)
_HEAD = re.compile(r"^\S+ \S+ [+-]\d{4} - |^(?:\w+\.)+(?=\w+: )")


class Web:
    """The webserver and the daemon of one `filejobs dev`."""

    def __init__(
        self, place: DemoPlace, environment: Mapping[str, str], say: Callable[[str], None]
    ) -> None:
        """Nothing starts yet.

        Args:
            place: The demo.
            environment: Of the processes.
            say: Called with every line of theirs that is worth a person's attention.
        """
        self._place = place
        self._environment = environment
        self._say = say
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._readers: list[threading.Thread] = []
        self._said: set[str] = set()

    def start(self, host: str, port: int) -> None:
        """Start both, recorded so that a later command can end them if this one is killed.

        Args:
            host: The address that the webserver listens on.
            port: The port, which must be free.
        """
        workspace = ["-w", str(self._place.workspace)]
        listen = ["-h", host, "-p", str(port)]
        self._launch("webserver", ["-m", "dagster_webserver", *listen, *workspace])
        self._launch("daemon", ["-m", "dagster._daemon", "run", *workspace])

    def wait_until_ready(self, host: str, port: int, stopping: threading.Event) -> bool:
        """Wait until the webserver answers.

        Returns:
            False when `stopping` was set before.

        Raises:
            DemoFailed: It ended, or stayed silent.
        """
        deadline = time.monotonic() + SECONDS_TO_START
        while not stopping.wait(SECONDS_BETWEEN_LOOKS):
            if _answers(host, port):
                return True
            self.must_run()
            if time.monotonic() > deadline:
                raise self._failed(
                    "webserver", f"it did not answer within {SECONDS_TO_START:.0f} seconds"
                )
        return False

    def must_run(self) -> None:
        """Make sure that both still run.

        Raises:
            DemoFailed: One has ended.
        """
        for role, process in self._processes.items():
            if process.poll() is not None:
                raise self._failed(role, f"it ended with exit code {process.returncode}")

    def stop(self) -> None:
        """End both and everything that they started: code servers, and runs that do not stop."""
        for process in self._processes.values():
            process.terminate()
        deadline = time.monotonic() + SECONDS_TO_STOP
        for process in self._processes.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
            # Each leads a session of its own: what is left in it belongs to nobody else.
            end_session(process.pid, patience=SECONDS_FOR_RUNS)
            process.wait()
        for reader in self._readers:
            reader.join(timeout=5)
        self._processes.clear()
        self._place.web.unlink(missing_ok=True)

    def _launch(self, role: str, arguments: list[str]) -> None:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=self._place.home,
            env=self._environment,
            text=True,
            encoding="utf-8",
            errors="replace",
            # Ctrl-C reaches this process only, which then ends the others in order.
            start_new_session=True,
        )
        self._processes[role] = process
        reader = threading.Thread(target=self._read, args=(role, process), daemon=True)
        reader.start()
        self._readers.append(reader)
        self._record()

    def _record(self) -> None:
        everybody = [("filejobs dev", os.getpid())]
        everybody += [(role, process.pid) for role, process in self._processes.items()]
        recorded = [Recorded.of(role, pid).as_json() for role, pid in everybody]
        write_record(self._place.web, {"processes": recorded})

    def _read(self, role: str, process: subprocess.Popen[str]) -> None:
        with self._log(role).open("w", encoding="utf-8", buffering=1) as file:
            for line in process.stdout or ():
                plain = _COLOURS.sub("", line)
                file.write(plain)
                self._show(f"{role}: {_HEAD.sub('', plain).strip()}", plain)

    def _show(self, text: str, line: str) -> None:
        """Say what is worth a person's attention, and say it once."""
        if not _WORTH_SHOWING.search(line) or _NOISE.search(line) or text in self._said:
            return
        self._said.add(text)
        # The terminal may be gone. Reading must go on, or the process would block on a full pipe.
        with suppress(OSError):
            self._say(text)

    def _log(self, role: str) -> Path:
        return self._place.logs / f"{role}.log"

    def _failed(self, role: str, found: str) -> DemoFailed:
        log = self._log(role)
        return DemoFailed(
            f"to run the {role}",
            f"{found}; the end of {shown(log)}:\n{tail(log)}",
            "mend what the log names and start again",
        )


def running(place: DemoPlace) -> list[Recorded]:
    """The processes of a `filejobs dev` that are there, the command itself first."""
    record = read_record(place.web)
    entries = [] if record is None else [Recorded.from_json(one) for one in record["processes"]]
    return [entry for entry in entries if entry.process() is not None]


def stop(place: DemoPlace) -> list[Recorded]:
    """End what a `filejobs dev` runs, or has left running.

    Returns:
        What was running.
    """
    found = [entry for entry in running(place) if entry.pid != os.getpid()]
    # The command ends its own processes; those of a killed one are left for the second call.
    end(found[:1], patience=2 * (SECONDS_TO_STOP + SECONDS_FOR_RUNS))
    end(found[1:], patience=SECONDS_TO_STOP)
    place.web.unlink(missing_ok=True)
    return found


def must_be_free(host: str, port: int) -> None:
    """Make sure that a port can be listened on.

    Raises:
        DemoFailed: It cannot; the message names one that can.
    """
    reason = _refusal(host, port)
    if reason is None:
        return
    candidates = range(port + 1, min(port + 1 + PORTS_TO_PROPOSE_FROM, 65536))
    free = next((other for other in candidates if _refusal(host, other) is None), None)
    advice = "name another one with --port" if free is None else f"use --port {free}, which is free"
    raise DemoFailed(f"to listen on {host}, port {port}", reason, advice)


def _refusal(host: str, port: int) -> str | None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        # As the webserver does it: a port whose last connections are still closing is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error.strerror or str(error)
    return None


def _answers(host: str, port: int) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{address(host, port)}/server_info", timeout=5) as response:
            return bool(response.status == 200)  # noqa: PLR2004 (HTTP's own number)
    except (urllib.error.URLError, OSError):
        return False


def address(host: str, port: int) -> str:
    """Where a browser on this machine finds the webserver."""
    if host in {"0.0.0.0", "::"}:  # noqa: S104 (compared, not listened on)
        host = "127.0.0.1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@contextmanager
def until_told_to_stop() -> Iterator[threading.Event]:
    """An event that Ctrl-C, SIGTERM and SIGHUP set, instead of ending this process at once."""
    told = threading.Event()

    def stop_soon(signum: int, frame: FrameType | None) -> None:  # noqa: ARG001 (signal()'s call)
        told.set()

    with handling((signal.SIGINT, *ENDING), stop_soon):
        yield told
