"""`filejobs alert`: a round from outside, a test message, and what is open."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.alerts.receiver import TOKEN, Receiver, receiving

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.conftest import Desk


@pytest.fixture
def receiver(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with receiving() as receiver:
        monkeypatch.setenv("FILEJOBS_ALERT_URL", receiver.url)
        monkeypatch.setenv("FILEJOBS_ALERT_STATE", str(tmp_path / "alert.json"))
        desk.document["alerts"] = {
            "to": [{"name": "on-call", "url": {"env": "FILEJOBS_ALERT_URL"}}],
            "recovered_after": "0s",
        }
        desk.write()
        yield receiver


def test_a_round_tells_what_is_new_and_the_next_one_nothing(desk: Desk, receiver: Receiver) -> None:
    first, second = desk.call("alert"), desk.call("alert")
    assert (first.exit_code, second.exit_code) == (0, 0)
    assert "on-call: told 1 things" in first.stdout
    assert "1 open" in second.stdout
    assert "told" not in second.stdout
    assert len(receiver.messages) == 1
    desk.record()
    assert "0 open" in desk.call("alert").stdout
    assert "1 over" in receiver.texts[1]


def test_a_dead_daemon_is_told_from_outside(desk: Desk, receiver: Receiver) -> None:
    desk.record()
    desk.connection.execute(
        "INSERT INTO mirror_watermark (installation, read_until, wide_scan_at)"
        " VALUES ('desk', now() - interval '2 hours', now())"
    )
    assert desk.call("alert").exit_code == 0
    assert "Nobody records what ran" in receiver.texts[0]


def test_a_destination_that_cannot_be_told_is_an_exit_code_and_is_tried_again(
    desk: Desk, receiver: Receiver
) -> None:
    receiver.status = 500
    said = desk.call("alert")
    assert said.exit_code == 1
    assert "on-call: it answered 500; it is tried again" in said.stderr
    assert TOKEN not in said.output
    shown = desk.call("alert", "--show")
    assert "critical  upload_reservations has never run" in shown.stdout
    assert "after 1 attempts: it answered 500" in shown.stdout


def test_a_database_that_is_away_is_told_once_and_exits_with_3(
    desk: Desk, receiver: Receiver, unreachable: str
) -> None:
    for _ in range(2):
        said = desk.call("alert")
        assert said.exit_code == 3
        assert unreachable not in said.output
    (text,) = receiver.texts
    assert "The standing of the jobs cannot be read" in text
    assert unreachable not in text


def test_a_broken_file_is_told_and_exits_with_3(desk: Desk, receiver: Receiver) -> None:
    desk.document["jobs"]["upload_reservation"] = {}
    desk.write()
    assert [desk.call("alert").exit_code for _ in range(2)] == [3, 3]
    (text,) = receiver.texts
    assert "did you mean upload_reservations?" in text


def test_a_test_message_says_who_took_it(
    desk: Desk, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOWHERE", f"json://127.0.0.1:1/{TOKEN}")
    desk.document["alerts"]["to"].append({"name": "nowhere", "url": {"env": "NOWHERE"}})
    desk.document["alerts"]["heartbeat"] = {"url": {"env": "NOWHERE"}}
    desk.write()
    said = desk.call("alert", "--test")
    assert said.exit_code == 1
    assert said.stdout == "on-call: taken\n"
    assert "nowhere: it could not be reached in time" in said.stderr
    assert "heartbeat: the heartbeat's variable holds no http" in said.stderr
    assert TOKEN not in said.output
    assert receiver.messages[0]["title"] == "filejobs desk: a test"
    assert desk.connection.execute("SELECT FROM alert_delivery").fetchall() == []


def test_without_a_destination_it_says_how_to_name_one(desk: Desk) -> None:
    for arguments in (["alert"], ["alert", "--test"]):
        said = desk.call(*arguments)
        assert said.exit_code == 1
        assert "FILEJOBS_ALERT_URL" in said.stderr
    assert desk.call("alert", "--show").stdout == "Nothing is open.\n"
    assert desk.call("alert", "--show", "--test").exit_code == 64
