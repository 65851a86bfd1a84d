"""The files that an operator would write: settings, Dagster's instance, the environment."""

from __future__ import annotations

import os
import shlex
import sys
from datetime import datetime, timedelta, timezone
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from psycopg.conninfo import conninfo_to_dict

from filejobs_dagster.demo.screen import DemoFailed
from filejobs_dagster.embedded.environment import (
    FOREIGN_PREFIXES,
    WHEEL,
    clean_environment,
    installed_package,
)
from filejobs_dagster.embedded.environment import INSTALLATION as PROGRAMS_OF_WHEEL
from filejobs_dagster.embedded.s3 import S3Endpoint

if TYPE_CHECKING:
    from filejobs_dagster.demo.place import DemoPlace
    from filejobs_dagster.demo.servers import Servers

INSTALLATION = "demo"
INSTANCE = "dagster.yaml"
PROGRAMS = f"{PROGRAMS_OF_WHEEL}/bin"
BUCKET = "demo-uploads"
BATCH_SIZE = 100
DAYS_OF_PARTITIONS = 30

SETTINGS = """\
# The demo's installation. A commented file for a real one comes with the project.
installation: {installation}
backfill_from: {backfill_from}

database:
  url: {{env: FILEJOBS_DATABASE_URL}}

buckets:
  uploads:
    bucket: {bucket}
    endpoint_url: {endpoint}
    addressing: path
    region: us-east-1
    access_key_id: {{env: AWS_ACCESS_KEY_ID}}
    secret_access_key: {{env: AWS_SECRET_ACCESS_KEY}}
    owns: ["files/"]
    min_age: 48h
    quarantine: {{keep: 30d}}

# Where copies of the seals go. A folder protects nothing; a real installation has a bucket for it.
audit:
  pins: {{folder: '{pins}'}}

jobs:
  upload_reservations:
    schedule: "*/15 * * * *"
    mode: live
    limit: 10000
    batch_size: {batch_size}    # small, so that the demo shows more than one batch
    max_runtime: 10m
    stale_after: 2h
  storage_orphans:
    schedule: "0 3 * * *"
    mode: live
    stale_after: 26h
"""

WORKSPACE = """\
load_from:
  - python_module:
      module_name: filejobs_dagster.definitions
      location_name: filejobs
      working_directory: {home}
"""

LIVE_CONFIG = """\
ops:
  upload_reservations:
    config:
      dry_run: false
"""

ENVIRONMENT_HEAD = """\
# Source this in a shell to work on the demo's data by hand:  . {path}
# Nothing in it is secret: the database opens to nobody but its owner, through a Unix socket, and
# the S3 server to nobody but this machine.

# What was set for real systems is forgotten in this shell.
for name in $(env | sed -n 's/^\\([A-Z_][A-Z0-9_]*\\)=.*/\\1/p'); do
  case "$name" in {foreign}) unset "$name" ;; esac
done

"""


def write_files(place: DemoPlace, servers: Servers) -> None:
    """Write every file that the demo's processes and its reader use.

    Raises:
        DemoFailed: The instance's settings that come with the project cannot be found.
    """
    first_day = datetime.now(timezone.utc).date() - timedelta(days=DAYS_OF_PARTITIONS)
    place.settings.write_text(
        SETTINGS.format(
            installation=INSTALLATION,
            backfill_from=first_day.isoformat(),
            bucket=BUCKET,
            endpoint=servers.s3_endpoint,
            batch_size=BATCH_SIZE,
            pins=_yaml_quoted(place.home / "pins"),
        )
    )
    (place.dagster_home / "dagster.yaml").write_text(shipped_instance())
    place.workspace.write_text(WORKSPACE.format(home=f"'{_yaml_quoted(place.home)}'"))
    place.live_config.write_text(LIVE_CONFIG)
    place.environment.write_text(_environment_script(place, servers))


def variables(place: DemoPlace, servers: Servers) -> dict[str, str]:
    """The variables by which this project, Dagster, boto3 and libpq find the demo."""
    return {
        "FILEJOBS_CONFIG": str(place.settings),
        "FILEJOBS_DATABASE_URL": servers.database_url,
        "FILEJOBS_DAGSTER_URL": servers.dagster_url,
        "DAGSTER_HOME": str(place.dagster_home),
        "DAGSTER_DISABLE_TELEMETRY": "1",
        **S3Endpoint(servers.s3_endpoint).environment(),
    }


def process_environment(place: DemoPlace, servers: Servers) -> dict[str, str]:
    """The whole environment of a process that works on the demo."""
    environment = {
        **clean_environment(os.environ),
        **variables(place, servers),
        "PYTHONUNBUFFERED": "1",
    }
    # Each of these processes imports Dagster, which takes twice as long without bytecode.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def shipped_instance() -> str:
    """The `dagster.yaml` that comes with the project.

    In a checkout it stands at the top, where an operator looks for it; a wheel carries a copy
    inside the package.

    Raises:
        DemoFailed: Neither is there.
    """
    package = resources.files("filejobs_dagster")
    checkout = Path(str(package)).parent
    if (checkout / "pyproject.toml").is_file() and (checkout / INSTANCE).is_file():
        return (checkout / INSTANCE).read_text(encoding="utf-8")
    if (package / INSTANCE).is_file():
        return (package / INSTANCE).read_text(encoding="utf-8")
    raise DemoFailed(
        f"to find the {INSTANCE} that comes with the project",
        f"there is none in the checkout {checkout} and none in the package {package}",
        "install the project again, or run the demo in a checkout",
    )


def _environment_script(place: DemoPlace, servers: Servers) -> str:
    head = ENVIRONMENT_HEAD.format(
        path=shlex.quote(str(place.environment)),
        foreign="|".join(f"{prefix}*" for prefix in FOREIGN_PREFIXES),
    )
    exports = {**variables(place, servers), **_libpq_variables(servers.database_url)}
    lines = [f"export {name}={shlex.quote(value)}" for name, value in exports.items()]
    ours = shlex.quote(str(Path(sys.executable).parent))
    # Behind the reader's own programs: they may have a psql that knows their terminal better.
    postgres = shlex.quote(str(installed_package(WHEEL) / PROGRAMS))
    lines.append(f'export PATH={ours}:"$PATH":{postgres}')
    return head + "\n".join(lines) + "\n"


def _libpq_variables(url: str) -> dict[str, str]:
    parts = conninfo_to_dict(url)
    named = {"PGHOST": "host", "PGPORT": "port", "PGUSER": "user", "PGDATABASE": "dbname"}
    return {name: str(parts[part]) for name, part in named.items()}


def _yaml_quoted(path: Path) -> str:
    return str(path).replace("'", "''")
