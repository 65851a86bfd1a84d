"""What deploy/ has for places without compose, looked at by the tools of those places."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import boto3
import dagster as dg
import pytest
import yaml
from botocore.session import Session
from botocore.validate import ParamValidator
from dagster._config import process_config, resolve_to_config_type
from dagster._core.code_pointer import ModuleCodePointer
from dagster._core.instance.config import dagster_instance_config_schema
from dagster._core.launcher import LaunchRunContext
from dagster._core.origin import JobPythonOrigin, RepositoryPythonOrigin
from dagster_aws.ecs import EcsRunLauncher
from moto import mock_aws

from tests.instances import dagster_instance

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


@pytest.fixture(scope="module")
def tasks() -> dict[str, dict[str, Any]]:
    return {name: json.loads((ECS / f"task-{name}.json").read_text()) for name in ("code", "run")}


@pytest.mark.parametrize("name", ["code", "run"])
def test_ecs_takes_the_task_definition(name: str, tasks: dict[str, dict[str, Any]]) -> None:
    task = tasks[name]
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


def test_a_run_s_task_is_that_of_the_code_server_but_serves_nothing(
    tasks: dict[str, dict[str, Any]],
) -> None:
    code, run = (json.loads(json.dumps(tasks[name])) for name in ("code", "run"))
    (served,), (works,) = code["containerDefinitions"], run["containerDefinitions"]
    for name in ("command", "portMappings", "healthCheck"):
        del served[name]
    for task, container in ((code, served), (run, works)):
        del task["family"], container["name"]
        del container["logConfiguration"]["options"]["awslogs-stream-prefix"]
    assert run == code


@pytest.mark.thorough
def test_dagster_launches_a_run_as_that_task(
    tasks: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    config = yaml.safe_load((ECS / "dagster.yaml").read_text())["run_launcher"]["config"]
    schema = EcsRunLauncher.config_type()  # type: ignore[no-untyped-call]
    done = process_config(resolve_to_config_type(schema), config)
    assert done.success, done.errors
    assert done.value is not None
    assert dg.__version__ == "1.13.27"
    run = dg.DagsterRun(job_name="x", job_code_origin=JobPythonOrigin("x", ORIGIN))
    with mock_aws(), dagster_instance() as instance:
        ecs, ec2 = boto3.client("ecs"), boto3.client("ec2")
        for task in tasks.values():
            # Not needed on Fargate, but by the stand-in.
            containers = [{**each, "memory": 3072} for each in task["containerDefinitions"]]
            ecs.register_task_definition(**{**task, "containerDefinitions": containers})
        ecs.create_cluster(clusterName="here")
        subnet = ec2.describe_subnets()["Subnets"][0]["SubnetId"]
        # What it would ask of the daemon's own task, which is not one here.
        network = {"awsvpcConfiguration": {"subnets": [subnet], "securityGroups": []}}
        here = {"cluster": "here", "launchType": "FARGATE", "networkConfiguration": network}
        for name in ("get_current_ecs_task_metadata", "get_current_ecs_task"):
            monkeypatch.setattr(f"dagster_aws.ecs.launcher.{name}", MagicMock())
        monkeypatch.setattr(
            "dagster_aws.ecs.launcher.get_task_kwargs_from_current_task", lambda *_: here
        )
        launcher = EcsRunLauncher(**done.value)
        launcher.register_instance(instance)
        instance.add_run(run)
        launcher.launch_run(LaunchRunContext(run, None))
        (arn,) = ecs.list_tasks(cluster="here")["taskArns"]
        (launched,) = ecs.describe_tasks(cluster="here", tasks=[arn])["tasks"]
    assert "/filejobs-run:" in launched["taskDefinitionArn"]
    (override,) = launched["overrides"]["containerOverrides"]
    assert override["name"] == "run"
    assert override["command"][:3] == ["dagster", "api", "execute_run"]


ORIGIN = RepositoryPythonOrigin(
    executable_path="python",
    code_pointer=ModuleCodePointer("filejobs_dagster.definitions", "defs", None),
    entry_point=["dagster"],
)


CHART = os.environ.get("FILEJOBS_PROMISED_CHART")
"""The folder helm/dagster of a checkout of Dagster, or its release unpacked, where there is one."""

NAMES = {
    "": "dagsterDaemon dagsterWebserver dagster-user-deployments postgresql global runLauncher "
    "generatePostgresqlPasswordSecret extraManifests computeLogManager retention telemetry "
    "rabbitmq pipelineRun",
    "global": "dagsterHome postgresqlSecretName",
    "dagsterWebserver": "replicaCount image service podSecurityContext securityContext resources "
    "volumes volumeMounts readinessProbe livenessProbe",
    "dagsterDaemon": "enabled image podSecurityContext securityContext resources volumes env "
    "volumeMounts livenessProbe runCoordinator runMonitoring runRetries sensors schedules",
    "dagsterDaemon.runMonitoring": "enabled startTimeoutSeconds cancelTimeoutSeconds "
    "maxRuntimeSeconds pollIntervalSeconds maxResumeRunAttempts",
    "dagsterDaemon.runRetries": "enabled maxRetries retryOnAssetOrOpFailure",
    "dagsterDaemon.runCoordinator": "enabled type config",
    "dagster-user-deployments": "enabled deployments",
    "dagster-user-deployments.deployments.0": "name image dagsterApiGrpcArgs port env envSecrets "
    "includeConfigInLaunchedRuns volumes volumeMounts podSecurityContext securityContext resources "
    "livenessProbe",
    "postgresql": "enabled postgresqlHost postgresqlUsername postgresqlDatabase",
    "runLauncher": "type config",
    "runLauncher.config": "k8sRunLauncher",
    "runLauncher.config.k8sRunLauncher": "imagePullPolicy securityContext runK8sConfig",
    "runLauncher.config.k8sRunLauncher.runK8sConfig": "podSpecConfig jobSpecConfig",
}
"""What the chart reads of the parts that our values set. Helm passes over a name that it does not
know in some of them, without a word."""


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
    retries, there = values["dagsterDaemon"]["runRetries"], instance["run_retries"]
    assert retries["maxRetries"] == there["max_retries"]
    assert retries["retryOnAssetOrOpFailure"] is there["retry_on_asset_or_op_failure"] is False
    for kind in ("schedule", "sensor"):
        kept = values["retention"][kind]["purgeAfterDays"]
        assert kept == instance["retention"][kind]["purge_after_days"] | {"started": -1}
    (code,) = values["dagster-user-deployments"]["deployments"]
    command = services["code"]["command"]
    assert [word for word in command if "-name=" in word] == code["dagsterApiGrpcArgs"]
    assert f"--port={code['port']}" in command
    assert {"name": "FILEJOBS_ALLOW_LIVE", "value": "0"} in code["env"]
    for other in ("dagsterWebserver", "dagsterDaemon"):
        assert "envSecrets" not in values[other], "it needs no secret of the jobs"
    for part in (code, values["dagsterWebserver"], values["dagsterDaemon"]):
        assert part["resources"]["limits"]["memory"]
        assert part["podSecurityContext"]["runAsNonRoot"] is True
        assert part["securityContext"]["readOnlyRootFilesystem"] is True
        written = {each["mountPath"] for each in part["volumeMounts"] if not each.get("readOnly")}
        assert written == {"/tmp", values["global"]["dagsterHome"]}
    assert values["global"]["dagsterHome"] == services["code"]["environment"]["DAGSTER_HOME"]
    web = values["dagsterWebserver"]
    for probe in ("readinessProbe", "livenessProbe"):
        assert web[probe]["httpGet"]["port"] == web["service"]["port"] > 1024
    for name, part in (("code", code), ("daemon", values["dagsterDaemon"])):
        asked = part["livenessProbe"]["exec"]["command"]
        check = services[name]["healthcheck"]["test"][1:]
        assert asked == [word for word in check if "host" not in word]
    (migrate,) = values["extraManifests"]
    (container,) = migrate["spec"]["template"]["spec"]["containers"]
    assert container["command"] == services["migrate"]["command"]
    assert container["image"] == "{repository}:{tag}".format(**code["image"])
    assert "pre-upgrade" in migrate["metadata"]["annotations"]["helm.sh/hook"]


def test_the_values_use_no_name_that_the_chart_does_not_read(values: dict[str, Any]) -> None:
    for path, names in NAMES.items():
        part: Any = values
        for step in filter(None, path.split(".")):
            part = part[int(step)] if step.isdigit() else part[step]
        assert set(part) <= set(names.split()), path


@pytest.fixture(scope="module")
def rendered(
    values: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str], Any]:
    """What Helm makes of chart and values: the objects, by kind and name."""
    if CHART is None:
        pytest.skip("Dagster's chart is not here")
    import helm_python  # noqa: PLC0415 (only `make chart` installs it)

    # What Kubernetes says of its own parts is not looked up in the network, but asked below.
    chart = tmp_path_factory.mktemp("chart") / "dagster"
    shutil.copytree(CHART, chart)
    for schema in chart.rglob("values.schema.json"):
        text = re.sub(r'"\$ref": "https://[^"]*"', '"title": "of Kubernetes"', schema.read_text())
        schema.write_text(text)
    with helm_python.Chart.load(chart) as loaded:
        loaded.validate_schema(values)
        # Control: the schema does look.
        with pytest.raises(helm_python.HelmError):
            loaded.validate_schema({"dagsterDaemon": {"runMonitorings": {}}})
        made = loaded.render(values, name="filejobs", namespace="jobs", is_install=True)
    texts = [text for name, text in made.items() if not name.endswith(".txt")]
    found = [each for text in texts for each in yaml.safe_load_all(text) if each]
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def instance_of(rendered: dict[tuple[str, str], Any]) -> dict[str, Any]:
    text = rendered["ConfigMap", "filejobs-dagster-instance"]["data"]["dagster.yaml"]
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded


@pytest.mark.thorough
def test_kubernetes_takes_what_the_chart_makes_of_the_values(
    rendered: dict[tuple[str, str], Any],
) -> None:
    import kubernetes_validate  # noqa: PLC0415

    for each in rendered.values():
        kubernetes_validate.validate(each, "1.31", strict=True)
    deployments = [each for (kind, _), each in rendered.items() if kind == "Deployment"]
    assert len(deployments) == len(COMMANDS)
    pods = [each["spec"]["template"]["spec"] for each in deployments]
    pods.append(rendered["Job", "filejobs-migrate"]["spec"]["template"]["spec"])
    for pod in pods:
        assert pod["securityContext"]["runAsNonRoot"] is True
        for container in pod["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["image"] == "acme.example.com/filejobs-dagster-k8s:0.1.0"
            assert container["resources"]["limits"]["memory"]
    told = {
        name.rsplit("-", 1)[-1]: set(found)
        for (_, name), each in rendered.items()
        if (found := re.findall(r"filejobs-(?:collector|owner)", json.dumps(each)))
    }
    assert told == {"filejobs": {"filejobs-collector"}, "migrate": {"filejobs-owner"}}
    # Control: the validator does look.
    pods[0]["containers"][0]["resource"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployments[0], "1.31", strict=True)


@pytest.mark.thorough
def test_dagster_reads_the_rendered_instance_as_it_reads_ours(
    rendered: dict[tuple[str, str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = yaml.safe_load(
        rendered["ConfigMap", "filejobs-dagster-instance"]["data"]["dagster.yaml"]
    )
    ours = yaml.safe_load((CHECKOUT / "dagster.yaml").read_text())
    for part in ("run_coordinator", "run_retries", "sensors", "schedules", "telemetry"):
        assert made[part] == ours[part], part
    differ = {name for name, value in ours["run_monitoring"].items()
              if made["run_monitoring"][name] != value}  # fmt: skip
    assert differ == {"start_timeout_seconds"}
    assert made["run_monitoring"]["max_resume_run_attempts"] == 0
    for name in ("PG_PASSWORD", "K8S_PIPELINE_RUN_IMAGE"):
        monkeypatch.setenv(f"DAGSTER_{name}", "x")
    done = process_config(dagster_instance_config_schema(), made)
    assert done.success, done.errors
    # Control: the schema does look.
    made["run_monitorings"] = {}
    assert not process_config(dagster_instance_config_schema(), made).success


@pytest.mark.thorough
def test_a_run_is_a_job_with_the_memory_and_the_fetters_of_its_values(
    rendered: dict[tuple[str, str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    import dagster_k8s  # noqa: PLC0415
    import kubernetes  # noqa: PLC0415
    import kubernetes_validate  # noqa: PLC0415
    from dagster_k8s.job import construct_dagster_k8s_job  # noqa: PLC0415

    monkeypatch.setattr(kubernetes.config, "load_incluster_config", lambda: None)
    made = yaml.safe_load(
        rendered["ConfigMap", "filejobs-dagster-instance"]["data"]["dagster.yaml"]
    )
    schema = resolve_to_config_type(dagster_k8s.K8sRunLauncher.config_type())
    done = process_config(schema, made["run_launcher"]["config"])
    assert done.success, done.errors
    launcher = dagster_k8s.K8sRunLauncher.from_config_value(None, done.value)
    (code,) = (each for (kind, name), each in rendered.items()
               if kind == "Deployment" and name.endswith("-filejobs"))  # fmt: skip
    (server,) = code["spec"]["template"]["spec"]["containers"]
    environ = {each["name"]: each.get("value") for each in server["env"]}
    # As Dagster puts a run of this code server together; only the cluster is not asked.
    origin = ORIGIN._replace(
        container_image=environ["DAGSTER_CURRENT_IMAGE"],
        container_context=json.loads(str(environ["DAGSTER_CLI_API_GRPC_CONTAINER_CONTEXT"])),
    )
    run = dg.DagsterRun(job_name="x", job_code_origin=JobPythonOrigin("x", origin))
    context = launcher.get_container_context_for_run(run)
    job = kubernetes.client.ApiClient().sanitize_for_serialization(
        construct_dagster_k8s_job(
            job_config=context.get_k8s_job_config(origin.container_image, launcher),
            args=["dagster", "api", "execute_run", "x"],
            job_name="dagster-run-x",
            user_defined_k8s_config=context.run_k8s_config,
        )
    )
    kubernetes_validate.validate(job, "1.31", strict=True)
    assert job["spec"]["backoffLimit"] == 0
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["terminationGracePeriodSeconds"] == 120
    for name in ("resources", "securityContext", "image"):
        assert container[name] == server[name], name
    assert {"secretRef": {"name": "filejobs-collector"}} in container["envFrom"]
    assert {"name": "FILEJOBS_ALLOW_LIVE", "value": "0"} in container["env"]
    assert {each["mountPath"] for each in container["volumeMounts"]} == {
        "/etc/filejobs", "/tmp", "/var/lib/dagster",
    }  # fmt: skip
