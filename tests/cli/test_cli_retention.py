"""`filejobs retention`: the rules, what is due, and a policy to publish."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Desk

RULES = [
    {"name": "sessions", "table": "session", "time": "expires_at", "delete_after": "1d"},
    {
        "name": "visits_of_people",
        "table": "public.visit",
        "time": "at",
        "delete_after": "90d",
        "scrub_after": "30d",
        "scrub": ["ip"],
        "where": "kind = 'page' or kind = 'api'",
        "except": "held",
    },
]


@pytest.fixture
def rules(desk: Desk) -> Desk:
    desk.connection.execute(
        b"CREATE TABLE session (id int PRIMARY KEY, expires_at timestamptz);"
        b"CREATE INDEX ON session (expires_at);"
        b"INSERT INTO session SELECT n, now() - interval '9 days' FROM generate_series(1, 30) AS n;"
        b"CREATE TABLE visit (id int PRIMARY KEY, at timestamptz, ip text, kind text, held bool);"
        b"INSERT INTO visit SELECT n, now() - n * interval '20 days', 'ip', 'page', false"
        b" FROM generate_series(1, 6) AS n"
    )
    desk.configure("table_retention", rules=RULES)
    return desk


def test_the_rules_are_printed_with_what_is_due_and_nothing_changes(rules: Desk) -> None:
    result = rules.call("retention", "--most", "20")
    assert result.exit_code == 0, result.output
    assert "20 or more" in result.stdout
    assert "2, 3 to scrub" in result.stdout
    assert rules.connection.execute("SELECT count(*) FROM session").fetchone() == (30,)


def test_the_policy_is_markdown_that_reads_as_it_stands(rules: Desk) -> None:
    text = rules.call("retention", "--format", "markdown").stdout
    assert text.startswith("# Retention of desk\n")
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len(table) == 4
    assert "visits\\_of\\_people" in table[3]
    assert "kind = 'page' or kind = 'api'" in table[3]


def test_programs_get_json(rules: Desk) -> None:
    document = json.loads(rules.call("retention", "--format", "json").stdout)
    sessions, visits = document["rules"]
    assert (sessions["due"]["delete"], sessions["due"]["delete_is_floor"]) == (30, False)
    assert (visits["due"]["delete"], visits["due"]["scrub"]) == (2, 3)
    assert visits["carried_out"] is True
    assert visits["delete_after"] == "90d"


def test_a_rule_that_cannot_be_carried_out_is_told_and_the_others_are_shown(rules: Desk) -> None:
    wrong = {"name": "runs", "table": "job_run", "time": "finished_at", "delete_after": "1d"}
    rules.configure("table_retention", rules=[wrong, *RULES])
    result = rules.call("retention")
    assert result.exit_code == 1
    assert "cannot be carried out: job_run is public.job_run" in result.stdout
    assert "sessions" in result.stdout


def test_without_the_job_there_is_nothing_to_print(desk: Desk) -> None:
    desk.configure()
    result = desk.call("retention")
    assert result.exit_code == 1
    assert "does not stand under `jobs:`" in result.stderr
