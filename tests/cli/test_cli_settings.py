from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from filejobs_dagster.cli.main import app
from filejobs_dagster.registry import JOB_NAMES

if TYPE_CHECKING:
    from tests.cli.conftest import Desk


def test_a_right_file_is_called_right(desk: Desk) -> None:
    said = desk.call("settings", "check")
    assert said.exit_code == 0
    assert "The settings of desk are right." in said.stdout
    assert "upload_reservations (live, by hand)" in said.stdout


def test_every_mistake_is_named_with_what_would_be_right(desk: Desk) -> None:
    desk.document["buckets"]["uploads"]["owns"] = ["files"]
    desk.document["installation"] = "Not This"
    desk.write()
    said = desk.call("settings", "check")
    assert said.exit_code == 1
    assert said.stdout == ""
    assert said.stderr.count("found: ") == said.stderr.count("right: ") == 2
    assert "buckets.uploads.owns[0] (line" in said.stderr


def test_a_file_that_is_not_there_is_named(desk: Desk) -> None:
    desk.path.unlink()
    said = desk.call("settings", "check")
    assert said.exit_code == 1
    assert str(desk.path) in said.stderr
    assert "there is no such file" in said.stderr


def test_a_literal_secret_in_the_file_is_not_repeated(desk: Desk) -> None:
    desk.document["database"]["url"] = "postgresql://me:pass-in-the-file@db/files"
    desk.write()
    for command in (("settings", "check"), ("status", "--check"), ("doctor",), ("runs",)):
        said = desk.call(*command)
        assert said.exit_code != 0
        assert "pass-in-the-file" not in said.output


def test_live_runs_forbidden_by_the_environment_are_said(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FILEJOBS_ALLOW_LIVE", "0")
    assert "every run is dry" in desk.call("settings", "check").stdout


def test_the_schema_is_json_and_knows_every_job(desk: Desk) -> None:
    said = desk.call("settings", "schema")
    assert said.exit_code == 0
    assert list(json.loads(said.stdout)["properties"]["jobs"]["properties"]) == list(JOB_NAMES)


@pytest.mark.parametrize(
    ("source", "taught"),
    [
        ("{name: docs, sql: select key, thumb from doc, min_rows: 1}", "put the whole text in"),
        ("{name: docs, sql: select a from b where c in ('x', 'y')}", "in quotes, such as sql: "),
    ],
)
def test_sql_with_a_comma_and_without_quotes_is_recognised(
    desk: Desk, source: str, taught: str
) -> None:
    desk.path.write_text(
        desk.path.read_text().replace("    owns:", f"    sources:\n    - {source}\n    owns:")
    )
    said = desk.call("settings", "check")
    assert said.exit_code == 1
    assert taught in said.stderr


def test_a_file_named_by_config_that_is_not_there_is_said_to_be_named_so() -> None:
    said = CliRunner().invoke(app, ["--config", "/nowhere/at-all.yaml", "settings", "check"])
    assert said.exit_code == 1
    assert "/nowhere/at-all.yaml" in said.stderr
    assert "--config" in said.stderr
    assert "is not set" not in said.stderr
