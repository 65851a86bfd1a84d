"""A code server replaced with runs in the queue, and servers that a script has started."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import dagster as dg
import pytest

from tests.e2e.deployment import MODULE, SCRIPTS, free_port, wait_until

if TYPE_CHECKING:
    from tests.e2e.deployment import Deployment

pytestmark = [pytest.mark.e2e, pytest.mark.thorough, pytest.mark.timeout(900)]

JOB = "upload_reservations"
QUEUED = dg.RunsFilter(statuses=[dg.DagsterRunStatus.QUEUED])


def launch(deployment: Deployment) -> None:
    deployment.dagster("job", "launch", "-w", str(deployment.workspace()), "-j", JOB)


def wait_for(deployment: Deployment, outcomes: list[str]) -> None:
    def over() -> bool:
        return sorted(run.status.value for run in deployment.runs()) == outcomes

    try:
        wait_until(over, f"the runs ended as {outcomes}", 180)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{deployment.log('daemon.log')}") from None


def test_runs_that_are_started_while_the_code_server_is_replaced_wait_for_the_new_one(
    deployment: Deployment,
) -> None:
    deployment.installation.job(by_hand=True, mode="dry")
    first = deployment.start_code_server()
    deployment.start_daemon()
    launch(deployment)
    wait_for(deployment, ["SUCCESS"])

    filejobs = str(SCRIPTS / "filejobs")
    replace = deployment.installation.folder / "replace.sh"
    go = deployment.installation.folder / "go"
    there = deployment.installation.folder / "replaced"
    wait = "do sleep 0.2; done"
    replace.write_text(
        f"while [ ! -e {go} ]; {wait}\nkill {first.pid}\ntouch {there}\n"
        f"while [ -e {there} ]; {wait}\n"
    )
    launched = deployment.start([filejobs, "drain", "--", "sh", str(replace)], "drain.log")
    wait_until(lambda: "is held by" in deployment.log("drain.log"), "the queue is held", 180)
    launch(deployment)
    go.touch()
    wait_until(there.exists, "the code server was told to end", 180)
    wait_until(lambda: first.poll() is not None, "the code server ended", 180)
    with deployment.instance() as instance:
        assert instance.get_runs_count(QUEUED) == 1
    deployment.start_code_server()
    there.unlink()
    assert launched.wait(180) == 0
    wait_for(deployment, ["SUCCESS", "SUCCESS"])
    assert "The queue goes on" in deployment.log("drain.log")


def test_a_drain_that_is_stopped_lets_go_and_one_that_is_killed_is_told_of(
    deployment: Deployment,
) -> None:
    filejobs = str(SCRIPTS / "filejobs")
    deployment.installation.document["jobs"][JOB] = {"by_hand": True, "mode": "dry"}
    deployment.installation.write()

    def begun(number: int) -> subprocess.Popen[bytes]:
        process = deployment.start([filejobs, "drain", "--", "sleep", "600"], f"{number}.log")
        wait_until(lambda: "is held by" in deployment.log(f"{number}.log"), "it is held", 180)
        return process

    stopped = begun(1)
    stopped.send_signal(signal.SIGHUP)
    assert stopped.wait(60) != 0
    assert "The queue goes on (it was held by" in deployment.log("1.log")
    assert "No run begins" not in deployment.run([filejobs, "status"]).stdout

    begun(2).kill()
    said = "No run begins: the queue is held by "
    assert said in deployment.run([filejobs, "status"]).stdout
    assert "no run begins: the queue is held by" in deployment.run(
        [filejobs, "doctor"], check=False
    ).stdout.replace("\n", " ")
    deployment.run([filejobs, "drain", "--resume"])
    assert "No run begins" not in deployment.run([filejobs, "status"]).stdout


def test_sigterm_ends_a_code_server_that_a_script_started_in_the_background(
    deployment: Deployment,
) -> None:
    """A shell without job control starts what ends in `&` with SIGINT ignored."""
    port = free_port()
    command = [SCRIPTS / "dagster", "api", "grpc", "-h", "127.0.0.1", "-p", str(port), "-m", MODULE]
    script = f"{' '.join(map(str, command))} & echo $! > pid; wait"
    shell = deployment.start(["sh", "-c", script], "code-server.log")
    folder = deployment.installation.folder
    wait_until(
        lambda: subprocess.run(
            [SCRIPTS / "filejobs", "live", "code", "--port", str(port)],
            check=False, capture_output=True,
        ).returncode == 0,
        "the code server serves", 180,
    )  # fmt: skip
    pid = int((folder / "pid").read_text())
    subprocess.run(["kill", "-TERM", str(pid)], check=True)
    assert shell.wait(180) in (0, 128 + signal.SIGTERM, 130)


def test_control_dagster_alone_ignores_sigterm_then() -> None:
    code = (
        "import signal; from dagster._utils.interrupts import setup_interrupt_handlers as set_up;"
        "signal.signal(signal.SIGINT, signal.SIG_IGN); set_up();"
        "print(signal.getsignal(signal.SIGTERM) is signal.SIG_IGN)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
