"""What the doctor says of keys, pins and rights of the audit chain."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from filejobs_dagster.audit.note import generate, private_text
from filejobs_dagster.doctor.audit import check_audit
from filejobs_dagster.doctor.database import check_database
from filejobs_dagster.doctor.examination import check_bucket, examine
from filejobs_dagster.doctor.rights import lacking, own_rights, statements
from filejobs_dagster.settings import load_settings, read_settings
from tests.installation import make_installation
from tests.jobs.audit.conftest import KEY, SIGNER, Auditor, with_audit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.doctor.finding import Finding
    from filejobs_dagster.embedded.s3 import EmbeddedS3
    from filejobs_dagster.settings import Settings

pytestmark = pytest.mark.thorough


@pytest.fixture
def auditor(
    tmp_path: Path, database_url: str, bucket: str, s3_client: S3Client, s3_server: EmbeddedS3
) -> Auditor:
    pins = f"pins-{uuid.uuid4().hex}"
    s3_client.create_bucket(Bucket=pins, ObjectLockEnabledForBucket=True)
    installation = make_installation(tmp_path, database_url, bucket, s3_client, s3_server)
    with_audit(installation, pins)
    return Auditor(installation, pins)


def settings_of(auditor: Auditor) -> Settings:
    environment = {
        **os.environ,
        **auditor.installation.environment,
        KEY: private_text(SIGNER),
    }
    return load_settings(auditor.installation.write(), environment)


def findings(auditor: Auditor) -> dict[str, Finding]:
    """What the doctor says of the chains, and of the rights on their tables."""
    settings, database = settings_of(auditor), auditor.installation.database
    with database.connect("test") as connection:
        found = [*check_audit(settings), *check_database(database, connection, settings)]
    return {one.check: one for one in found}


def test_a_whole_set_up_is_well(auditor: Auditor) -> None:
    found = findings(auditor)
    assert {check: one.verdict for check, one in found.items() if one.verdict != "ok"} == {}
    assert set(found) >= {
        "privileges",
        "audit key",
        "audit public keys",
        "audit pins",
    }
    assert "origin test/audit; test/audit (" in found["audit key"].found
    assert "COMPLIANCE" in found["audit pins"].found
    said = " ".join(one.found for one in found.values())
    assert private_text(SIGNER) not in said


def _other_key(audit: dict[str, Any]) -> None:
    audit["public_keys"] = [{"key": str(generate("test/audit").verifier)}]


def _no_keys(audit: dict[str, Any]) -> None:
    del audit["signing_key"], audit["public_keys"]


def _key_file(audit: dict[str, Any]) -> None:
    del audit["signing_key"]
    audit["key_file"] = "/nowhere/key"


def _folder(audit: dict[str, Any]) -> None:
    audit["pins"] = {"folder": "/nowhere/pins"}


@pytest.mark.parametrize(
    ("change", "check", "verdict", "words"),
    [
        (_other_key, "audit key", "failed", "none of the public keys without last_seal"),
        (_no_keys, "audit key", "warning", "no key signs here"),
        (_no_keys, "audit public keys", "warning", "signatures are not checked"),
        (_key_file, "audit key", "failed", "cannot be read"),
        (_folder, "audit pins", "warning", "NO PROTECTION"),
    ],
)
def test_what_is_missing_is_told(
    auditor: Auditor, change: Any, check: str, verdict: str, words: str
) -> None:
    change(auditor.audit)
    found = findings(auditor)[check]
    assert (found.verdict, words in found.found) == (verdict, True), found
    assert found.advice


def test_a_place_that_does_not_answer_is_a_failure(auditor: Auditor) -> None:
    auditor.installation.document["buckets"]["pins"]["bucket"] = "nobody-made-this"
    assert findings(auditor)["audit pins"].verdict == "failed"


def test_a_bucket_in_which_nothing_is_collected_may_keep_versions(auditor: Auditor) -> None:
    entry = auditor.settings.buckets["pins"]
    found = check_bucket("pins", entry)
    said = {one.check: one for one in found}["bucket pins versioning"]
    assert (said.verdict, said.found) == ("ok", "nothing is ever collected here")


def test_the_doctor_asks_for_it(auditor: Auditor) -> None:
    environment = {**auditor.installation.environment, KEY: private_text(SIGNER)}
    loaded = read_settings(auditor.installation.write(), environment)
    assert any(one.check == "audit pins" for one in examine(loaded, environment))


def test_where_nothing_is_sealed_that_is_said(auditor: Auditor) -> None:
    auditor.installation.document["jobs"] = {"upload_reservations": {"by_hand": True}}
    auditor.installation.document["jobs"]["upload_reservations"]["bucket"] = "uploads"
    found = findings(auditor)["audit"]
    assert (found.verdict, "no job seals" in found.found) == ("warning", True)


@pytest.fixture
def role(connection: psycopg.Connection, database_url: str) -> Iterator[str]:
    """The address of the database for a role that owns nothing."""
    name = f"auditor_{uuid.uuid4().hex}"
    connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))
    yield make_conninfo(database_url, user=name)
    connection.execute(sql.SQL("DROP OWNED BY {}").format(sql.Identifier(name)))
    connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


def test_the_named_rights_are_enough_for_all_three_jobs_and_each_missing_one_is_named(
    auditor: Auditor, connection: psycopg.Connection, role: str
) -> None:
    auditor.append(5, age=200)
    assert auditor.seal().ok
    auditor.append(2)
    name = str(conninfo_to_dict(role)["user"])
    needed = own_rights(settings_of(auditor))
    for statement in statements([one for one in needed if "audit" not in one.name], name):
        connection.execute(statement)
    auditor.installation.database_url = role
    found = findings(auditor)["privileges"]
    assert found.verdict == "failed"
    with connection.cursor() as cursor:
        missing = lacking(cursor, needed, name)
    assert {one.name for one in missing if one.privilege == "DELETE"} == {"audit_event"}
    for statement in statements(missing, name):
        assert f"{statement.as_string(connection)};" in found.advice
        connection.execute(statement)
    assert findings(auditor)["privileges"].verdict == "ok"
    for outcome in (auditor.seal(), auditor.trim(), auditor.verify()):
        assert outcome.ok, outcome.error
    assert auditor.count() == 2 + 1
