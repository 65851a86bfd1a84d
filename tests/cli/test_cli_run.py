"""`filejobs run` and `filejobs open`: one run, its record, and where it is to be seen."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from typer.testing import CliRunner

from filejobs_dagster.cli.main import app
from tests.installation import Installation, make_installation

if TYPE_CHECKING:
    from pathlib import Path

    from mypy_boto3_s3 import S3Client
    from typer.testing import Result

    from filejobs_dagster.embedded.s3 import EmbeddedS3
    from tests.cli.conftest import Desk


@pytest.fixture
def installation(
    tmp_path: Path, database_url: str, bucket: str, s3_client: S3Client, s3_server: EmbeddedS3,
    monkeypatch: pytest.MonkeyPatch,
) -> Installation:  # fmt: skip
    installation = make_installation(tmp_path, database_url, bucket, s3_client, s3_server)
    installation.write()
    for name, value in installation.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    installation.execute(
        "INSERT INTO file (state, storage_key, upload_expires_at)"
        " SELECT 'pending', 'files/' || n, now() - interval '3 days'"
        " FROM generate_series(1, 3) AS n"
    )
    return installation


def call(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_a_run_shows_its_record_and_its_exit_code_says_the_outcome(
    installation: Installation,
) -> None:
    dry = call("run", "upload_reservations")
    assert dry.exit_code == 0, dry.output
    assert "would 3" in " ".join(dry.stdout.split())
    assert dry.stderr == ""

    refused = call("run", "upload_reservations", "--live")
    assert refused.exit_code == 1
    assert "filejobs bucket adopt" in refused.stderr
    assert "Traceback" not in refused.output

    assert call("bucket", "adopt").exit_code == 0
    assert call("hold", "--why", "a customer misses files").exit_code == 0
    held = call("run", "upload_reservations", "--live")
    assert held.exit_code == 1
    assert "was dry, and changed nothing: live was asked, but every job is held" in held.stderr
    assert "a customer misses files" in held.stderr
    assert call("release").exit_code == 0
    live = call("run", "upload_reservations", "--live", "--limit", "2", "--json")
    assert live.exit_code == 0, live.output
    document = json.loads(live.stdout)
    assert (document["mode"], document["acted"], document["outcome"]) == ("live", 2, "ok")
    assert document["trigger"]["kind"] == "cli"
    assert document["stopped_reason"] == "limit"
    # Each has its record at once, though nothing keeps Dagster's runs here.
    recorded = json.loads(call("runs", "--format", "json").stdout)
    assert [run["outcome"] for run in recorded] == ["ok", "ok", "failed", "ok"]
    assert call("open").stdout == f"http://127.0.0.1:3000/runs/{document['run_id']}\n"


def test_a_live_run_and_the_brake_work_with_the_printed_grants_and_a_run_not_with_one_less(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call("bucket", "adopt").exit_code == 0
    role = f"grantee_{os.getpid()}"
    printed = call("grants", "--role", role)
    assert printed.exit_code == 0, printed.output
    url = make_conninfo(installation.database_url, user=role)
    with psycopg.connect(installation.database_url, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {role} LOGIN".encode())
        try:
            owner.execute(printed.stdout.encode())
            monkeypatch.setenv("FILEJOBS_DATABASE_URL", url)
            live = call("run", "upload_reservations", "--live", "--limit", "1")
            assert live.exit_code == 0, live.output
            for brake in (("hold", "--why", "a customer misses files"), ("release",)):
                assert call(*brake).exit_code == 0, "the brake needs no other role"
            owner.execute(f"REVOKE DELETE ON file FROM {role}".encode())
            lacking = call("run", "upload_reservations", "--live")
            assert lacking.exit_code == 1
            assert "permission denied for table file" in lacking.stderr
            assert 'GRANT SELECT, UPDATE, DELETE ON "public"."file"' in printed.stdout
        finally:
            owner.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


def test_what_cannot_run_is_said_before_anything_runs(installation: Installation) -> None:
    absent = call("run", "deleted_files")
    assert absent.exit_code == 1
    assert "deleted_files does not stand under `jobs:`" in absent.stderr
    installation.document["jobs"]["audit_seal"] = {"by_hand": True}
    installation.write()
    for arguments, taught in (
        (("upload_reservation",), "did you mean upload_reservations?"),
        (("audit_seal", "--limit", "3"), "audit_seal has no limit"),
    ):
        said = call("run", *arguments)
        assert said.exit_code == 64
        assert taught in said.stderr
    assert json.loads(call("runs", "--format", "json").stdout) == []


def test_the_address_of_a_run_is_that_of_the_web_ui_which_people_reach(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FILEJOBS_WEB_URL", "https://dagster.example.com/ops/")
    nothing = desk.call("open")
    assert nothing.exit_code == 1
    assert "No run of desk is recorded" in nothing.stderr
    run_id = desk.record()
    assert (
        desk.call("open", run_id[:8]).stdout == f"https://dagster.example.com/ops/runs/{run_id}\n"
    )
    desk.record()
    unclear = desk.call("open", "")
    assert unclear.exit_code == 1
    assert "More than one run" in unclear.stderr
    assert desk.call("open", "%").exit_code == 1
