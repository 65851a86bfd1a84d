"""What deploy/ has for places without compose, looked at by the tools of those places."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
import yaml
from botocore.session import Session
from botocore.validate import ParamValidator
from dagster._config import process_config, resolve_to_config_type
from dagster_aws.ecs import EcsRunLauncher

if TYPE_CHECKING:
    from collections.abc import Mapping

CHECKOUT = Path(__file__).parents[2]
SYSTEMD = CHECKOUT / "deploy" / "systemd"
ECS = CHECKOUT / "deploy" / "ecs"
COMMANDS = {"code": "code", "webserver": "webserver", "daemon": "daemon"}


@pytest.fixture(scope="module")
def services() -> Mapping[str, Any]:
    loaded: Mapping[str, Any] = yaml.safe_load((CHECKOUT / "docker-compose.yml").read_text())
    return loaded["services"]  # type: ignore[no-any-return]


def settings_of(unit: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, value in re.findall(r"^(\w+)=(.*)$", unit.read_text(), re.MULTILINE):
        found.setdefault(name, []).append(value)
    return found


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    units = []
    for unit in SYSTEMD.glob("*.service"):
        # Only that the programs are not installed there is no mistake of the unit.
        said = re.sub(
            r"^ExecStart=\S+", "ExecStart=/bin/true", unit.read_text(), flags=re.MULTILINE
        )
        units.append(tmp_path / unit.name)
        units[-1].write_text(said)
    assert len(units) == len(COMMANDS)
    done = subprocess.run(
        ["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    # Control: the tool does look.
    units[0].write_text(units[0].read_text().replace("Restart=on-failure", "Restart=perhaps"))
    done = subprocess.run(
        ["systemd-analyze", "verify", units[0]], capture_output=True, text=True, check=False
    )
    assert "perhaps" in done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_a_unit_runs_what_the_container_runs(name: str, services: Mapping[str, Any]) -> None:
    unit = settings_of(SYSTEMD / f"filejobs-{name}.service")
    (command,) = unit["ExecStart"]
    # Without containers' networks it listens on loopback.
    there = [re.sub(r"=(0\.0\.0\.0|code-server)$", "=127.0.0.1", word)
             for word in services[name]["command"]]  # fmt: skip
    assert command == f"/opt/filejobs/bin/{' '.join(there)}"
    assert unit["TimeoutStopSec"] == [services[name]["stop_grace_period"]]
    collectors = "/etc/filejobs/collector.env" in unit["EnvironmentFile"]
    assert collectors is (name == "code")


def test_ecs_takes_the_task_definition() -> None:
    task = json.loads((ECS / "task-code.json").read_text())
    shape = Session().get_service_model("ecs").operation_model("RegisterTaskDefinition").input_shape
    assert shape is not None
    report = ParamValidator().validate(task, shape)
    assert not report.has_errors(), report.generate_report()
    (container,) = task["containerDefinitions"]
    assert not {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} & {
        each["name"] for each in container["environment"] + container["secrets"]
    }
    # Control: the validator does look.
    assert ParamValidator().validate({**task, "cpu": 1024}, shape).has_errors()


def test_dagster_takes_the_launcher_s_config() -> None:
    document = yaml.safe_load((ECS / "dagster.yaml").read_text())
    config = document["run_launcher"]["config"]
    schema = EcsRunLauncher.config_type()  # type: ignore[no-untyped-call]
    done = process_config(resolve_to_config_type(schema), config)
    assert done.success, done.errors
    assert dg.__version__ == "1.13.27"
