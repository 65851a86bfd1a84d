"""Runs a real application and keeps what it leaves: database, listing, and what of it is dead.

    python -m tests.applications.making rails
    python -m tests.applications.making django   --with ~/venvs/django
    python -m tests.applications.making mlflow   --with ~/venvs/mlflow
    python -m tests.applications.making directus --with ~/directus
    python -m tests.applications.making helpdesk --with ~/venvs/helpdesk
    python -m tests.applications.making payload  --with ~/payload
    python -m tests.applications.making strapi   --with ~/strapi

Needs Debian's PostgreSQL (a pg_dump of the server's own version), and of

- rails: the packages ruby-rails ruby-pg ruby-aws-sdk-s3 ruby-image-processing ruby-vips libvips42;
- django: a virtual environment with "django<5.2" "wagtail<7" "django-storages[s3]" easy-thumbnails
  sorl-thumbnail "psycopg[binary]";
- mlflow: one with "mlflow<4" psycopg2-binary boto3;
- helpdesk: one with "django<5.3" django-helpdesk==2.6.1 django-filer==3.6.0 django-machina==1.3.1
  "django-storages[s3]" "psycopg[binary]"; for `filejobs scan` alone, which was made without it;
- directus: a folder with `npm install --ignore-scripts directus@11.1.0 pg`;
- payload: one with `npm install --ignore-scripts --legacy-peer-deps payload@3.90.2
  @payloadcms/db-postgres@3.90.2 @payloadcms/storage-s3@3.90.1 sharp@0.33.5`;
- strapi: one with `npm install --ignore-scripts --legacy-peer-deps @strapi/strapi@5.52.3
  @strapi/provider-upload-aws-s3@5.52.3 pg@8 react@18 react-dom@18 react-router-dom@6
  styled-components@6`.

There are no packages of Supabase, Plane, Outline and Mattermost: their folders were written by
hand, after the published schema that the head of `database.sql` names.

The application's own script does what its users do, goes wrong as applications go wrong, and says
which objects are dead by then. All others in the bucket live.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from filejobs_dagster.embedded.s3 import ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY, EmbeddedS3

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent
BUCKETS = {
    "rails": ["rails-app", "rails-archive"],
    "django": ["django-app"],
    "directus": ["directus-app"],
    "mlflow": ["mlflow-app"],
    "helpdesk": ["helpdesk-app"],
    "payload": ["payload-app"],
    "strapi": ["strapi-app"],
}
WITHOUT_ROWS = {
    "django": ["django_migrations", "auth_permission", "auth_group_permissions"]
    + ["wagtailcore_group*permission"],
    "directus": ["directus_migrations", "directus_sessions"],
    "helpdesk": ["django_migrations", "auth_permission", "helpdesk_emailtemplate"]
    + ["forum_permission_forumpermission"],
    "mlflow": [],
    "payload": ["payload_migrations"],
    "rails": [],
    "strapi": ["strapi_[^c]*", "admin_*", "i18n_locale", "up_*"],
}
"""Tables whose rows are many, or passwords, and name no file."""

MADE_ON = "2025-06-02"
"""The day on which all of it happened, whenever it is made: no row is of the future for a test."""


def main() -> None:
    """Make one application's files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("application", choices=sorted(BUCKETS))
    parser.add_argument("--with", dest="where", type=Path, help="where its packages are")
    told = parser.parse_args()
    name: str = told.application
    with tempfile.TemporaryDirectory() as folder, EmbeddedS3.start() as s3:
        work = Path(folder)
        work.chmod(0o755)
        for bucket in BUCKETS[name]:
            s3.client().create_bucket(Bucket=bucket)
        with _postgres(work / "postgres") as port:
            environment = {
                **os.environ,
                **s3.environment(),
                "S3_ENDPOINT": s3.endpoint_url,
                "S3_KEY": ACCESS_KEY_ID,
                "S3_SECRET": SECRET_ACCESS_KEY,
                "S3_REGION": REGION,
                "S3_BUCKET": BUCKETS[name][0],
                "DATABASE_PORT": str(port),
                "DATABASE_URL": f"postgresql://postgres@127.0.0.1:{port}/app",
                "WORK": str(work),
            }
            _use(name, told.where, work, environment)
            sql = _dump(port, WITHOUT_ROWS[name]).replace(s3.endpoint_url, "http://s3.example.com")
        objects = {
            entry["Key"]: entry["Size"]
            for page in s3.client()
            .get_paginator("list_objects_v2")
            .paginate(Bucket=BUCKETS[name][0])
            for entry in page.get("Contents", [])
        }
        _write(name, sql, objects, json.loads((work / "dead.json").read_text()))


def _use(name: str, where: Path | None, work: Path, environment: dict[str, str]) -> None:
    if name == "rails":
        # Untracked variants are a setting of the whole application: two processes.
        for step in ("make", "tracked", "untracked"):
            subprocess.run(["ruby", HERE / "rails.rb", step], check=True, env=environment)
        return
    if where is None:
        raise SystemExit(f"{name} needs --with")
    where = where.resolve()
    if name in ("directus", "payload", "strapi"):
        with_node: dict[str, list[str | Path]] = {
            "directus": [sys.executable, HERE / "directus_use.py"],
            "payload": ["node", HERE / "payload_use.mjs"],
            "strapi": ["node", HERE / "strapi_use.cjs"],
        }
        subprocess.run([*with_node[name], where], check=True, env=environment, cwd=work)
    else:
        copy = shutil.copytree(HERE / "django_app", work / "app")
        script = copy / "use.py" if name == "django" else HERE / f"{name}_use.py"
        subprocess.run([where / "bin/python", script], check=True, env=environment, cwd=work)


@contextmanager
def _postgres(folder: Path) -> Iterator[int]:
    """A server of Debian's, which has a pg_dump, unlike the embedded one."""
    programs = str(max(Path("/usr/lib/postgresql").glob("*/bin")))
    as_postgres = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    data = folder / "data"
    subprocess.run(
        [*as_postgres, f"{programs}/initdb", "-D", str(data), "-A", "trust", "-U", "postgres"]
        + ["-E", "UTF8", "--locale=C.UTF-8", "--no-sync"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c fsync=off -c timezone=UTC"
    control = [*as_postgres, f"{programs}/pg_ctl", "-D", str(data), "-w"]
    subprocess.run(
        [*control, "-l", str(folder / "log"), "-o", f"{options} -k {folder}", "start"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    try:
        subprocess.run(
            ["psql", "-qh", "127.0.0.1", "-p", str(port), "-U", "postgres"]
            + ["-c", "CREATE DATABASE app"],
            check=True,
        )
        yield port
    finally:
        subprocess.run([*control, "-m", "fast", "stop"], check=True, stdout=subprocess.DEVNULL)


def _dump(port: int, without_rows: list[str]) -> str:
    made = subprocess.run(
        ["pg_dump", "-h", "127.0.0.1", "-p", str(port), "-U", "postgres", "--no-owner", "--no-acl"]
        + ["--inserts", "--rows-per-insert=50", "--no-comments", "-n", "public"]
        + [f"--exclude-table-data={pattern}" for pattern in without_rows]
        + ["app"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    # The settings of the session, the schema that is there, and what only psql understands.
    lines = [
        line
        for line in made.splitlines()
        if line
        and not line.startswith(("--", "SET ", "SELECT pg_catalog.set_config", "\\"))
        and line != "CREATE SCHEMA public;"
    ]
    today = time.strftime("%Y-%m-%d", time.gmtime())
    made = re.sub(rf"\b{today}\b", MADE_ON, "\n".join(lines)) + "\n"
    return made.replace(str(HERE), "/app")


def _write(
    name: str, sql: str, objects: dict[str, int], dead: dict[str, dict[str, list[str]]]
) -> None:
    """Database, listing, and what is to be expected."""
    folder = HERE.parent / name
    folder.mkdir(exist_ok=True)
    lost = {key for classes in dead.values() for keys in classes.values() for key in keys}
    # A reservation may have no object.
    dead = {
        by: {why: [key for key in keys if key in objects] for why, keys in classes.items()}
        for by, classes in dead.items()
    }
    expected = {"live": sorted(objects.keys() - lost), **dead}
    # Everything had come to rest long before.
    listing = [{"key": key, "size": size, "age_hours": 240} for key, size in objects.items()]
    (folder / "database.sql").write_text(sql)
    for what, said in (("listing", listing), ("expected", expected)):
        text = json.dumps(said, indent=1, ensure_ascii=False)
        (folder / f"{what}.json").write_text(text + "\n")
    sys.stdout.write(f"{name}: {len(objects)} objects, {len(expected['live'])} of them live\n")


if __name__ == "__main__":
    main()
