"""An installation with a DAGSTER_HOME of its own, for what is measured through Dagster."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import yaml

from benchmarks import reservations
from benchmarks.surroundings import CHECKOUT
from filejobs_dagster.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from benchmarks.surroundings import Surroundings
    from filejobs_dagster.settings import Settings

NAME = "benchmark"
JOB = "upload_reservations"
MODULE = "filejobs_dagster.definitions"
SECONDS_TO_STOP = 20


@dataclass(frozen=True)
class Installation:
    """Settings, databases and Dagster's home.

    Attributes:
        folder: Holds `filejobs.yaml` and the home.
        database_url: Of the project's tables.
        environment: What every process of it gets.
    """

    folder: Path
    database_url: str
    environment: Mapping[str, str]

    @classmethod
    def make(cls, surroundings: Surroundings) -> Installation:
        """Make one; nothing is due, and no job has a schedule."""
        server = surroundings.canned()
        bucket = f"{NAME}-{uuid.uuid4().hex[:12]}"
        reservations.store(server, bucket, [])
        folder = surroundings.folder / bucket
        home = folder / "dagster_home"
        home.mkdir(parents=True)
        shutil.copy(CHECKOUT / "dagster.yaml", home / "dagster.yaml")
        settings = folder / "filejobs.yaml"
        settings.write_text(yaml.safe_dump(_settings(server.endpoint_url, bucket)))
        database_url = surroundings.database()
        environment = surroundings.environment(
            **server.environment(),
            DAGSTER_HOME=str(home),
            FILEJOBS_CONFIG=str(settings),
            FILEJOBS_DATABASE_URL=database_url,
            FILEJOBS_DAGSTER_URL=surroundings.empty_database(),
        )
        return cls(folder, database_url, environment)

    @property
    def settings(self) -> Settings:
        """The settings, read as every process reads them."""
        return load_settings(self.folder / "filejobs.yaml", self.environment)

    @contextmanager
    def instance(self) -> Iterator[dg.DagsterInstance]:
        """Dagster's instance, in this process."""
        saved = dict(os.environ)
        os.environ.update(self.environment)
        try:
            with dg.DagsterInstance.from_config(self.environment["DAGSTER_HOME"]) as instance:
                yield instance
        finally:
            os.environ.clear()
            os.environ.update(saved)

    def execute(self, module: str = MODULE, job: str = JOB) -> list[str]:
        """The command line of `dagster job execute`."""
        return [sys.executable, "-m", "dagster", "job", "execute", "-m", module, "-j", job]

    def run(self, command: list[str]) -> None:
        """Run a command to its end.

        Raises:
            subprocess.CalledProcessError: It failed; its output goes with the exception.
        """
        subprocess.run(
            command, env=self.environment, cwd=self.folder, check=True, capture_output=True
        )

    @contextmanager
    def daemon(self) -> Iterator[None]:
        """Dagster's daemon with a code server of its own, ended with both."""
        process = subprocess.Popen(
            [str(Path(sys.executable).parent / "dagster-daemon"), "run", "-m", MODULE],
            env=self.environment,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Let the daemon stop its code server, then end what is left of the group it leads."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(SECONDS_TO_STOP)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _settings(endpoint_url: str, bucket: str) -> dict[str, object]:
    return {
        "installation": NAME,
        "database": {"url": {"env": "FILEJOBS_DATABASE_URL"}},
        "buckets": {
            "uploads": {
                "bucket": bucket,
                "endpoint_url": endpoint_url,
                "addressing": "path",
                "owns": [reservations.PREFIX],
                "min_age": "48h",
                "delete": "at_once",
            }
        },
        "jobs": {JOB: {"by_hand": True, "mode": "dry"}},
    }
