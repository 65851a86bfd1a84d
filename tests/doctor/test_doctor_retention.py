"""What doctor finds about the rules of table_retention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from filejobs_dagster.doctor.retention import check_retention
from filejobs_dagster.jobs.table_retention.settings import TableRetentionSettings
from filejobs_dagster.postgres.connect import Database

if TYPE_CHECKING:
    from filejobs_dagster.doctor.finding import Finding


def findings(url: str, *rules: dict[str, Any]) -> list[Finding]:
    settings = TableRetentionSettings.model_validate(
        {"by_hand": True, "rules": [
            {"time": "at", "delete_after": "1d", "name": f"rule {number}", **rule}
            for number, rule in enumerate(rules)
        ]}
    )  # fmt: skip
    database = Database(url)
    with database.connect("test") as connection:
        return list(check_retention(settings, database, connection))


def test_a_rule_that_would_read_a_large_table_fails_with_the_index_to_create(
    database_url: str, connection: psycopg.Connection[Any]
) -> None:
    connection.execute(
        b"CREATE TABLE log (id int PRIMARY KEY, at timestamptz);"
        b"INSERT INTO log SELECT n, now() FROM generate_series(1, 10001) AS n; ANALYZE log"
    )
    missing, due = findings(database_url, {"table": "log"})
    assert (missing.verdict, due.verdict) == ("failed", "ok")
    assert missing.advice == 'CREATE INDEX CONCURRENTLY ON "public"."log" ("at", "id")'
    connection.execute(missing.advice.encode())
    (due,) = findings(database_url, {"table": "log"})
    assert (due.verdict, due.found) == ("ok", "0 rows of public.log are due")


def test_a_published_table_without_replica_identity_is_named_with_what_postgresql_advises(
    database_url: str, connection: psycopg.Connection[Any]
) -> None:
    connection.execute(
        b"CREATE TABLE log (id int NOT NULL UNIQUE, at timestamptz NOT NULL);"
        b"CREATE INDEX ON log (at, id);"
        b"INSERT INTO log VALUES (1, now() - interval '9 days');"
        b"CREATE PUBLICATION everything FOR TABLE log"
    )
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="replica identity"):
        connection.execute("DELETE FROM log")  # CONTROL: what a live run would meet

    said = [it for it in findings(database_url, {"table": "log"}) if it.verdict != "ok"]

    assert len(said) == 1
    assert "public.log is published by everything and has no replica identity" in str(said[0])
    assert "REPLICA IDENTITY" in str(said[0])
    connection.execute("ALTER TABLE log REPLICA IDENTITY FULL")
    assert [it.verdict for it in findings(database_url, {"table": "log"})] == ["ok"]


def test_a_refused_rule_fails_a_cascade_warns_and_the_others_are_looked_at(
    database_url: str, connection: psycopg.Connection[Any]
) -> None:
    connection.execute(
        b"CREATE TABLE log (id int PRIMARY KEY, at timestamptz);"
        b"CREATE TABLE line (log int REFERENCES log ON DELETE CASCADE);"
        b"INSERT INTO log VALUES (1, now() - interval '9 days')"
    )
    refused, cascade, due = findings(database_url, {"table": "job_run"}, {"table": "log"})
    assert refused.verdict == "failed"
    assert "public.job_run, a table of this project's" in refused.found
    assert (cascade.verdict, "public.line" in cascade.found) == ("warning", True)
    assert due.found == "1 rows of public.log are due"
