"""docs/table_retention.md: its five examples work, and it says everything that the job says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dagster as dg
import psycopg
import pytest
import yaml

from filejobs_dagster.jobs.table_retention import detail as record
from filejobs_dagster.jobs.table_retention import due, partitions, work
from filejobs_dagster.jobs.table_retention.settings import TableRetentionSettings
from filejobs_dagster.orchestration.build import build_definitions
from filejobs_dagster.orchestration.config import config_of
from filejobs_dagster.registry import BY_NAME
from tests.docs.pages import EXAMPLES, explained, page
from tests.installation import Installation, make_installation
from tests.instances import dagster_instance

if TYPE_CHECKING:
    from pathlib import Path

    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.embedded.s3 import EmbeddedS3

TableRetentionConfig: Any = config_of(BY_NAME["table_retention"], None)

JOB = "table_retention"
PAGE = page("table_retention.md")
RUN_CONFIGS = sorted(EXAMPLES.glob("table_retention_*.yaml"))
ROWS = """
INSERT INTO app_session (account, expires_at)
SELECT n, now() - n * interval '1 day' + interval '1 hour' FROM generate_series(0, 9) AS n;
INSERT INTO notification (status, sent_at)
SELECT status, (now() - n * interval '20 days') AT TIME ZONE 'UTC'
  FROM generate_series(1, 3) AS n, unnest(ARRAY['sent', 'failed']) AS status;
INSERT INTO notification_delivery (notification_id, channel) SELECT id, 'mail' FROM notification;
CREATE TABLE request_log_january PARTITION OF request_log
    FOR VALUES FROM ('2024-01-01') TO ('2024-02-01');
INSERT INTO request_log (at, path, status)
SELECT at, '/', 200 FROM unnest(ARRAY[timestamptz '2024-01-15', now() - interval '15 days', now()])
    AS at;
INSERT INTO telemetry (seen_at, ip_address, event)
SELECT now() - n * interval '20 days', '192.0.2.1', 'click' FROM generate_series(1, 5) AS n;
INSERT INTO admin_log (day, actor, action, legal_hold)
SELECT current_date - 800, 'a', 'b', hold FROM unnest(ARRAY[false, true, NULL]) AS hold;
INSERT INTO admin_log (day, actor, action, legal_hold) VALUES (current_date - 700, 'a', 'b', false);
"""


@pytest.fixture
def installation(
    tmp_path: Path, database_url: str, bucket: str, s3_client: S3Client, s3_server: EmbeddedS3,
    monkeypatch: pytest.MonkeyPatch,
) -> Installation:  # fmt: skip
    installation = make_installation(tmp_path, database_url, bucket, s3_client, s3_server)
    installation.adopt()
    document = yaml.safe_load((EXAMPLES / "filejobs.retention.yaml").read_text(encoding="utf-8"))
    shown = yaml.safe_load(
        next(it.text for it in PAGE.blocks if "name: expired sessions" in it.text)
    )
    rules = document["jobs"]["table_retention"]["rules"]
    assert shown["jobs"]["table_retention"]["rules"] == rules[:2]
    installation.document["jobs"]["table_retention"] = document["jobs"]["table_retention"]
    for name, value in installation.environment.items():
        monkeypatch.setenv(name, value)
    with psycopg.connect(database_url) as connection:
        connection.execute((EXAMPLES / "table_retention_tables.sql").read_bytes())
        connection.execute(ROWS.encode())
    return installation


def test_the_five_examples_do_what_the_page_says(installation: Installation) -> None:
    job = build_definitions(installation.loaded()).resolve_job_def("table_retention")
    with dagster_instance() as instance:
        assert job.execute_in_process(instance=instance).success
        live = job.execute_in_process(instance=instance, tags={"filejobs/mode": "live"})
        assert live.success
    dry, done = (row["detail"] for row in installation.progress())
    assert dry["classes"] == {"would delete": 14, "would scrub": 3}
    assert done["classes"] == {
        "deleted": 13, "scrubbed": 3, "partitions dropped": 1, "children deleted": 2
    }  # fmt: skip
    assert done["swept"] is True
    left = {
        "app_session": "SELECT account FROM app_session ORDER BY 1",
        "notification": "SELECT status FROM notification ORDER BY 1",
        "request_log": "SELECT count(*) FROM request_log",
        "telemetry": "SELECT ip_address IS NULL FROM telemetry ORDER BY seen_at",
        "admin_log": "SELECT legal_hold FROM admin_log ORDER BY day, 1",
    }
    found = {
        table: [row[0] for row in installation.execute(asked)] for table, asked in left.items()
    }
    assert found == {
        "app_session": [0, 1],
        "notification": ["failed"] * 3 + ["sent"],
        "request_log": [1],
        "telemetry": [True, True, True, False],
        "admin_log": [True, None, False],
    }
    # Everything that a record holds is explained.
    for detail in (dry, done):
        assert set(detail) <= explained(JOB)
        assert {name for row in detail["rules"] for name in row} <= explained(JOB)


def test_every_class_and_every_number_of_the_code_stands_in_the_page() -> None:
    for word in (record.DELETED, record.SCRUBBED, record.DROPPED, record.CHILDREN, record.REFUSED,
                 record.NOT_WON, record.WOULD_DELETE, record.WOULD_SCRUB):  # fmt: skip
        assert f"`{word}`" in record.FIELDS["classes"]
    written_out = {
        "under 10,000 rows": due.SMALL_ROWS == 10_000,
        "under 8 MiB": due.SMALL_BYTES == 8 * 1024 * 1024,
        "from about 100,000 of them": due.MANY_OF_ONE_TIME == 100_000,
        "after 10,000 of them in a row": work.MOST_REFUSED_IN_A_ROW == 10_000,
        "waited for one second": partitions.PATIENCE == "1s",
    }
    assert {words for words in written_out if words not in PAGE.words} == set()
    assert {words for words, holds in written_out.items() if not holds} == set()


def test_every_example_of_a_run_config_is_one(installation: Installation) -> None:
    job = build_definitions(installation.loaded()).resolve_job_def("table_retention")
    settings = installation.settings().jobs["table_retention"]
    assert isinstance(settings, TableRetentionSettings)
    assert len(RUN_CONFIGS) == 3
    for path in RUN_CONFIGS:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert dg.validate_run_config(job, config)
        asked = TableRetentionConfig(**config["ops"]["table_retention"]["config"])
        assert asked.mistakes() == []
        assert set(asked.rules) <= {rule.name for rule in settings.rules}
        assert asked.dry_run is (path.name == "table_retention_dry.yaml")
        assert f"-c examples/{path.name}" in path.read_text(encoding="utf-8")
