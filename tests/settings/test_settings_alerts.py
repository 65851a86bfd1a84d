"""The section `alerts`: its mistakes, its secrets, and what of it is left in a broken file."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.settings import (
    AlertsSettings,
    alert_secrets,
    known_secrets,
    last_good,
    recalled,
    salvage,
)
from filejobs_dagster.text import sanitize

if TYPE_CHECKING:
    from tests.settings.conftest import Files

ALERTS = """\
alerts:
  to:
    - {name: on-call, url: {env: ON_CALL_URL}, severities: [critical]}
    - {name: team, url: {env: TEAM_URL}}
  repeat_after: 24h
  heartbeat: {url: {env: HEARTBEAT_URL}}
jobs:"""

ENVIRON = {
    "ON_CALL_URL": "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#storage",
    "TEAM_URL": "json://team:correcthorse@hooks.example.com/filejobs/alerts",
    "HEARTBEAT_URL": "https://beats.example.com/0b8f7a1c-5f6d-4a55-9f3e-1b1d2c3e4f50",
}


@pytest.fixture
def with_alerts(files: Files) -> Files:
    files.environ |= ENVIRON
    files.good = files.good.replace("jobs:", ALERTS)
    return files


def test_without_the_section_nobody_is_told(files: Files) -> None:
    alerts = files.read(files.good).require().alerts
    assert alerts == AlertsSettings()
    assert (alerts.to, alerts.heartbeat, alerts.repeat_after) == ([], None, None)


def test_the_section_is_read(with_alerts: Files) -> None:
    alerts = with_alerts.read(with_alerts.good).require().alerts
    assert [each.name for each in alerts.to] == ["on-call", "team"]
    assert alerts.to[0].severities == ["critical"]
    assert alerts.to[1].severities == ["warning", "critical"]
    assert alerts.repeat_after == timedelta(hours=24)
    assert alerts.heartbeat is not None


@pytest.mark.parametrize(
    ("old", "new", "path", "found"),
    [
        ("{env: TEAM_URL}", "json://literal.example.com", "alerts.to[1].url", "do not stand in"),
        ("TEAM_URL", "NOT_SET", "alerts.to[1].url", "NOT_SET is not set"),
        ("name: team", "name: on-call", "alerts.to[0].name", "2 destinations are called"),
        ("name: team", "name: The Team", "alerts.to[1].name", "cannot name a destination"),
        ("[critical]", "[]", "alerts.to[0].severities", "it names no severity"),
        ("[critical]", "[loud]", "alerts.to[0].severities[0]", "found 'loud'"),
        ("repeat_after: 24h", "repeat_after: 24", "alerts.repeat_after", "has no unit"),
        ("repeat_after: 24h", "repeat_after: 5s", "alerts.repeat_after", "under the floor"),
        ("repeat_after", "repeat", "alerts.repeat", "this key is unknown"),
    ],
)
def test_a_mistake_is_named_with_its_place(
    with_alerts: Files, old: str, new: str, path: str, found: str
) -> None:
    problems = with_alerts.changed(old, new).problems
    assert problems[0].path == path
    assert found in problems[0].found
    assert "literal.example.com" not in str(problems[0])


def test_every_part_of_a_url_that_is_no_plain_word_is_a_secret(with_alerts: Files) -> None:
    settings = with_alerts.read(with_alerts.good).require()
    secrets = alert_secrets(settings.alerts)
    assert set(secrets) <= set(known_secrets(settings))
    for part in ("T1JJ3T3L2", "TIiajkdnlazkcOXrIdevi7FQ", "hooks.example.com", "correcthorse",
                 "beats.example.com", "0b8f7a1c-5f6d-4a55-9f3e-1b1d2c3e4f50"):  # fmt: skip
        assert part not in sanitize(f"could not reach {part} today", known=secrets)
    plain = "run `filejobs migrate`; storage_orphans sends alerts"
    assert sanitize(plain, known=secrets) == plain


def test_a_broken_file_still_says_whom_to_tell(with_alerts: Files) -> None:
    with_alerts.changed("min_age: 48h", "min_age: 48 hours")
    found = salvage(with_alerts.path, with_alerts.environ)
    assert found.database is not None
    assert found.alerts is not None
    assert found.complete
    assert [each.name for each in found.alerts.to] == ["on-call", "team"]


def test_of_a_section_with_a_mistake_the_destinations_that_are_right_are_left(
    with_alerts: Files,
) -> None:
    with_alerts.changed("TEAM_URL", "NOT_SET")
    found = salvage(with_alerts.path, with_alerts.environ)
    assert found.alerts is not None
    assert not found.complete
    assert [each.name for each in found.alerts.to] == ["on-call"]


@pytest.mark.parametrize("text", ["", "jobs: [", "just a text", "\xff"])
def test_of_a_file_that_is_no_settings_file_nothing_is_left(files: Files, text: str) -> None:
    files.read(text.encode("latin-1"))
    found = salvage(files.path, files.environ)
    assert (found.database, found.alerts, found.complete) == (None, None, False)
    assert salvage(files.path.with_name("not-there.yaml")).alerts is None


def test_the_last_good_copy_holds_names_of_variables_and_no_value(with_alerts: Files) -> None:
    settings = with_alerts.read(with_alerts.good).require()
    kept = json.loads(json.dumps(last_good(settings)))
    for value in with_alerts.environ.values():
        assert value not in json.dumps(kept)
    found = recalled(kept, with_alerts.environ)
    assert found.alerts == settings.alerts
    assert found.database == settings.database
    assert recalled(kept, {}).alerts is None
