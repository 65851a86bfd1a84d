"""`filejobs serve-trigger` as a real process, with a real code server and daemon behind it."""

from __future__ import annotations

import http.client
import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

from filejobs_dagster.orchestration.launching import opened_place, start_run
from filejobs_dagster.orchestration.runs import active_run
from tests.e2e.deployment import SCRIPTS, free_port, wait_until

if TYPE_CHECKING:
    from tests.e2e.deployment import Deployment

pytestmark = [pytest.mark.e2e, pytest.mark.thorough, pytest.mark.timeout(280)]

JOB = "upload_reservations"
CRON = "cron-token-of-the-tests-0123456789"
OPERATOR = "operator-token-of-the-tests-0123456789"


def configure(deployment: Deployment, monkeypatch: pytest.MonkeyPatch, **job: Any) -> None:
    monkeypatch.setenv("FILEJOBS_TRIGGER_CRON", CRON)
    monkeypatch.setenv("FILEJOBS_TRIGGER_OPERATOR", OPERATOR)
    document = deployment.installation.document
    document["jobs"][JOB] = {"by_hand": True, "mode": "live", **job}
    document["trigger"] = {
        "tokens": {
            "cron": {"token": {"env": "FILEJOBS_TRIGGER_CRON"}},
            "ada": {"token": {"env": "FILEJOBS_TRIGGER_OPERATOR"}, "may_go_live": True},
        }
    }
    deployment.installation.write()


def serve(deployment: Deployment) -> int:
    port = free_port()
    process = deployment.start(
        [
            str(SCRIPTS / "filejobs"), "serve-trigger", "--port", str(port),
            "-w", str(deployment.workspace()),
        ],
        "serve-trigger.log",
    )  # fmt: skip

    def answers() -> bool:
        assert process.poll() is None, deployment.log("serve-trigger.log")
        try:
            return ask(port, "/healthz", "GET")[0] == 200
        except OSError:
            return False

    wait_until(answers, "it listens", 60)
    return port


def ask(
    port: int, path: str = f"/jobs/{JOB}/runs", method: str = "POST", *, token: str = CRON,
    mode: str | None = None,
) -> tuple[int, dict[str, Any]]:  # fmt: skip
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=90)
    body = None if mode is None else json.dumps({"mode": mode})
    connection.request(method, path, body, {"Authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    document: dict[str, Any] = json.loads(answer.read())
    connection.close()
    return answer.status, document


def test_of_many_requests_to_two_processes_one_run_is_queued_and_the_limits_hold(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(deployment, monkeypatch)
    deployment.start_code_server()
    ports = [serve(deployment), serve(deployment)]

    answers: list[tuple[int, dict[str, Any]]] = []
    asking = [
        threading.Thread(target=lambda port=ports[n % 2]: answers.append(ask(port)))
        for n in range(6)
    ]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join(120)
    assert sorted(code for code, _ in answers) == [202, 409, 409, 409, 409, 409]
    [run] = deployment.runs()
    queued = next(said for code, said in answers if code == 202)
    assert queued == {"status": "queued", "run_id": run.run_id, "mode": "live"}
    assert {said["run_id"] for _, said in answers} == {run.run_id}
    assert run.run_config == {}
    assert run.tags["filejobs/trigger"] == "http"
    assert run.tags["filejobs/started_by"] == "cron"
    assert run.tags["filejobs/mode"] == "live"
    assert run.tags["filejobs/exclusive"] == f"test/{JOB}"
    assert run.tags["dagster/partition_set"] == f"{JOB}_partition_set"

    port = ports[0]
    assert ask(port, "/jobs/no_such_job/runs")[0] == 404
    assert ask(port, "/jobs/storage_orphans/runs")[0] == 404, "it does not stand in the settings"
    assert ask(port, token="x" * 40)[0] == 401

    with deployment.instance() as instance:
        instance.delete_run(run.run_id)
    for _ in range(4):
        code, said = ask(port, mode="dry")
        assert code == 202
        with deployment.instance() as instance:
            dry = instance.get_run_by_id(said["run_id"])
            assert dry is not None
            assert dry.tags["filejobs/mode"] == "dry"
            assert "dagster/partition" not in dry.tags
            instance.delete_run(said["run_id"])
    code, said = ask(ports[1])
    assert (code, said["status"]) == (429, "too often")
    assert said["retry_after_seconds"] > 3000
    for log in ("serve-trigger.log", "code-server.log"):
        for token in (CRON, OPERATOR, "x" * 40):
            assert token not in deployment.log(log)


def test_a_run_started_over_http_is_recorded_with_its_door_and_its_holder(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    installation = deployment.installation
    configure(deployment, monkeypatch, mode="dry")
    installation.reserve("files/a")
    deployment.start_code_server()
    deployment.start_daemon()
    port = serve(deployment)

    assert ask(port, mode="live") == (403, {"status": "not allowed"})
    code, said = ask(port, mode="live", token=OPERATOR)
    assert (code, said["mode"]) == (202, "live")
    [record] = wait_until(installation.records, "the run is recorded", 150)

    assert record["run_id"] == said["run_id"]
    assert (record["outcome"], record["mode"], record["acted"]) == ("ok", "live", 1)
    assert record["detail"]["trigger"]["kind"] == "http"
    assert record["detail"]["started_by"]["user"] == "ada"
    assert record["detail"]["window"] == {"covers": "everything"}

    installation.execute(
        "INSERT INTO hold (installation, held_by, why) VALUES (%s, 'ada@desk', 'files are gone')",
        (installation.document["installation"],),
    )
    code, said = ask(port, mode="live", token=OPERATOR)
    assert (code, said["mode"]) == (202, "dry"), "whoever asked is told that the job is held"

    installation.document["installation"] = 1
    installation.write()
    assert ask(port) == (503, {"status": "unavailable"})
    assert "installation" in deployment.log("serve-trigger.log")


def test_control_without_the_lock_two_requests_at_once_start_two_runs(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(deployment, monkeypatch)
    deployment.start_code_server()
    settings = deployment.installation.settings(
        {**deployment.environment, "FILEJOBS_TRIGGER_CRON": CRON}
    )
    barrier = threading.Barrier(2)
    with (
        deployment.instance() as instance,
        opened_place(instance, "test", deployment.workspace()) as place,
    ):
        place.find(JOB)

        def careless() -> None:
            at_work = active_run(instance, settings, JOB)
            barrier.wait(60)
            if at_work is None:
                start_run(place, JOB, {})

        threads = [threading.Thread(target=careless) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(list(instance.get_runs())) == 2
