"""What the project's own tables refuse is proven: in every job, and whatever was switched off."""

from __future__ import annotations

import logging
import uuid
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.door.door import Door
from filejobs_dagster.door.guard import Refusal
from filejobs_dagster.door.guards import GUARDS, Tables
from filejobs_dagster.ledger.outcome import Outcome
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.postgres.inventory import changes
from filejobs_dagster.postgres.migrate import migrate, shipped
from filejobs_dagster.registry import BY_NAME, JOBS
from tests.installation import Installation, make_installation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.door.guard import Guard
    from filejobs_dagster.embedded.postgres import EmbeddedPostgres
    from filejobs_dagster.embedded.s3 import EmbeddedS3
    from filejobs_dagster.postgres.connect import Connection

LOG = logging.getLogger("door")
LIVE = [job.name for job in JOBS if not job.read_only]

REFUSES_NOTHING = (
    "CREATE OR REPLACE FUNCTION refuse_key_in_deletion() RETURNS trigger"
    " LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'"
)

TAMPERED = {
    "ALTER TABLE file DISABLE TRIGGER ALL": (
        "the trigger file_refuses_changed_key_in_deletion of file is off (ALTER TABLE public.file "
        "ENABLE ALWAYS TRIGGER file_refuses_changed_key_in_deletion); the trigger "
        "file_refuses_key_in_deletion of file is off (ALTER TABLE public.file "
        "ENABLE ALWAYS TRIGGER file_refuses_key_in_deletion)."
    ),
    "ALTER TABLE file DISABLE TRIGGER ALL; ALTER TABLE file ENABLE TRIGGER ALL": (
        "the trigger file_refuses_key_in_deletion of file is ENABLE and no longer ENABLE ALWAYS "
        "(ALTER TABLE public.file ENABLE ALWAYS TRIGGER file_refuses_key_in_deletion)"
    ),
    "ALTER TABLE attachment DISABLE TRIGGER ALL": (
        "the constraint attachment_upload_id_fkey of attachment is off (ALTER TABLE attachment "
        'ENABLE TRIGGER "RI_ConstraintTrigger_c_'
    ),
    "DROP RULE job_run_never_updated ON job_run; DROP RULE job_run_never_deleted ON job_run": (
        "the rule job_run_never_deleted of job_run is gone (made by 0002_ledger.sql); the rule "
        "job_run_never_updated of job_run is gone (made by 0002_ledger.sql)."
    ),
    "CREATE OR REPLACE RULE job_run_never_deleted AS ON DELETE TO job_run DO ALSO NOTHING": (
        "the rule job_run_never_deleted of job_run is not as it was made (does nothing, "
        "instead)"
    ),
    "ALTER TABLE job_run DISABLE RULE job_run_never_updated": (
        "the rule job_run_never_updated of job_run is off "
        "(ALTER TABLE public.job_run ENABLE RULE job_run_never_updated)"
    ),
    "ALTER TABLE audit_event RENAME TO kept; CREATE VIEW audit_event AS SELECT * FROM kept": (
        "the table audit_event is no table any more (made by 0003_audit.sql)."
    ),
    "ALTER TABLE audit_event RENAME TO kept; CREATE TABLE audit_event AS SELECT * FROM kept": (
        "the table audit_event is a bare copy: none of its constraints, triggers and rules is "
        "there (made by 0003_audit.sql)."
    ),
    "DROP TABLE audit_event": "the table audit_event is gone (made by 0003_audit.sql).",
    "ALTER TABLE job_progress SET UNLOGGED": (
        "the table job_progress is unlogged: a crash empties it (ALTER TABLE public.job_progress "
        "SET LOGGED)"
    ),
    "ALTER TABLE file DROP CONSTRAINT file_state_known": (
        "the constraint file_state_known of file is gone (made by 0001_file.sql)"
    ),
    "ALTER TABLE file DROP CONSTRAINT file_state_known,"
    " ADD CONSTRAINT file_state_known CHECK (true)": (
        "the constraint file_state_known of file is not as it was made (columns)"
    ),
    "ALTER TABLE file DROP CONSTRAINT file_state_known, ADD CONSTRAINT file_state_known"
    " CHECK (state IN ('pending', 'ready', 'deleted')) NOT VALID": (
        "the constraint file_state_known of file was never checked against the rows that are "
        "there (ALTER TABLE public.file VALIDATE CONSTRAINT file_state_known)"
    ),
    REFUSES_NOTHING: (
        "the function refuse_key_in_deletion() is not as it was made ("
    ),
    "ALTER FUNCTION refuse_key_in_deletion() SET search_path = elsewhere": (
        "the function refuse_key_in_deletion() is not as it was made (finds own tables)"
    ),
    'ALTER TABLE orphan_candidate ALTER bucket TYPE text COLLATE "default"': (
        "the column bucket of orphan_candidate is not as it was made (collation)"
    ),
    "DROP INDEX alert_condition_open": (
        "the unique index alert_condition_open of alert_condition is gone"
    ),
}  # fmt: skip

HARMLESS = """
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE TRIGGER operators_own AFTER INSERT ON file FOR EACH ROW EXECUTE FUNCTION note();
ALTER TABLE file ADD COLUMN tenant text NOT NULL DEFAULT '';
ALTER TABLE file ADD CONSTRAINT operators_own CHECK (tenant <> 'x') NOT VALID;
ALTER TABLE job_run ALTER acted SET DEFAULT NULL;
CREATE UNIQUE INDEX operators_own ON file (tenant, id);
CREATE RULE operators_own AS ON INSERT TO file DO ALSO NOTHING;
CREATE TABLE of_the_operator (file uuid REFERENCES file);
ALTER FUNCTION complete_upload(uuid, boolean, bigint) SECURITY DEFINER;
"""


EACH_JOB = [
    "ALTER TABLE file DISABLE TRIGGER ALL",
    "ALTER TABLE file DISABLE TRIGGER ALL; ALTER TABLE file ENABLE TRIGGER ALL",
    "DROP RULE job_run_never_updated ON job_run; DROP RULE job_run_never_deleted ON job_run",
    "ALTER TABLE audit_event RENAME TO kept; CREATE VIEW audit_event AS SELECT * FROM kept",
    "ALTER TABLE audit_event RENAME TO kept; CREATE TABLE audit_event AS SELECT * FROM kept",
    "ALTER TABLE file DROP CONSTRAINT file_state_known",
    REFUSES_NOTHING,
]
"""What is tried in every job; the guard looks at the same in each."""


@dataclass
class World:
    """An adopted bucket, and a connection on which the catalog is tampered with for a moment."""

    installation: Installation
    connection: Connection

    @contextmanager
    def tampered(self, statements: str) -> Iterator[None]:
        """Change the catalog, and take it back: in a transaction that is never committed."""
        with self.connection.transaction(force_rollback=True):
            self.connection.execute(statements.encode())
            yield

    def enter(self, job: str, *, live: bool = True, guards: Sequence[Guard] = (Tables(),)) -> Door:
        """Go through the door as a run of the job does."""
        installation = self.installation
        settings = installation.settings()
        door = Door(BY_NAME[job], settings, installation.client, entry="uploads", guards=guards)
        door.enter(installation.database, self.connection, LOG, live=live)
        return door

    def changes(self) -> str:
        with self.installation.database.transaction(self.connection) as cursor:
            return "; ".join(map(str, changes(cursor, self.installation.database.schema)))


@pytest.fixture(scope="module")
def world(
    postgres_server: EmbeddedPostgres,
    template_database: str,
    s3_server: EmbeddedS3,
    s3_client: S3Client,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[World]:
    name = f"tables_{uuid.uuid4().hex}"
    url = postgres_server.create_database(name, template_database)
    s3_client.create_bucket(Bucket=name.replace("_", "-"))
    installation = make_installation(
        tmp_path_factory.mktemp("tables"), url, name.replace("_", "-"), s3_client, s3_server
    )
    installation.adopt()
    with installation.database.connect("tables") as connection:
        yield World(installation, connection)
    postgres_server.drop_database(name)


@pytest.fixture(autouse=True)
def _one_client(monkeypatch: pytest.MonkeyPatch, s3_client: S3Client) -> None:
    """Making one takes longer than a test."""
    monkeypatch.setattr("filejobs_dagster.door.door.make_client", lambda _bucket: s3_client)


def test_every_job_that_changes_anything_is_protected_and_let_in_when_all_is_there(
    world: World,
) -> None:
    for job in LIVE:
        said = world.enter(job, guards=GUARDS).told(Outcome(acted=0)).detail["door"]
        assert said["tables"].endswith("are as the migrations made them"), job


@pytest.mark.parametrize("statements", EACH_JOB)
def test_no_live_run_of_any_job_is_let_in(world: World, statements: str) -> None:
    with world.tampered(statements):
        for job in LIVE:
            with pytest.raises(Refusal, match="not as the migrations made them") as refused:
                world.enter(job, guards=GUARDS)
            assert TAMPERED[statements] in str(refused.value), job
            dry = world.enter(job, live=False, guards=GUARDS)
            detail = dry.told(Outcome(detail={"would_collect": 3})).detail
            assert detail["would_collect"] is None
            assert "would be refused" in detail["door"]["tables"]
    world.enter(LIVE[0])


@pytest.mark.parametrize("statements", TAMPERED)
def test_what_is_gone_off_or_another_thing_is_named_with_what_mends_it(
    world: World, statements: str
) -> None:
    with world.tampered(statements):
        assert TAMPERED[statements].rstrip(".") in world.changes()
    assert world.changes() == ""


def test_the_named_statement_mends_it(world: World) -> None:
    with world.tampered("ALTER TABLE attachment DISABLE TRIGGER ALL"):
        with world.installation.database.transaction(world.connection) as cursor:
            for change in changes(cursor, "public"):
                cursor.execute(change.mend.encode())
        assert world.changes() == ""


def test_what_was_compared_is_known_again_and_every_change_makes_another_version_of_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert world.changes() == ""
    with monkeypatch.context() as patched:
        patched.setattr("filejobs_dagster.postgres.inventory.in_the_catalog", never_asked)
        assert world.changes() == ""
        for statements in (*TAMPERED, HARMLESS):
            with world.tampered(statements), pytest.raises(AssertionError, match="compared anew"):
                world.changes()
    # Twice in one transaction, which has one number.
    with world.tampered(HARMLESS):
        assert world.changes() == ""
        world.connection.execute("ALTER TABLE file DISABLE TRIGGER file_refuses_key_in_deletion")
        assert "file_refuses_key_in_deletion of file is off" in world.changes()


def never_asked(*_: object) -> list[object]:
    raise AssertionError("It is compared anew.")


def test_what_operators_add_is_theirs(world: World) -> None:
    with world.tampered(HARMLESS):
        assert world.changes() == ""


def test_a_role_without_any_rights_sees_the_same(world: World) -> None:
    role = f"nobody_{uuid.uuid4().hex}"
    with world.tampered(f"CREATE ROLE {role}; SET LOCAL ROLE {role}"):
        assert world.changes() == ""
    off = "ALTER TABLE file DISABLE TRIGGER ALL"
    with world.tampered(f"{off}; CREATE ROLE {role}; SET LOCAL ROLE {role}"):
        assert "file_refuses_key_in_deletion of file is off" in world.changes()


@pytest.mark.parametrize(
    ("statement", "who"),
    [
        ("ALTER ROLE {role} SET session_replication_role = replica", "role {role}"),
        ("ALTER DATABASE {database} SET session_replication_role = 'REPLICA'", "{database}"),
        ("SET session_replication_role = replica", "this connection"),
    ],
)
def test_a_setting_that_keeps_plain_triggers_from_firing_is_found(
    world: World, statement: str, who: str
) -> None:
    info = world.connection.info
    names = {"role": info.user, "database": info.dbname}
    with world.tampered(statement.format(**names)):
        said = world.changes()
    assert "the setting session_replication_role is replica for " in said
    assert who.format(**names) in said


def test_another_database_of_the_server_may_be_a_replica(world: World) -> None:
    with world.tampered("ALTER DATABASE postgres SET session_replication_role = replica"):
        assert world.changes() == ""


def test_a_run_is_stopped_when_it_happens_while_it_works(world: World) -> None:
    door = world.enter("storage_orphans")
    door.prove()
    with (
        world.tampered("ALTER TABLE file DISABLE TRIGGER ALL"),
        pytest.raises(Refusal, match="file_refuses_key_in_deletion of file is off"),
    ):
        door.prove()


def test_a_schema_that_is_not_migrated_yet_is_told_to_be(world: World) -> None:
    newest = shipped()[-1]
    with (
        world.tampered(
            f"DELETE FROM filejobs_migration WHERE number = {newest.number};DROP TABLE http_start"
        ),
        pytest.raises(Refusal) as refused,
    ):
        world.enter("storage_orphans")
    said = f"The database lacks {newest.name}. Run `filejobs migrate`."
    assert str(refused.value) == f"{said} See docs/runbook.md#refused-tables"


def test_schemas_with_odd_names_are_as_they_were_made(
    empty_database_url: str,
) -> None:
    for schema in ("file jobs", 'Q"uoted', "public"):
        migrate(empty_database_url, schema)
        database = Database(empty_database_url, schema)
        with (
            database.connect("tables") as connection,
            database.transaction(connection, read_only=True) as cursor,
        ):
            assert changes(cursor, schema) == []
