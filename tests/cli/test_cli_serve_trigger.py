from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.cli.serve_trigger import is_loopback

if TYPE_CHECKING:
    from tests.cli.conftest import Desk

TOKEN = "a-token-of-the-tests-0123456789"


@pytest.fixture
def with_token(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setenv("FILEJOBS_TRIGGER_TOKEN", TOKEN)
    desk.document["trigger"] = {"tokens": {"cron": {"token": {"env": "FILEJOBS_TRIGGER_TOKEN"}}}}
    desk.write()
    return desk


def test_without_the_section_it_shows_what_to_write(desk: Desk) -> None:
    said = desk.call("serve-trigger")
    assert said.exit_code == 1
    assert "token: {env: FILEJOBS_TRIGGER_TOKEN}" in said.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "filejobs.example.com", ""])
def test_an_address_that_others_reach_needs_to_be_meant(with_token: Desk, host: str) -> None:
    said = with_token.call("serve-trigger", "--host", host)
    assert said.exit_code == 1
    assert "--listen-beyond-this-machine" in said.stderr
    meant = with_token.call("serve-trigger", "--host", host, "--listen-beyond-this-machine")
    assert "DAGSTER_HOME is not set" in meant.stderr
    assert TOKEN not in said.output + meant.output


def test_loopback_is_loopback_and_nothing_else_is() -> None:
    assert all(is_loopback(host) for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost"))
    assert not any(
        is_loopback(host) for host in ("0.0.0.0", "10.0.0.1", "::", "localhost.example.com", "1")
    )
