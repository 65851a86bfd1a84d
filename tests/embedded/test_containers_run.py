"""The commands and the health checks of docker-compose.yml, run as processes of this machine."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import yaml

from filejobs_dagster.embedded import clean_environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.embedded import EmbeddedS3

pytestmark = pytest.mark.thorough

CHECKOUT = Path(__file__).parents[2]
SECONDS_TO_HEALTH = 150
LOCATIONS = (
    "{workspaceOrError{...on Workspace{locationEntries{name locationOrLoadError{__typename}}}}}"
)


@dataclass
class Containers:
    """The services of the compose file, with this machine's paths and ports in their commands."""

    services: dict[str, dict[str, Any]]
    environment: dict[str, str]
    replacements: dict[str, str]
    log: Path

    def command(self, words: list[str]) -> list[str]:
        program, *arguments = words
        for old, new in self.replacements.items():
            arguments = [argument.replace(old, new) for argument in arguments]
        return [str(Path(sys.executable).with_name(program)), *arguments]

    @contextmanager
    def run(self, name: str) -> Iterator[psutil.Process]:
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                self.command(self.services[name]["command"]),
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            yield psutil.Process(process.pid)
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise

    def check(self, name: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(self.services[name]["healthcheck"]["test"][1:]),
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def wait_for_health(self, name: str, process: psutil.Process) -> None:
        deadline = time.monotonic() + SECONDS_TO_HEALTH
        while (result := self.check(name)).returncode != 0:
            said = f"{name}: {result.stdout}{result.stderr}\n{self.log.read_text()[-4000:]}"
            assert process.status() != psutil.STATUS_ZOMBIE, said
            assert time.monotonic() < deadline, said
            time.sleep(0.5)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def webserver_port() -> int:
    return free_port()


@pytest.fixture
def containers(
    tmp_path: Path,
    database_url: str,
    empty_database_url: str,
    s3_server: EmbeddedS3,
    webserver_port: int,
) -> Containers:
    compose = yaml.safe_load((CHECKOUT / "docker-compose.yml").read_text())
    code_port = str(free_port())
    shutil.copy(CHECKOUT / "dagster.yaml", tmp_path)
    return Containers(
        services=compose["services"],
        environment={
            **clean_environment(os.environ),
            **s3_server.environment(),
            "DAGSTER_HOME": str(tmp_path),
            "FILEJOBS_CONFIG": str(CHECKOUT / "filejobs.yaml"),
            "FILEJOBS_DATABASE_URL": database_url,
            "FILEJOBS_DAGSTER_URL": empty_database_url,
            "FILEJOBS_CODE_HOST": "127.0.0.1",
            "FILEJOBS_CODE_PORT": code_port,
        },
        replacements={
            "0.0.0.0": "127.0.0.1",
            "4000": code_port,
            "3000": str(webserver_port),
            "/etc/filejobs/": f"{CHECKOUT / 'deploy' / 'settings'}/",
        },
        log=tmp_path / "log",
    )


@pytest.mark.e2e
def test_three_services_become_healthy_in_the_order_of_the_file_and_stop_when_told(
    containers: Containers, webserver_port: int
) -> None:
    order = ("code", "webserver", "daemon")
    with ExitStack() as running:
        processes = []
        for name in order:
            assert containers.check(name).returncode != 0, f"{name} is healthy before it started"
            processes.append(running.enter_context(containers.run(name)))
            containers.wait_for_health(name, processes[-1])
        request = urllib.request.Request(
            f"http://127.0.0.1:{webserver_port}/graphql",
            data=json.dumps({"query": LOCATIONS}).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310 (loopback)
            answer = json.load(response)
        family = [*processes, *(child for one in processes for child in one.children(True))]
    assert answer["data"]["workspaceOrError"]["locationEntries"] == [
        {"name": "filejobs", "locationOrLoadError": {"__typename": "RepositoryLocation"}}
    ]
    gone, alive = psutil.wait_procs(family, timeout=30)
    assert gone
    assert alive == []
