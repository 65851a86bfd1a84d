"""What deploy/ has for places without compose, looked at by the tools of those places."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import jsonschema  # type: ignore[import-untyped]
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


CHART = os.environ.get("FILEJOBS_PROMISED_CHART")
"""The folder helm/dagster of a checkout of Dagster, where there is one."""


@pytest.fixture(scope="module")
def values() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(
        (CHECKOUT / "deploy" / "helm" / "values.yaml").read_text()
    )
    return loaded


def test_the_values_say_what_the_containers_and_the_instance_say(
    values: dict[str, Any], services: Mapping[str, Any]
) -> None:
    instance = yaml.safe_load((CHECKOUT / "dagster.yaml").read_text())
    coordinator = values["dagsterDaemon"]["runCoordinator"]["config"]["customRunCoordinator"]
    assert coordinator == instance["run_coordinator"]
    monitoring = values["dagsterDaemon"]["runMonitoring"]
    for here, there in (
        ("cancelTimeoutSeconds", "cancel_timeout_seconds"),
        ("maxRuntimeSeconds", "max_runtime_seconds"),
        ("pollIntervalSeconds", "poll_interval_seconds"),
    ):
        assert monitoring[here] == instance["run_monitoring"][there]
    for kind in ("schedule", "sensor"):
        kept = values["retention"][kind]["purgeAfterDays"]
        assert kept == instance["retention"][kind]["purge_after_days"] | {"started": -1}
    (code,) = values["dagster-user-deployments"]["deployments"]
    command = services["code"]["command"]
    assert [word for word in command if "-name=" in word] == code["dagsterApiGrpcArgs"]
    assert f"--port={code['port']}" in command
    assert {"name": "FILEJOBS_ALLOW_LIVE", "value": "0"} in code["env"]
    for other in ("dagsterWebserver", "dagsterDaemon"):
        assert not {"env", "envSecrets"} & set(values[other]), "it needs no secret of the jobs"
    for part in (code, values["dagsterWebserver"], values["dagsterDaemon"]):
        assert part["resources"]["limits"]["memory"]
        assert part["podSecurityContext"]["runAsNonRoot"] is True


@pytest.mark.thorough
@pytest.mark.skipif(CHART is None, reason="Dagster's chart is not here")
def test_the_chart_takes_the_values(values: dict[str, Any]) -> None:
    chart = Path(str(CHART))
    schema = json.loads((chart / "values.schema.json").read_text())
    # What Kubernetes says of its own parts is not looked up in the network.
    schema = json.loads(
        re.sub(r'"\$ref": "https://[^"]*"', '"title": "of Kubernetes"', json.dumps(schema))
    )
    whole = _merged(yaml.safe_load((chart / "values.yaml").read_text()), values)
    jsonschema.validate(whole, schema)
    # Control: the schema does look.
    whole["dagsterDaemon"]["runMonitorings"] = {}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(whole, schema)


def _merged(below: Any, above: Any) -> Any:
    """As Helm puts values over those of the chart."""
    if not (isinstance(below, dict) and isinstance(above, dict)):
        return above
    return below | {name: _merged(below.get(name), value) for name, value in above.items()}
