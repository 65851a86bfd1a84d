"""The commands and the health checks of docker-compose.yml, run as processes of this machine."""

from __future__ import annotations

import json
import os
import re
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
from tests.embedded.test_containers import filled_in, prepared, variables_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from filejobs_dagster.embedded import EmbeddedPostgres, EmbeddedS3

pytestmark = pytest.mark.thorough

CHECKOUT = Path(__file__).parents[2]
ENGINE = os.environ.get("FILEJOBS_TEST_DOCKER") == "1"
SECONDS_TO_HEALTH = 150
LOCATIONS = (
    "{workspaceOrError{...on Workspace{locationEntries{name locationOrLoadError{__typename}}}}}"
)


@dataclass
class Containers:
    """The services of the compose file, with this machine's paths and ports for the containers'.

    Attributes:
        services: As they stand in the file, each with its own environment.
        machine: What every process gets besides.
        replacements: Text in commands and environments, and what stands for it here.
        log: What they say.
    """

    services: dict[str, dict[str, Any]]
    machine: dict[str, str]
    replacements: dict[str, str]
    log: Path

    def here(self, text: str) -> str:
        for old, new in self.replacements.items():
            text = text.replace(old, new)
        return text

    def environment(self, name: str) -> dict[str, str]:
        told = self.services[name]["environment"]
        # Of an address or a secret nothing is replaced, whatever digits it holds.
        ours = {
            key: self.here(value) if value in self.replacements or value[:1] == "/" else value
            for key, value in told.items()
        }
        return {**self.machine, **ours}

    def command(self, words: list[str]) -> list[str]:
        program, *arguments = words
        beside = Path(sys.executable).with_name(program)
        return [str(beside) if beside.exists() else program, *map(self.here, arguments)]

    def once(self, name: str) -> str:
        """Run a service that ends by itself."""
        done = subprocess.run(
            self.command(self.services[name]["command"]),
            env=self.environment(name),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @contextmanager
    def run(self, name: str) -> Iterator[psutil.Process]:
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                self.command(self.services[name]["command"]),
                env=self.environment(name),
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
            env=self.environment(name),
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
    postgres_server: EmbeddedPostgres,
    empty_database_url: str,
    s3_server: EmbeddedS3,
    webserver_port: int,
) -> Iterator[Containers]:
    checkout, settings, home = tmp_path / "checkout", tmp_path / "settings", tmp_path / "home"
    assert prepared(checkout).returncode == 0
    shutil.move(checkout / "deploy" / "settings", settings)
    trial = settings / "filejobs.yaml"
    trial.write_text(trial.read_text().replace("http://store:8333", s3_server.endpoint_url))
    home.mkdir()
    shutil.copy(CHECKOUT / "dagster.yaml", home)
    # Whose databases these are is all that differs from the .env that was made.
    environ = {
        **variables_of(checkout / ".env"),
        "DATABASE_URL": postgres_server.create_database("of_the_containers"),
        "DAGSTER_URL": empty_database_url,
    }
    compose = yaml.safe_load((CHECKOUT / "docker-compose.yml").read_text())
    code_port = str(free_port())
    yield Containers(
        services=filled_in(compose["services"], environ),
        # No AWS_* of this machine; a proxy stays away from its loopback address.
        machine={**clean_environment(os.environ), "no_proxy": "127.0.0.1,localhost"}
        | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        replacements={
            "0.0.0.0": "127.0.0.1",
            "code-server": "127.0.0.1",
            "4000": code_port,
            "3000": str(webserver_port),
            "/etc/filejobs": str(settings),
            "/var/lib/dagster": str(home),
        },
        log=tmp_path / "log",
    )
    postgres_server.drop_database("of_the_containers")


@pytest.mark.e2e
def test_services_come_up_in_the_order_of_the_file_and_stop_when_told(
    containers: Containers, webserver_port: int
) -> None:
    assert "applied 0001" in containers.once("migrate")
    assert "nothing to do" in containers.once("migrate")
    for _ in range(2):
        said = containers.once("trial")
        assert "The bucket uploads belongs to trial" in said
        assert re.search(r"upload_reservations .* ok +DRY ", said)
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


class Engine:
    """`docker compose` in a copy of what git has, as a project of its own."""

    def __init__(self, folder: Path, project: str) -> None:
        self.folder = folder
        self._environment = {
            **os.environ,
            "COMPOSE_PROJECT_NAME": project,
            "FILEJOBS_IMAGE": f"{project}:test",
            "WEB_PORT": str(free_port()),
        }

    def docker(self, *words: str, check: bool = True) -> str:
        done = subprocess.run(
            ["docker", *words],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert not check or done.returncode == 0, f"docker {words}: {done.stdout}{done.stderr}"
        return done.stdout

    def build(self) -> None:
        self.docker(
            "build", "-f", "deploy/Dockerfile", "-t", self._environment["FILEJOBS_IMAGE"], "."
        )

    def up(self, *options: str) -> None:
        self.docker("compose", "up", "--detach", "--wait", "--no-build", *options)

    def inside(self, service: str, *words: str, check: bool = True) -> str:
        return self.docker("compose", "exec", "-T", service, *words, check=check)

    def records(self) -> list[dict[str, Any]]:
        records: list[dict[str, Any]] = json.loads(
            self.inside("code", "filejobs", "runs", "--format", "json")
        )
        return records


REACHES = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)
except OSError:
    print("refused")
else:
    print("reached")
"""


@pytest.mark.e2e
@pytest.mark.timeout(3000)
@pytest.mark.skipif(
    not ENGINE, reason="needs Docker with compose and the images: FILEJOBS_TEST_DOCKER=1 says so"
)
def test_an_engine_builds_the_stack_uses_kills_upgrades_and_ends_it(tmp_path: Path) -> None:
    project = f"filejobs-test-{os.getpid()}"
    folder = tmp_path / "clone"
    subprocess.run(
        ["git", "clone", "--quiet", "--no-hardlinks", CHECKOUT, folder], check=True, timeout=120
    )
    engine = Engine(folder, project)
    # Nothing is made of a half-filled file.
    (folder / ".env").write_text("POSTGRES_PASSWORD=x\n")
    engine.docker("compose", "up", "--detach", check=False)
    assert engine.docker("volume", "ls", "-q", "--filter", f"name={project}") == ""
    (folder / ".env").unlink()
    subprocess.run([folder / "deploy" / "prepare.sh"], check=True, capture_output=True)
    engine.build()
    try:
        engine.up()
        assert [(each["job"], each["outcome"], each["mode"]) for each in engine.records()] == [
            ("upload_reservations", "ok", "dry")
        ]
        # Nobody but its callers reaches the code server, and nothing is written but in volumes.
        where = engine.inside("code", "sh", "-c", "getent hosts code-server").split()[0]
        assert "reached" in engine.inside("daemon", "python", "-c", REACHES, where, "4000")
        assert "refused" in engine.inside("daemon", "python", "-c", REACHES, "code-server", "4001")
        elsewhere = engine.docker(
            *("run", "--rm", "--network", f"{project}_data", "--entrypoint", "python"),
            *(f"{project}:test", "-c", REACHES, "code", "4000"),
        )
        assert "refused" in elsewhere
        assert engine.inside("code", "sh", "-c", "touch /opt/x || echo no") == "no\n"
        # The brake, saved as a new file, reaches what runs.
        settings = folder / "deploy" / "settings" / "filejobs.yaml"
        new = settings.with_name("new")
        new.write_text(f"allow_live: false\n{settings.read_text()}")
        new.chmod(0o644)
        new.replace(settings)
        assert "allow_live: false" in engine.inside("code", "cat", "/etc/filejobs/filejobs.yaml")
        # Killed, started again, and made anew as an upgrade does: the record is still there.
        engine.docker("compose", "kill", "--signal", "KILL", "code", "postgres")
        engine.up()
        engine.build()
        engine.up("--force-recreate")
        engine.inside("code", "filejobs", "run", "storage_orphans")
        assert {(each["job"], each["outcome"]) for each in engine.records()} == {
            ("upload_reservations", "ok"),
            ("storage_orphans", "ok"),
        }
    finally:
        engine.docker("compose", "logs", "--tail", "50", check=False)
        engine.docker("compose", "down", "--volumes", "--timeout", "60", check=False)
    assert engine.docker("volume", "ls", "-q", "--filter", f"name={project}") == ""
