"""`filejobs uploads`: dead letters are listed, and tried again with a reason."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Desk


@pytest.fixture
def dead(desk: Desk) -> str:
    """One dead letter of three attempts."""
    [(row, _)] = desk.connection.execute("SELECT id, key FROM begin_upload('files/')").fetchall()
    desk.connection.execute("SELECT mark_stored(%s), cancel_upload(%s)", (row, row))
    desk.connection.execute(
        "UPDATE upload SET attempts = 3, dead_at = now(), last_error = 'AccessDenied: no'"
        " WHERE id = %s",
        (row,),
    )
    return str(row)


def test_a_dead_letter_is_listed_with_what_it_met_last(desk: Desk, dead: str) -> None:
    [letter] = json.loads(desk.call("uploads", "dead", "--format", "json").stdout)
    assert (letter["id"], letter["attempts"]) == (dead, 3)
    assert letter["last_error"] == "AccessDenied: no"
    table = desk.call("uploads", "dead").stdout
    assert dead in table
    assert "AccessDenied: no" in table


def test_a_retry_makes_it_due_with_all_attempts_ahead_and_says_who_and_why(
    desk: Desk, dead: str
) -> None:
    said = desk.call("uploads", "retry", dead, "--reason", "the policy is mended")
    assert said.exit_code == 0, said.output
    row = desk.connection.execute(
        "SELECT dead_at, attempts, forgiven, next_attempt_at <= clock_timestamp() FROM upload"
    ).fetchone()
    assert row == (None, 3, 3, True)
    [(event,)] = desk.connection.execute("SELECT body::jsonb FROM audit_event").fetchall()
    assert (event["kind"], event["reason"]) == ("upload.retry", "the policy is mended")
    assert "@" in event["by"]
    assert "No dead letters." in desk.call("uploads", "dead").stdout


def test_an_id_that_is_no_dead_letter_is_named(desk: Desk, dead: str) -> None:
    other = str(uuid4())
    said = desk.call("uploads", "retry", dead, other, "--reason", "mended")
    assert said.exit_code == 1
    assert other in said.stderr
    assert dead in said.stdout


def test_a_retry_needs_ids_or_all_and_a_reason(desk: Desk, dead: str) -> None:
    for arguments in ([], ["--all"], ["--reason", "why"], ["--all", dead, "--reason", "why"]):
        assert desk.call("uploads", "retry", *arguments).exit_code == 64
    assert desk.connection.execute("SELECT dead_at IS NOT NULL FROM upload").fetchone() == (True,)
