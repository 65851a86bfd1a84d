"""`table_retention` as Dagster runs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest

from filejobs_dagster.orchestration.build import build_definitions
from filejobs_dagster.orchestration.config import config_of
from filejobs_dagster.registry import BY_NAME
from tests.installation import Installation, make_installation
from tests.instances import dagster_instance

if TYPE_CHECKING:
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.s3 import EmbeddedS3

TableRetentionConfig: Any = config_of(BY_NAME["table_retention"], None)


@pytest.fixture
def installation(
    tmp_path: Path, database_url: str, bucket: str, s3_client: S3Client, s3_server: EmbeddedS3,
    monkeypatch: pytest.MonkeyPatch,
) -> Installation:  # fmt: skip
    installation = make_installation(tmp_path, database_url, bucket, s3_client, s3_server)
    installation.document["jobs"]["table_retention"] = {
        "by_hand": True,
        "limit": 50,
        "rules": [
            {"name": name, "table": "session", "time": "expires_at", "delete_after": age}
            for name, age in (("old", "9d"), ("very old", "90d"))
        ],
    }
    installation.execute("CREATE TABLE session (id int PRIMARY KEY, expires_at timestamptz)")
    installation.execute("INSERT INTO session VALUES (1, now() - interval '10 days'), (2, now())")
    for name, value in installation.environment.items():
        monkeypatch.setenv(name, value)
    return installation


def test_a_run_is_dry_until_it_is_told_and_shows_its_rules(installation: Installation) -> None:
    job = build_definitions(installation.loaded()).resolve_job_def("table_retention")
    with dagster_instance() as instance:
        dry = job.execute_in_process(instance=instance)
        assert dry.success
        assert installation.value("SELECT count(*) FROM session") == 2
        live = {"ops": {"table_retention": {"config": {"dry_run": False, "rules": ["old"]}}}}
        result = job.execute_in_process(run_config=live, instance=instance)
        assert result.success
    assert installation.execute("SELECT id FROM session") == [(2,)]
    (event,) = [each for each in result.all_events if each.event_type_value == "STEP_OUTPUT"]
    table = event.step_output_data.metadata["rules"]
    assert isinstance(table, dg.TableMetadataValue)
    assert [record.data["rule"] for record in table.records] == ["old"]


def test_limits_out_of_bounds_are_named() -> None:
    assert TableRetentionConfig(limit=0, max_runtime="25h").mistakes() == [
        "limit is 0; it can be 1 to 100,000,000.",
        "max_runtime is 25h; it can be 1s to 1d.",
    ]
