from __future__ import annotations

import json
import os
import re
import shutil
import socket
import threading
from datetime import date, datetime, timezone
from importlib import metadata
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import yaml
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from typer.testing import CliRunner, Result

from filejobs_dagster.cli.main import app
from filejobs_dagster.doctor import instance
from filejobs_dagster.doctor.database import _pooler
from filejobs_dagster.doctor.examination import _not_here, examine
from filejobs_dagster.doctor.instance import (
    check_idle,
    check_instance,
    check_minutes,
    check_software,
    library_version_for,
)
from filejobs_dagster.doctor.rights import own_rights, statements
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.settings import Settings, load_settings, read_settings
from filejobs_dagster.settings.cron import busiest_minute
from tests.docs.pages import CHECKOUT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from filejobs_dagster.doctor.finding import Finding
    from filejobs_dagster.embedded.s3 import EmbeddedS3


class Patient:
    """An installation with a real database and a real bucket, and what the doctor says of it."""

    def __init__(self, path: Path, bucket: str, endpoint_url: str) -> None:
        self.path = path
        self.document: dict[str, Any] = {
            "installation": "patient",
            "database": {"url": {"env": "FILEJOBS_DATABASE_URL"}},
            "buckets": {
                "uploads": {
                    "bucket": bucket,
                    "endpoint_url": endpoint_url,
                    "region": "us-east-1",
                    "access_key_id": {"env": "FILEJOBS_S3_ACCESS_KEY_ID"},
                    "secret_access_key": {"env": "FILEJOBS_S3_SECRET_ACCESS_KEY"},
                    "addressing": "path",
                    "owns": ["files/"],
                    "min_age": "48h",
                    "max_attempts": 1,
                }
            },
            "jobs": {"upload_reservations": {"by_hand": True, "stale_after": "2h"}},
        }

    def write(self) -> None:
        self.path.write_text(yaml.safe_dump(self.document, sort_keys=False))

    def findings(self) -> dict[str, list[Finding]]:
        self.write()
        found: dict[str, list[Finding]] = {}
        for finding in examine(read_settings(self.path), os.environ):
            found.setdefault(finding.check, []).append(finding)
        return found

    def settings(self) -> Settings:
        self.write()
        return load_settings(self.path)

    def one(self, check: str) -> Finding:
        (finding,) = self.findings()[check]
        return finding

    def call(self, *arguments: str) -> Result:
        self.write()
        return CliRunner().invoke(app, ["--config", str(self.path), "doctor", *arguments])


@pytest.fixture
def patient(
    tmp_path: Path,
    database_url: str,
    bucket: str,
    s3_server: EmbeddedS3,
    monkeypatch: pytest.MonkeyPatch,
) -> Patient:
    monkeypatch.setenv("FILEJOBS_DATABASE_URL", database_url)
    monkeypatch.setenv("FILEJOBS_S3_ACCESS_KEY_ID", "key-of-the-patient")
    monkeypatch.setenv("FILEJOBS_S3_SECRET_ACCESS_KEY", "secret-of-the-patient")
    return Patient(tmp_path / "filejobs.yaml", bucket, s3_server.endpoint_url)


@pytest.fixture
def role(connection: psycopg.Connection, database_url: str) -> Iterator[str]:
    """The address of the test's database for a role that owns nothing."""
    name = f"collector_{os.getpid()}_{threading.get_native_id()}"
    identifier = sql.Identifier(name)
    connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(identifier))
    yield make_conninfo(database_url, user=name)
    connection.execute(sql.SQL("DROP OWNED BY {}").format(identifier))
    connection.execute(sql.SQL("DROP ROLE {}").format(identifier))


def test_a_healthy_installation_fails_nothing(patient: Patient) -> None:
    said = patient.call()
    assert said.exit_code == 0, said.output
    assert "\nfailed " not in f"\n{said.stdout}"
    checks = patient.findings()
    for check in ("python", "settings", "jobs", "database", "migrations", "privileges", "primary"):
        assert [finding.verdict for finding in checks[check]] == ["ok"]
    for check in ("pooler", "bucket uploads", "door clocks", "door sources", "door tables"):
        assert [finding.verdict for finding in checks[check]] == ["ok"]
    # The job is dry, so that nobody has adopted the bucket stops nobody yet.
    assert [finding.verdict for finding in checks["door marker"]] == ["warning"]


def test_json_has_every_finding_and_the_verdict(patient: Patient) -> None:
    said = patient.call("--format", "json")
    assert said.exit_code == 0
    document = json.loads(said.stdout)
    assert document["verdict"] == "ok"
    assert all(
        list(each) == ["check", "verdict", "found", "advice", "see"]
        for each in document["findings"]
    )
    assert {each["check"] for each in document["findings"]} == set(patient.findings())


def test_a_fresh_database_names_the_migration(
    patient: Patient, empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FILEJOBS_DATABASE_URL", empty_database_url)
    said = patient.call()
    assert said.exit_code == 1
    assert "0001_file.sql" in said.stdout
    assert "-> run `filejobs migrate`" in said.stdout
    assert patient.one("privileges").verdict == "skipped"
    assert patient.one("door tables").verdict == "warning"


def test_a_changed_migration_is_named(patient: Patient, connection: psycopg.Connection) -> None:
    connection.execute("UPDATE filejobs_migration SET checksum = 'x' WHERE number = 2")
    finding = patient.one("migrations")
    assert finding.verdict == "failed"
    assert "0002_ledger.sql was changed" in finding.found


def test_every_mistake_in_the_settings_is_a_finding_and_the_rest_is_skipped(
    patient: Patient,
) -> None:
    patient.document["jobs"]["upload_reservations"] |= {"limt": 1, "grace": 5}
    found = patient.findings()
    assert [finding.verdict for finding in found["settings"]] == ["failed", "failed"]
    assert {found[name][0].verdict for name in ("database", "buckets", "door")} == {"skipped"}
    said = patient.call()
    assert said.exit_code == 1
    assert "did you mean limit?" in said.stdout


@pytest.mark.parametrize(
    ("grant", "check", "told"),
    [
        ("EXECUTE ON FUNCTION audit_append_many(text, text[])", "audit writers",
         "has EXECUTE on audit_append_many"),
        ("INSERT ON audit_event", "audit writers", "has INSERT on audit_event"),
        ("CREATE ON SCHEMA public", "schema rights", "may create in the schema public"),
    ],
)  # fmt: skip
def test_every_other_role_that_could_write_into_any_chain_is_named(
    patient: Patient, connection: psycopg.Connection, role: str, grant: str, check: str, told: str
) -> None:
    checks = ("audit writers", "schema rights")
    assert [patient.one(name).verdict for name in checks] == ["ok", "ok"]
    grantee = str(conninfo_to_dict(role)["user"])
    connection.execute(f"GRANT {grant} TO {grantee}".encode())
    finding = patient.one(check)
    assert finding.verdict == "warning"
    assert f"{grantee} {told}" in finding.found
    connection.execute(f"GRANT {grant} TO PUBLIC".encode())
    assert "PUBLIC" in patient.one(check).found


def test_the_role_of_the_jobs_may_append_itself_or_by_its_group(
    patient: Patient, connection: psycopg.Connection, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = str(conninfo_to_dict(role)["user"])
    group = f"group_{name}"
    connection.execute(f"CREATE ROLE {group}; GRANT {group} TO {name}".encode())
    connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {name}".encode())
    for each in (name, group):
        connection.execute(f"GRANT INSERT ON audit_event TO {each}".encode())
    monkeypatch.setenv("FILEJOBS_DATABASE_URL", role)
    assert patient.one("audit writers").verdict == "ok"
    connection.execute(f"DROP OWNED BY {group}; DROP ROLE {group}".encode())


def test_a_role_that_only_reads_is_found(patient: Patient, connection: psycopg.Connection) -> None:
    name = connection.info.dbname
    connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    finding = patient.one("primary")
    assert finding.verdict == "failed"
    assert "default_transaction_read_only" in finding.found


def test_a_database_that_is_down_skips_what_needs_it_and_shows_no_secret(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FILEJOBS_DATABASE_URL", "postgresql://me:pass-of-patient@127.0.0.1:9/files")
    said = patient.call()
    assert said.exit_code == 1
    assert "Could not connect to PostgreSQL at 127.0.0.1:9" in said.stdout
    assert "pass-of-patient" not in said.output
    found = patient.findings()
    assert found["migrations"][0].verdict == "skipped"
    assert found["bucket uploads"][0].verdict == "ok"
    assert found["door"][0].verdict == "skipped"


class TestBuckets:
    def test_a_bucket_that_is_not_there_is_a_failure_that_names_it(self, patient: Patient) -> None:
        patient.document["buckets"]["uploads"]["bucket"] = "nobody-made-this"
        said = patient.call()
        assert said.exit_code == 1
        assert "nobody-made-this" in said.stdout
        assert "secret-of-the-patient" not in said.output

    def test_a_server_that_does_not_answer_is_a_failure(self, patient: Patient) -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port = unused.getsockname()[1]
        patient.document["buckets"]["uploads"]["endpoint_url"] = f"http://127.0.0.1:{port}"
        assert patient.one("bucket uploads").verdict == "failed"

    def test_a_versioned_bucket_needs_a_rule_that_ends_what_lies_behind_markers(
        self, patient: Patient, s3_server: EmbeddedS3, bucket: str
    ) -> None:
        client = s3_server.client()
        client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        finding = patient.one("bucket uploads versioning")
        assert finding.verdict == "warning"
        assert "frees no byte" in finding.found
        assert "every byte of what was deleted or written over, below 'files/'" in finding.found
        assert patient.call().exit_code == 0
        # What it says to add is enough.
        rules = json.loads(finding.advice.partition(": ")[2])
        client.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration=rules)
        finding = patient.one("bucket uploads versioning")
        assert finding.verdict == "ok"
        assert "end noncurrent versions after 30 days" in finding.found
        # And no longer so, when what goes must be kept for longer.
        patient.document["buckets"]["uploads"]["quarantine"] = {"keep": "60d"}
        finding = patient.one("bucket uploads versioning")
        assert finding.verdict == "warning"
        assert "after 30 days, and they are kept for 60" in finding.found


class TestSources:
    def test_a_source_that_fails_matters_as_much_as_the_job_that_it_stops(
        self, patient: Patient
    ) -> None:
        patient.document["buckets"]["uploads"]["sources"] = [
            {"name": "avatars", "sql": "select avatar_key from account"}
        ]
        finding = patient.one("door sources")
        assert finding.verdict == "warning"
        assert "avatars" in finding.found
        patient.document["jobs"]["upload_reservations"]["mode"] = "live"
        assert patient.one("door sources").verdict == "failed"

    def test_a_source_that_returns_nothing_is_refused_unless_that_is_declared(
        self, patient: Patient
    ) -> None:
        source = {"name": "nothing", "sql": "select storage_key from file where false"}
        patient.document["buckets"]["uploads"]["sources"] = [source]
        assert patient.one("door sources").verdict == "warning"
        patient.document["buckets"]["uploads"]["sources"] = [{**source, "min_rows": 0}]
        assert patient.one("door sources").verdict == "ok"


class TestJobs:
    def test_a_job_without_threshold_is_a_warning(self, patient: Patient) -> None:
        patient.document["jobs"]["upload_cleanup"] = {"by_hand": True}
        [found] = patient.findings()["jobs"]
        assert found.verdict == "warning"
        assert "without stale_after: upload_cleanup" in found.found

    def test_live_jobs_that_may_not_delete_are_said(
        self, patient: Patient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        patient.document["jobs"]["upload_reservations"]["mode"] = "live"
        monkeypatch.setenv("FILEJOBS_ALLOW_LIVE", "0")
        assert "allow_live is off" in patient.findings()["jobs"][-1].found


A_BUCKET = {"bucket": "acme", "owns": ["files/"], "min_age": "48h"}
A_SOURCE = {"name": "a", "sql": "select key from a"}
REPLICA = {"url": {"env": "FILEJOBS_DATABASE_URL"}}
IDLE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "buckets.other": ({"buckets": {"other": A_BUCKET}}, {}),
    "buckets.uploads.shape": ({}, {"shape": ["files/.*"]}),
    "buckets.uploads.rewrites": (
        {},
        {"rewrites": [{"name": "a", "match": "files/t/(?P<id>.+)", "owner": "files/{id}"}]},
    ),
    "buckets.uploads.sources[0].read_from": ({}, {"sources": [A_SOURCE | {"read_from": REPLICA}]}),
    "buckets.uploads.sources[1]": ({}, {"sources": [A_SOURCE, A_SOURCE | {"name": "b"}]}),
    "scratch_dir": ({"scratch_dir": "/tmp"}, {}),
    "audit.archive": ({"audit": {"archive": {"folder": "/archive"}}}, {}),
    "alerts.repeat_after": ({"alerts": {"repeat_after": "24h"}}, {}),
    "backfill_from": ({"backfill_from": "2026-03-02"}, {}),
}


@pytest.mark.parametrize("path", IDLE)
def test_a_line_that_has_no_effect_as_things_stand_is_a_warning(
    patient: Patient, path: str
) -> None:
    patient.document["jobs"]["upload_reservations"]["bucket"] = "uploads"
    day = date(2026, 3, 1)
    assert list(check_idle(patient.settings(), day)) == []
    for section, lines in IDLE[path][0].items():
        known = patient.document.get(section)
        patient.document[section] = lines if known is None else {**known, **lines}
    patient.document["buckets"]["uploads"] |= IDLE[path][1]
    [found] = check_idle(patient.settings(), day)
    assert found.verdict == "warning"
    assert found.found.startswith(f"{path} does nothing: ")


NOON = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)


def test_more_schedules_on_one_minute_than_runs_at_once_are_a_warning(patient: Patient) -> None:
    patient.document["jobs"] = {
        "upload_reservations": {"schedule": "*/15 * * * *"},
        # By the clock of New York in March, the same minute.
        "multipart_uploads": {"schedule": "30 10 * * *", "time_zone": "America/New_York"},
        "upload_cleanup": {"schedule": "30 15 * * *"},
        "deleted_files": {"schedule": "30 15 * * SUN", "restore_window": "30d"},
        "run_history": {"schedule": "30 15 * * *", "keep": "30d"},
    }
    [found] = check_minutes(patient.settings(), NOON)
    assert found.found.startswith("5 schedules begin at Sun 15:30 UTC (upload_reservations, mult")
    patient.document["jobs"]["run_history"]["schedule"] = "31 15 * * *"
    assert list(check_minutes(patient.settings(), NOON)) == []


@pytest.mark.parametrize(
    "file", ["filejobs.yaml", "examples/filejobs.production.yaml", "deploy/settings/trial.yaml"]
)
def test_no_two_schedules_that_we_suggest_begin_on_one_minute(file: str) -> None:
    text = re.sub(r"^  # ?", "  ", (CHECKOUT / file).read_text(), flags=re.MULTILINE)
    found = re.findall(r'^    schedule: "([^"]+)"', text, re.MULTILINE)
    assert len(found) > 1
    busiest = busiest_minute({f"{n}": (cron, "UTC") for n, cron in enumerate(found)}, NOON)
    assert busiest is not None
    assert len(busiest[1]) == 1, found


def test_the_doctor_sends_nobody_to_the_doctor(
    patient: Patient, connection: psycopg.Connection, role: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages of runs do, control; the same ones, met by the doctor, end without it."""
    monkeypatch.setenv("FILEJOBS_DATABASE_URL", role)
    name = str(conninfo_to_dict(role)["user"])
    rights = [one for one in own_rights(patient.settings()) if one.name != "bucket_doubt"]
    for statement in statements(rights, name):
        connection.execute(statement)
    missing = f'GRANT SELECT, INSERT, UPDATE, DELETE ON "public"."bucket_doubt" TO "{name}";'
    met_by_a_run = "Not listed: AccessDenied. See what `filejobs doctor` says of the bucket."
    assert _not_here(met_by_a_run) == "Not listed: AccessDenied."
    said = patient.call()
    assert said.exit_code == 1
    assert "permission denied for table bucket_doubt" in said.stdout
    assert missing in said.stdout
    assert "`filejobs doctor`" not in said.stdout


class TestDagster:
    def found(self, environ: dict[str, str]) -> Finding:
        (finding,) = check_instance(environ)
        return finding

    def test_without_a_home_it_says_what_is_lost(self) -> None:
        finding = self.found({})
        assert finding.verdict == "warning"
        assert "DAGSTER_HOME is not set" in finding.found

    def test_a_relative_home_and_an_empty_one_fail(self, tmp_path: Path) -> None:
        assert self.found({"DAGSTER_HOME": "somewhere"}).verdict == "failed"
        finding = self.found({"DAGSTER_HOME": str(tmp_path)})
        assert finding.verdict == "failed"
        assert "dagster.yaml" in finding.found

    def test_variables_that_the_file_names_must_be_set_and_lead_to_a_database_that_takes_tables(
        self, tmp_path: Path, database_url: str, role: str
    ) -> None:
        shutil.copy(CHECKOUT / "dagster.yaml", tmp_path)
        home = {"DAGSTER_HOME": str(tmp_path)}
        finding = self.found(home)
        assert finding.verdict == "failed"
        assert "FILEJOBS_DAGSTER_URL" in finding.found

        def at(url: str) -> Finding:
            return self.found({**home, "FILEJOBS_DAGSTER_URL": url})

        assert at(database_url).verdict == "ok"
        away = at(make_conninfo(database_url, port="1", password="hunter2"))
        assert away.verdict == "failed"
        assert "CREATE DATABASE dagster" in away.advice
        assert "hunter2" not in away.found
        lacks = at(role)
        assert lacks.verdict == "failed"
        name = conninfo_to_dict(role)["user"]
        assert lacks.advice.endswith(f'GRANT CREATE ON SCHEMA "public" TO "{name}";')

    def test_storage_in_files_is_a_warning(self, tmp_path: Path) -> None:
        (tmp_path / "dagster.yaml").write_text("telemetry: {enabled: false}")
        assert self.found({"DAGSTER_HOME": str(tmp_path)}).verdict == "warning"

    def test_a_file_that_is_no_yaml_fails(self, tmp_path: Path) -> None:
        (tmp_path / "dagster.yaml").write_text("a: [")
        assert self.found({"DAGSTER_HOME": str(tmp_path)}).verdict == "failed"


class TestSoftware:
    @pytest.mark.parametrize(
        ("dagster", "library"),
        [("1.13.27", "0.29.27"), ("1.12.0", "0.28.0"), ("1.13.0rc1", "0.29.0rc1"), ("2.0.0", None)],
    )
    def test_libraries_belong_to_a_version_of_dagster(
        self, dagster: str, library: str | None
    ) -> None:
        assert library_version_for(dagster) == library

    @pytest.mark.parametrize(
        ("package", "version", "said"),
        [
            ("sqlalchemy", "2.1.3", "sqlalchemy is 2.1.3 where"),
            ("dagster-aws", "0.28.1", "dagster-aws"),
            ("rich", None, "rich is not installed"),
        ],
    )
    def test_a_package_that_does_not_fit_is_named(
        self, package: str, version: str | None, said: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        installed = instance.installed_version
        required = ["sqlalchemy<2.1,>=2.0", "rich>=13.9", "moto>=5; extra == 'embedded'"]
        monkeypatch.setattr(metadata, "requires", lambda _: required)
        monkeypatch.setattr(
            instance,
            "installed_version",
            lambda name: version if name == package else installed(name),
        )
        finding = list(check_software())[-1]
        assert finding.verdict == "failed"
        assert said in finding.found
        assert "constraints.txt" in finding.advice

    def test_an_old_python_is_refused(self) -> None:
        assert instance._python((3, 9, 18)).verdict == "failed"
        assert instance._python((3, 10, 0)).verdict == "ok"


def test_it_works_where_nothing_can_be_written(
    patient: Patient, connection: psycopg.Connection, s3_server: EmbeddedS3, bucket: str
) -> None:
    connection.execute(
        f"ALTER DATABASE {connection.info.dbname} SET default_transaction_read_only = on"
    )
    client = s3_server.client()
    client.put_object(Bucket=bucket, Key="files/one", Body=b"1")
    found = [finding for findings in patient.findings().values() for finding in findings]
    assert [finding.check for finding in found if finding.verdict == "failed"] == ["primary"]
    listed = client.list_objects_v2(Bucket=bucket)["Contents"]
    assert [entry["Key"] for entry in listed] == ["files/one"]


def test_another_installation_on_the_same_schema_is_a_warning(
    patient: Patient, connection: psycopg.Connection
) -> None:
    assert patient.one("installations").verdict == "ok"
    connection.execute(
        "INSERT INTO job_progress (run_id, installation, job, mode, trigger, holder)"
        " VALUES ('r', 'stranger', 'upload_reservations', 'live', 'cli', 'somebody')"
    )

    finding = patient.one("installations")

    assert finding.verdict == "warning"
    assert "stranger" in finding.found


def test_a_server_process_that_was_not_announced_is_a_pooler(database_url: str) -> None:
    with psycopg.connect(database_url) as connection, connection.cursor() as cursor:
        database = Database(database_url)
        direct = _pooler(database, cursor, connection.info.backend_pid, 4)
        pooled = _pooler(database, cursor, connection.info.backend_pid + 1, 4)
    assert (direct.verdict, pooled.verdict) == ("ok", "warning")
    assert "PgBouncer" in pooled.found
    assert "gives at least 3 connections at once" in pooled.found
    assert "3 x 4 live runs = 12 server connections" in pooled.advice
