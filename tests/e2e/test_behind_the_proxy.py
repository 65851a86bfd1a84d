"""The web UI behind deploy/proxy: who starts a run is named, and who looks starts none."""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.e2e.deployment import SCRIPTS, free_port, wait_until
from tests.embedded.test_proxy import HOST, LOGIN, LOOK, caddy, nginx, require

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.e2e.deployment import Deployment

pytestmark = [pytest.mark.e2e, pytest.mark.thorough, pytest.mark.timeout(600)]

JOB = "upload_reservations"
LAUNCH = """
mutation Launch($params: ExecutionParams!) {
  launchRun(executionParams: $params) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on UnauthorizedError { message }
    ... on PythonError { message }
  }
}
"""
PARAMS = {
    "selector": {
        "repositoryLocationName": "filejobs",
        "repositoryName": "__repository__",
        "jobName": JOB,
    },
    "runConfigData": {},
}


class Proxy:
    """What a browser and its scripts can ask."""

    def __init__(self, port: int) -> None:
        self.port = port

    def ask(self, method: str, path: str, host: str, body: str = "", **headers: str) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            sent = {"Host": host, "Content-Type": "application/json", **LOGIN, **headers}
            connection.request(method, path, body, sent)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def launch(self, host: str, **headers: str) -> Any:
        body = json.dumps({"query": LAUNCH, "variables": {"params": PARAMS}})
        return self.ask("POST", "/graphql", host, body, **headers)


@pytest.fixture(params=[nginx, caddy], ids=lambda made: made.__name__)
def proxy(request: pytest.FixtureRequest, deployment: Deployment, tmp_path: Path) -> Proxy:
    """A login before two webservers, of which one only reads."""
    program: Callable[[Path, int, tuple[int, int]], list[str]] = request.param
    require(program.__name__)
    instance = deployment.home / "dagster.yaml"
    document = yaml.safe_load(instance.read_text())
    document["run_coordinator"]["config"]["user_header"] = "X-Forwarded-User"
    instance.write_text(yaml.safe_dump(document))
    deployment.installation.document["jobs"][JOB] = {"by_hand": True, "mode": "dry"}
    deployment.installation.write()
    deployment.start_code_server()
    deployment.start_daemon()
    writes, reads = free_port(), free_port()
    for port, options in ((writes, []), (reads, ["--read-only"])):
        deployment.start(
            [
                str(SCRIPTS / "dagster-webserver"), "-h", "127.0.0.1", "-p", str(port),
                "-w", str(deployment.workspace()), *options,
            ],
            "webserver.log",
        )  # fmt: skip
    folder = tmp_path / program.__name__
    folder.mkdir()
    made = Proxy(free_port())
    deployment.start(program(folder, made.port, (writes, reads)), "proxy.log")

    def answers(host: str) -> bool:
        try:
            return bool(made.ask("GET", "/server_info", host)[0] == 200)
        except OSError:
            return False

    for host in (HOST, LOOK):
        wait_until(lambda host=host: answers(host), f"{host} answers", 120)  # type: ignore[misc]
    return made


def test_who_logged_in_is_named_in_the_record_and_who_only_looks_starts_nothing(
    deployment: Deployment, proxy: Proxy
) -> None:
    # Refused before it reaches a webserver: GraphQL by GET, and from another site.
    query = "/graphql?query=mutation{__typename}"
    assert proxy.ask("GET", query, HOST, Accept="image/png")[0] == 405
    assert proxy.launch(HOST, Origin="https://evil.example.com")[0] == 403
    # A spectator's page may ask, and start nothing.
    status, said = proxy.launch(LOOK, Origin=f"https://{LOOK}")
    assert (status, json.loads(said)["data"]["launchRun"]["__typename"]) == (
        200,
        "UnauthorizedError",
    )
    assert proxy.ask("POST", "/report_asset_materialization/x", LOOK, "{}")[0] in (401, 403)
    assert deployment.runs() == []

    status, said = proxy.launch(HOST, Origin=f"https://{HOST}", **{"X-Forwarded-User": "mallory"})
    launched = json.loads(said)["data"]["launchRun"]
    assert (status, launched["__typename"]) == (200, "LaunchRunSuccess"), said

    [record] = wait_until(deployment.installation.records, "the run is recorded", 180)
    assert record["run_id"] == launched["run"]["runId"]
    assert record["detail"]["trigger"]["kind"] == "ui"
    by = record["detail"]["started_by"]
    assert (by["user"], by["how"]) == ("maria", "proxy header")
    [run] = deployment.runs()
    assert run.tags["filejobs/started_by"] == "maria"
    assert "maria" in deployment.run([str(SCRIPTS / "filejobs"), "runs"]).stdout
