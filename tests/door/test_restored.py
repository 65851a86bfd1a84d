"""A database that was restored from a backup: every job of the registry refuses, whatever it takes.

One world holds something due for each job. It is put back to what it was in three ways: as the
counter says, as the adoption says, and, thoroughly, by pg_dump and pg_restore.
"""

from __future__ import annotations

import os
import subprocess
import threading
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from filejobs_dagster.audit.append import append
from filejobs_dagster.audit.note import generate, private_text
from filejobs_dagster.door.door import WOULD_BE_REFUSED
from filejobs_dagster.door.guards import GUARDS
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.registry import BY_NAME, JOBS
from tests.installation import Installation, make_installation
from tests.instances import dagster_instance
from tests.objects.buckets import BucketForTests
from tests.orchestration.conftest import Code, failure_of
from tests.orchestration.test_foreign_bucket import cancelled, reserved, soft_deleted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.postgres import EmbeddedPostgres
    from filejobs_dagster.embedded.s3 import EmbeddedS3

KEY = "FILEJOBS_AUDIT_KEY"
SIGNER = generate("test/audit")
LIVE = [job.name for job in JOBS if not job.read_only]


@dataclass
class AuditedInstallation(Installation):
    """An installation that can seal."""

    @property
    def environment(self) -> dict[str, str]:
        return super().environment | {
            KEY: private_text(SIGNER),
            "FILEJOBS_APP_DATABASE_URL": self.database_url,
        }


def prepare(installation: Installation) -> None:
    """Something due for every job."""
    reserved(installation)
    soft_deleted(installation)
    cancelled(installation)
    client, bucket = installation.client, installation.bucket
    client.create_multipart_upload(Bucket=bucket, Key="files/idle")
    installation.execute("CREATE TABLE session (id int PRIMARY KEY, expires_at timestamptz)")
    installation.execute("INSERT INTO session VALUES (1, now() - interval '10 days')")
    database = installation.database
    with database.connect("test") as connection, database.transaction(connection) as cursor:
        append(cursor, [{"kind": "test", "n": number} for number in range(5)], chain="a")


def made(
    folder: Path, url: str, bucket: str, client: S3Client, server: EmbeddedS3
) -> AuditedInstallation:
    installation = AuditedInstallation(folder, url, bucket, client, server.endpoint_url)
    installation.document["audit"] = {
        "signing_key": {"env": KEY},
        "public_keys": [{"key": str(SIGNER.verifier)}],
        "pins": {"folder": str(folder / "pins")},
        "retention": "150d",
    }
    installation.document["jobs"] = {
        "upload_reservations": {"by_hand": True},
        "deleted_files": {"by_hand": True, "restore_window": "1d"},
        "upload_cleanup": {"by_hand": True},
        "storage_orphans": {"by_hand": True},
        "multipart_uploads": {"by_hand": True, "idle_for": "48h"},
        "table_retention": {
            "by_hand": True,
            "rules": [
                {"name": "old", "table": "session", "time": "expires_at", "delete_after": "9d"}
            ],
        },
        "audit_seal": {"by_hand": True},
        "audit_trim": {"by_hand": True},
        "audit_verify": {"by_hand": True},
        "run_history": {"by_hand": True, "keep": "30d"},
    }
    return installation


def everything(installation: Installation) -> dict[str, Any]:
    """What a job could take away or add, as it stands."""
    client, bucket = installation.client, installation.bucket
    uploads = client.list_multipart_uploads(Bucket=bucket).get("Uploads", [])
    return {
        "objects": installation.keys(),
        "uploads": {upload["UploadId"] for upload in uploads},
        **{
            table: installation.value(f"SELECT count(*) FROM {table}")
            for table in ("file", "upload", "session", "audit_event", "audit_checkpoint")
        },
        "seals": installation.value("SELECT count(*) FROM audit_seal"),
    }


@dataclass
class World:
    """An adopted bucket, and code that runs on it."""

    installation: AuditedInstallation
    code: Code

    def restore(self, how: str) -> None:
        """Take the database back behind its marker."""
        self.installation.execute(
            "DELETE FROM bucket_adoption"
            if how == "to before the adoption"
            else "UPDATE bucket_adoption SET counter = counter - 1"
        )


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory,
    postgres_server: EmbeddedPostgres,
    template_database: str,
    s3_client: S3Client,
    s3_server: EmbeddedS3,
) -> Iterator[World]:
    """Shared: what is refused changes nothing, and each test puts the adoption back."""
    name = f"test_{uuid.uuid4().hex}"
    url = postgres_server.create_database(name, template_database)
    s3_client.create_bucket(Bucket=name.replace("_", "-"))
    installation = made(
        tmp_path_factory.mktemp("restored"), url, name.replace("_", "-"), s3_client, s3_server
    )
    prepare(installation)
    installation.adopt()
    with dagster_instance() as instance:
        code = Code(installation, instance)
        code.adopted = False
        # Without a seal a dry trim has nothing to say.
        assert code.run("audit_seal", dry_run=False).success
        yield World(installation, code)
    postgres_server.drop_database(name)


@pytest.fixture(
    params=[
        "by one live run",
        pytest.param("to before the adoption", marks=pytest.mark.thorough),
    ]
)
def restored(world: World, request: pytest.FixtureRequest) -> Iterator[World]:
    columns = "endpoint, bucket, installation, environment, counter, adopted_at, adopted_by"
    (row,) = world.installation.execute(f"SELECT {columns} FROM bucket_adoption")
    world.restore(request.param)
    yield world
    world.installation.execute("DELETE FROM bucket_adoption")
    places = ", ".join(["%s"] * len(row))
    world.installation.execute(
        f"INSERT INTO bucket_adoption ({columns}) VALUES ({places})", tuple(row)
    )


@pytest.mark.parametrize("job", LIVE)
def test_no_job_goes_live_on_a_restored_database_and_a_dry_run_says_so(
    restored: World, job: str
) -> None:
    before = everything(restored.installation)

    said = failure_of(restored.code.run(job, dry_run=False))

    assert "filejobs bucket adopt --again" in said
    assert "Nothing was touched." in said
    assert restored.code.run(job).success
    record = restored.installation.progress()[-1]
    assert (record["job"], record["mode"]) == (job, "dry")
    assert WOULD_BE_REFUSED in record["detail"]["door"]["marker"]
    would = {name: value for name, value in record["detail"].items() if name.startswith("would_")}
    assert {name for name, value in would.items() if value is not None} == {"would_be_refused"}
    classes = [name for name in record["detail"].get("classes", {}) if "would " in name]
    assert set(classes) <= {WOULD_BE_REFUSED}
    assert everything(restored.installation) == before


@pytest.mark.parametrize("job", LIVE)
def test_every_job_that_changes_anything_passes_the_guard_of_the_marker(job: str) -> None:
    assert "marker" in {guard.name for guard in GUARDS if guard.protects & BY_NAME[job].touches}


def adopted_world(
    folder: Path, url: str, bucket: str, client: S3Client, server: EmbeddedS3
) -> Installation:
    installation = make_installation(folder, url, bucket, client, server)
    installation.adopt()
    return installation


def test_two_live_runs_that_found_nothing_still_tell_the_database_that_was_restored(
    tmp_path: Path, database_url: str, bucket: str, s3_client: S3Client, s3_server: EmbeddedS3
) -> None:
    """Nine files, and nothing due; then the database is as it was when the bucket was adopted."""
    installation = adopted_world(tmp_path, database_url, bucket, s3_client, s3_server)
    with dagster_instance() as instance:
        code = Code(installation, instance)
        code.adopted = False
        for _ in range(2):
            assert code.run(dry_run=False).success
        assert installation.value("SELECT counter FROM bucket_adoption") == 3
        # In the backup the files are reservations that their clients complete later.
        nine = {f"files/{number}" for number in range(9)}
        for key in nine:
            installation.reserve(key)
        installation.execute("UPDATE bucket_adoption SET counter = 1")
        assert "restored" in failure_of(code.run(dry_run=False))
        assert nine <= installation.keys()

        # CONTROL: with a counter that moves only where something was deleted, all nine go.
        installation.execute("UPDATE bucket_adoption SET counter = 3")
        assert code.run(dry_run=False).success
        assert not nine & installation.keys()


@pytest.mark.parametrize("obeys", [True, False], ids=["If-Match obeyed", "If-Match ignored"])
def test_live_runs_that_count_at_the_same_moment_all_get_in(
    tmp_path: Path, database_url: str, bucket: str, s3_client: S3Client, s3_server: EmbeddedS3,
    *, obeys: bool,
) -> None:  # fmt: skip
    from filejobs_dagster.door.adoption import AdoptionTarget, check  # noqa: PLC0415
    from filejobs_dagster.door.belonging import _count  # noqa: PLC0415

    installation = adopted_world(tmp_path, database_url, bucket, s3_client, s3_server)
    settings = installation.settings()
    client = make_client(BucketForTests(endpoint_url=s3_server.endpoint_url))

    def forget(request: Any, **_event: object) -> None:
        for name in ("If-Match", "If-None-Match"):
            del request.headers[name]

    if not obeys:
        client.meta.events.register("before-sign.s3.PutObject", forget)
    start = threading.Barrier(3)
    failures: list[BaseException] = []

    def run() -> None:
        try:
            with installation.database.connect("run") as connection:
                place = AdoptionTarget.of(
                    settings, settings.buckets["uploads"], client, installation.database, connection
                )
                start.wait()
                _count(place)
        except BaseException as error:  # noqa: BLE001 (the test shows it)
            failures.append(error)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    with installation.database.connect("look") as connection:
        place = AdoptionTarget.of(
            settings, settings.buckets["uploads"], s3_client, installation.database, connection
        )
        found = check(place)
    assert found.marker.counter == found.row.counter >= 4


def tool(server: EmbeddedPostgres, name: str, *arguments: str) -> None:
    """One of PostgreSQL's own programs, from the server's own folder."""
    program = Path(server._software.postgres).with_name(name)
    subprocess.run([program, *arguments], check=True, cwd="/", env={**os.environ, "LC_ALL": "C"})


@pytest.mark.thorough
def test_a_real_restore_is_refused_in_every_job_and_without_the_door_files_go(
    tmp_path: Path,
    database_url: str,
    bucket: str,
    s3_client: S3Client,
    s3_server: EmbeddedS3,
    postgres_server: EmbeddedPostgres,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nine reservations in the backup, nine files in use today."""
    installation = made(tmp_path, database_url, bucket, s3_client, s3_server)
    prepare(installation)
    installation.adopt()
    keys = {f"files/photo-{number}" for number in range(9)}
    for key in keys:
        installation.reserve(key)
    # Where root may not run the server's programs as itself, the folder is the test's own.
    dump = tmp_path / "backup"
    tool(postgres_server, "pg_dump", "--format=custom", f"--file={dump}", database_url)
    installation.execute("UPDATE file SET state = 'ready' WHERE storage_key LIKE 'files/photo-%%'")

    def restore() -> None:
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")
        tool(
            postgres_server,
            "pg_restore",
            "--disable-triggers",
            f"--dbname={database_url}",
            str(dump),
        )

    with dagster_instance() as instance:
        code = Code(installation, instance)
        code.adopted = False
        assert code.run("multipart_uploads", dry_run=False).success
        restore()
        before = everything(installation)
        for job in LIVE:
            assert "filejobs bucket adopt --again" in failure_of(code.run(job, dry_run=False)), job
            assert everything(installation) == before, job
        assert keys <= installation.keys()

        # CONTROL: nobody looks at the marker.
        from filejobs_dagster.door import door  # noqa: PLC0415

        monkeypatch.setattr(door.Door, "enter", _nothing)
        assert code.run(dry_run=False).success
        assert not keys & installation.keys()
        assert code.run("table_retention", dry_run=False).success
        assert installation.value("SELECT count(*) FROM session") == 0


def _nothing(*_arguments: object, **_more: object) -> None:
    """The door of a house that asks for nothing."""
