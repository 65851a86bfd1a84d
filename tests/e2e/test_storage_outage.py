"""Dagster's storage goes away under a code server whose run ends meanwhile, and comes back."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import psutil
import pytest
from dagster._grpc.__generated__.dagster_api_pb2 import StartRunRequest
from dagster._grpc.client import DagsterGrpcClient

from tests.e2e.deployment import SCRIPTS, Deployment, wait_until
from tests.e2e.test_lost_and_cancelled import a_live_run_that_hangs
from tests.installation import make_installation

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded import EmbeddedPostgres
    from filejobs_dagster.embedded.s3 import EmbeddedS3

pytestmark = [pytest.mark.e2e, pytest.mark.thorough, pytest.mark.timeout(600)]

GOES_ON = "How a run ended could not be written down"


@pytest.fixture
def apart(
    tmp_path: Path,
    database_url: str,
    separate_postgres_server: EmbeddedPostgres,
    bucket: str,
    s3_client: S3Client,
    s3_server: EmbeddedS3,
) -> Iterator[Deployment]:
    """A deployment whose Dagster keeps its runs in a server that may be stopped."""
    installation = make_installation(tmp_path, database_url, bucket, s3_client, s3_server)
    installation.adopt()
    url = separate_postgres_server.create_database("dagster")
    made = Deployment(installation, tmp_path / "dagster_home", url)
    yield made
    made.stop()


def a_run_killed_while_the_storage_is_away(
    deployment: Deployment, storage: EmbeddedPostgres, said: str
) -> subprocess.Popen[bytes]:
    """Return the code server whose run it was, when it has said what it made of that."""
    with a_live_run_that_hangs(deployment):
        server = deployment.processes[0]
    [worker] = workers(server)
    storage.kill()
    worker.send_signal(signal.SIGKILL)
    log = deployment.installation.folder / "code-server.log"
    wait_until(lambda: said in log.read_text(), "the code server has looked after its run", 180)
    return server


def workers(server: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """The processes of its runs."""
    children = psutil.Process(server.pid).children()
    return [child for child in children if "spawn_main" in " ".join(child.cmdline())]


def test_a_run_that_ended_in_the_outage_is_told_after_it_and_the_server_can_be_replaced(
    apart: Deployment, separate_postgres_server: EmbeddedPostgres
) -> None:
    server = a_run_killed_while_the_storage_is_away(apart, separate_postgres_server, GOES_ON)
    apart.installation.document["buckets"]["uploads"]["sources"] = []
    apart.installation.write()
    separate_postgres_server.restart()
    # What crashed is started once more, by the same server.
    wait_until(
        lambda: sorted(run.status.value for run in apart.runs()) == ["FAILURE", "SUCCESS"],
        "the run's end is written down, and the next one succeeds",
        300,
    )
    server.terminate()
    assert server.wait(180) == 0


def test_a_code_server_ends_when_told_so_in_the_middle_of_the_outage(
    apart: Deployment, separate_postgres_server: EmbeddedPostgres
) -> None:
    server = a_run_killed_while_the_storage_is_away(apart, separate_postgres_server, GOES_ON)
    server.terminate()
    assert server.wait(180) == 0


def test_control_dagster_alone_refuses_runs_and_never_ends_after_the_outage(
    apart: Deployment, separate_postgres_server: EmbeddedPostgres
) -> None:
    (apart.installation.folder / "alone.py").write_text(
        "import filejobs_dagster.orchestration.storage as storage\n"
        "storage.outlive_outages = lambda: None\n"
        "from tests.e2e.hurried import defs\n"
    )
    apart.module = "alone"
    died = "Exception in thread grpc-server-cleanup"
    server = a_run_killed_while_the_storage_is_away(apart, separate_postgres_server, died)
    separate_postgres_server.restart()
    server.terminate()
    client = DagsterGrpcClient(port=apart.port, host="127.0.0.1")

    def refuses() -> bool:
        answer = client._query("StartRun", StartRunRequest, serialized_execute_run_args="")
        return "after telling it to shut down" in answer.serialized_start_run_result

    wait_until(refuses, "it refuses runs", 60)
    assert workers(server) == [], "it waits for nobody"
    assert server.poll() is None
    asked = [str(SCRIPTS / "filejobs"), "live", "code", "--port", str(apart.port)]
    assert apart.run(asked).returncode == 0, "and its health looks well"
