"""The three jobs of the audit chain as Dagster runs them: config, metadata, catalog, record."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
import yaml

from filejobs_dagster.audit.append import append
from filejobs_dagster.audit.note import generate, private_text
from filejobs_dagster.expectations import expectations
from filejobs_dagster.ledger.standing import Standing, standings
from filejobs_dagster.orchestration.config import config_of
from filejobs_dagster.registry import BY_NAME
from tests.docs.pages import EXAMPLES
from tests.orchestration.conftest import failure_of, metadata_of

if TYPE_CHECKING:
    from filejobs_dagster.orchestration.config import CollectorConfig
    from tests.installation import Installation
    from tests.orchestration.conftest import Code

AuditSealConfig: Any = config_of(BY_NAME["audit_seal"], None)
AuditTrimConfig: Any = config_of(BY_NAME["audit_trim"], None)
AuditVerifyConfig: Any = config_of(BY_NAME["audit_verify"], None)

KEY = "FILEJOBS_AUDIT_KEY"
SIGNER = generate("test/audit")
EXAMPLE_CONFIGS = sorted(EXAMPLES.glob("audit_*.yaml"))


@pytest.fixture(autouse=True)
def configured(installation: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key, a folder for pins, and five events."""
    environment = {**installation.environment, KEY: private_text(SIGNER)}
    monkeypatch.setattr(type(installation), "environment", property(lambda _: environment))
    monkeypatch.setitem(os.environ, KEY, private_text(SIGNER))
    installation.document["audit"] = {
        "signing_key": {"env": KEY},
        "public_keys": [{"key": str(SIGNER.verifier)}],
        "pins": {"folder": str(installation.folder / "pins")},
        "retention": "150d",
        "rolling": 1,
    }
    installation.document["jobs"] = {
        "audit_seal": {"by_hand": True, "mode": "live"},
        "audit_trim": {"by_hand": True, "mode": "live", "limit": 5000, "batch_size": 50},
        "audit_verify": {"by_hand": True, "check": "rolling"},
    }
    _append(installation, 5)


def _append(installation: Installation, count: int) -> None:
    database = installation.database
    with database.connect("test") as connection, database.transaction(connection) as cursor:
        append(cursor, [{"kind": "test", "n": n} for n in range(count)], chain="a")


def _standing(code: Code, job: str) -> Standing:
    code.sensor("job_run_reconciler")
    installation = code.installation
    with (
        installation.database.connect("test") as connection,
        installation.database.transaction(connection, read_only=True) as cursor,
    ):
        found = standings(cursor, "test", expectations(installation.settings()))
    return next(one for one in found if one.job == job)


def test_a_seal_is_dry_unless_it_is_asked_for_and_then_a_materialization(code: Code) -> None:
    result = code.run("audit_seal")
    assert result.success, failure_of(result)
    assert metadata_of(result)["would_seal_events"] == 5
    assert code.installation.value("SELECT count(*) FROM audit_seal") == 0

    result = code.run("audit_seal", dry_run=False)
    assert result.success, failure_of(result)
    shown = metadata_of(result)
    # The run itself is in the second chain: somebody started it.
    assert (shown["mode"], shown["scanned"], shown["acted"]) == ("live", 2, 2)
    assert [row.data["chain"] for row in shown["chains"].records] == ["collectors", "a"]
    assert "NO PROTECTION" in shown["pins"]
    assert result.asset_materializations_for_node("audit_seal")
    assert private_text(SIGNER).split("+", 4)[4] not in str(result.all_events)


@pytest.mark.parametrize("asked", [{}, {"dry_run": True}, {"dry_run": False}])
def test_every_run_of_verify_is_dry_and_counts_as_having_verified(
    code: Code, asked: dict[str, Any]
) -> None:
    code.run("audit_seal", dry_run=False)
    result = code.run("audit_verify", **asked)
    assert result.success, failure_of(result)
    shown = metadata_of(result)
    assert shown["mode"] == "dry"
    assert shown["check"] == "rolling, part 1 of 1"
    assert ("mode_reason" in shown) is (asked == {"dry_run": False})
    assert result.asset_materializations_for_node("audit_verify")
    standing = _standing(code, "audit_verify")
    assert (standing.word, standing.severity) == ("ok", "ok")
    assert standing.reason == "last run looked at 7 and found nothing wrong"


def test_findings_fail_the_run_and_its_page_shows_them(code: Code) -> None:
    with code.installation.database.connect("test") as connection, connection.transaction():
        connection.execute("SET LOCAL session_replication_role = replica")
        connection.execute("UPDATE audit_event SET body = '{}' WHERE seq = 4")
    result = code.run("audit_verify", check="full")
    assert not result.success
    assert failure_of(result).startswith("a: EV_BODY at event 4: ")
    standing = _standing(code, "audit_verify")
    assert standing.word == "failed"
    assert "EV_BODY at event 4" in standing.reason
    [record] = code.installation.records()
    assert record["detail"]["findings"][0]["code"] == "EV_BODY"
    assert (record["scanned"], record["acted"]) == (5, 0)


def test_a_trim_says_what_it_refuses_by_its_code(code: Code) -> None:
    with code.installation.database.connect("test") as connection, connection.transaction():
        connection.execute("SET LOCAL session_replication_role = replica")
        connection.execute("UPDATE audit_event SET body = '{}' WHERE seq = 4")
    for dry_run in (True, False):
        result = code.run("audit_trim", dry_run=dry_run)
        assert not result.success
        assert "a: VERIFY_FAILED: EV_BODY" in failure_of(result)


def test_a_trim_with_nothing_due_succeeds(code: Code) -> None:
    result = code.run("audit_trim", dry_run=False)
    assert result.success, failure_of(result)
    shown = metadata_of(result)
    assert (shown["scanned"], shown["acted"], shown["truncated"]) == (0, 0, False)


def test_they_have_the_operators_limits_and_no_partitions(code: Code) -> None:
    definitions = code.definitions
    for name in ("audit_seal", "audit_trim", "audit_verify"):
        assert definitions.resolve_job_def(name).partitions_def is None
    field = definitions.resolve_job_def("audit_trim").get_node_named("audit_trim").definition
    schema = field.config_schema.config_type.fields  # type: ignore[union-attr]
    assert (schema["limit"].default_value, schema["batch_size"].default_value) == (5000, 50)


@pytest.mark.parametrize(
    ("config", "found"),
    [
        (AuditVerifyConfig(check="sometimes"), "check is 'sometimes'; it can be full"),
        (AuditVerifyConfig(parts=0), "parts is 0"),
        (AuditSealConfig(max_runtime="0s"), "max_runtime is 0s"),
        (AuditTrimConfig(batch_size=0), "batch_size is 0"),
        (AuditTrimConfig(limit=0), "limit is 0"),
    ],
)
def test_a_config_that_cannot_be_meant_is_told(config: CollectorConfig, found: str) -> None:
    [mistake] = config.mistakes()
    assert found in mistake


def test_a_key_that_cannot_be_read_fails_the_run_with_its_code(code: Code) -> None:
    del code.installation.document["audit"]["signing_key"]
    code.installation.document["audit"]["key_file"] = "/nowhere/key"
    result = code.run("audit_seal", dry_run=False)
    assert failure_of(result).startswith("KEY_UNUSABLE: ")


def test_every_example_of_a_run_config_is_one(code: Code) -> None:
    assert len(EXAMPLE_CONFIGS) == 4
    definitions = code.definitions
    for path in EXAMPLE_CONFIGS:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
        [job] = config["ops"]
        assert dg.validate_run_config(definitions.resolve_job_def(job), config), path.name
        assert f"-c examples/{path.name}" in path.read_text(encoding="utf-8")
