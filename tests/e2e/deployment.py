"""Real Dagster processes on an installation: code server, daemon, command line."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import yaml
from dagster._core.errors import DagsterUserCodeUnreachableError
from dagster._grpc.client import DagsterGrpcClient

from filejobs_dagster.ledger.mirror import SILENCE
from filejobs_dagster.orchestration.reconcile import Reconciled, reconcile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import timedelta

    from tests.alerts.receiver import Receiver
    from tests.installation import Installation

CHECKOUT = Path(__file__).parents[2]
SCRIPTS = Path(sys.executable).parent
MODULE = "filejobs_dagster.definitions"

LONG = 180
"""Seconds that something may take on a slow machine."""

HURRIED = "tests.e2e.hurried"
HURRIED_DAEMON = (
    "from dagster._daemon import cli, controller; "
    "controller.DEFAULT_DAEMON_INTERVAL_SECONDS = 5; "
    "cli.main()"
)
"""`dagster-daemon`, which would look at backfills once in half a minute."""


@dataclass
class Deployment:
    """An installation with a DAGSTER_HOME whose storage is PostgreSQL."""

    installation: Installation
    home: Path
    dagster_url: str
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    port: int = 0
    module: str = HURRIED

    def __post_init__(self) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        shutil.copy(CHECKOUT / "dagster.yaml", self.home / "dagster.yaml")
        self.installation.write()

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            **self.installation.environment,
            "DAGSTER_HOME": str(self.home),
            "FILEJOBS_DAGSTER_URL": self.dagster_url,
            "PYTHONPATH": str(CHECKOUT),
        }

    @contextmanager
    def instance(self) -> Iterator[dg.DagsterInstance]:
        """The same instance, in this process."""
        saved = dict(os.environ)
        os.environ.update(self.environment)
        try:
            with dg.DagsterInstance.from_config(str(self.home)) as instance:
                yield instance
        finally:
            os.environ.clear()
            os.environ.update(saved)

    def reconcile(self, *, silence: timedelta = SILENCE) -> Reconciled:
        settings = self.installation.settings(self.environment)
        with self.instance() as instance:
            return reconcile(instance, settings, silence=silence)

    # --- command line -------------------------------------------------------------------------

    def dagster(
        self, *arguments: str, check: bool = True, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run `dagster …` to its end."""
        return self.run([str(SCRIPTS / "dagster"), *arguments], check=check, **environment)

    def execute(
        self, *arguments: str, check: bool = True, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """`dagster job execute` of upload_reservations."""
        return self.dagster(
            "job", "execute", "-m", MODULE, "-j", "upload_reservations", *arguments,
            check=check, **environment,
        )  # fmt: skip

    def run(
        self, command: list[str], *, check: bool = True, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command,
            env={**self.environment, **environment},
            cwd=self.installation.folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"{command} exited {done.returncode}:\n{done.stdout}{done.stderr}")
        return done

    # --- processes ----------------------------------------------------------------------------

    def start(self, command: list[str], log: str) -> subprocess.Popen[bytes]:
        """Start a process of this deployment; its output goes to a file of the installation."""
        with (self.installation.folder / log).open("ab") as output:
            process = subprocess.Popen(
                command,
                env=self.environment,
                cwd=self.installation.folder,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def start_code_server(self) -> subprocess.Popen[bytes]:
        self.port = self.port or free_port()
        process = self.start(
            [
                str(SCRIPTS / "dagster"), "api", "grpc", "-h", "127.0.0.1", "-p", str(self.port),
                "-m", self.module, "--location-name", "filejobs",
            ],
            "code-server.log",
        )  # fmt: skip
        self.workspace()
        client = DagsterGrpcClient(port=self.port, host="127.0.0.1")

        def serving() -> bool:
            if process.poll() is not None:
                raise AssertionError(self.log("code-server.log"))
            try:
                return bool(client.health_check_query() == "SERVING")  # type: ignore[no-untyped-call]
            except DagsterUserCodeUnreachableError:  # it does not listen yet
                return False

        wait_until(serving, "the code server serves", LONG)
        return process

    def workspace(self) -> Path:
        path = self.installation.folder / "workspace.yaml"
        server = {"host": "127.0.0.1", "port": self.port, "location_name": "filejobs"}
        path.write_text(yaml.safe_dump({"load_from": [{"grpc_server": server}]}))
        return path

    def start_webserver(self) -> str:
        """Start the web UI, and return its address once it answers."""
        port = free_port()
        process = self.start(
            [
                str(SCRIPTS / "dagster-webserver"), "-h", "127.0.0.1", "-p", str(port),
                "-w", str(self.workspace()),
            ],
            "webserver.log",
        )  # fmt: skip
        address = f"http://127.0.0.1:{port}"

        def answers() -> bool:
            if process.poll() is not None:
                raise AssertionError(self.log("webserver.log"))
            try:
                with urllib.request.urlopen(f"{address}/server_info", timeout=5):  # noqa: S310 (loopback)
                    return True
            except urllib.error.URLError:  # it does not listen yet
                return False

        wait_until(answers, "the webserver answers", LONG)
        return address

    def start_daemon(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", HURRIED_DAEMON, "run", "-w", str(self.workspace())]
        return self.start(command, "daemon.log")

    def log(self, name: str) -> str:
        path = self.installation.folder / name
        return path.read_text(errors="replace")[-8000:] if path.exists() else ""

    def stop(self) -> None:
        """End every process that this deployment started, and their children."""
        for process in reversed(self.processes):
            if process.poll() is None:
                process.terminate()
        deadline = time.monotonic() + 15
        for process in self.processes:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                kill_group(process)
        for process in self.processes:
            kill_group(process)

    # --- what Dagster knows -------------------------------------------------------------------

    def runs(self) -> list[dg.DagsterRun]:
        with self.instance() as instance:
            return list(instance.get_runs())

    def finished(self) -> dict[str, dg.DagsterRun]:
        return {run.run_id: run for run in self.runs() if run.is_finished}


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to the process group that `start` made; it may be gone already."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_until(condition: Callable[[], Any], what: str, seconds: float) -> Any:
    """Wait for something that real processes will do, and return what the condition gave."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds} s, and it is not so that {what}")
        time.sleep(0.5)


def told(receiver: Receiver, words: str) -> None:
    """Wait until an alert that says these words has arrived."""
    wait_until(lambda: any(words in said for said in receiver.texts), f"told: {words}", LONG)
