"""`filejobs hold` and `filejobs release`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Desk


def test_a_job_is_held_by_the_first_and_everybody_is_told(desk: Desk) -> None:
    desk.configure("deleted_files", restore_window="30d")
    assert "Nothing is held" in desk.call("hold").stdout
    first = desk.call("hold", "deleted_files", "--why", "a customer misses files")
    assert first.exit_code == 0, first.output
    assert "stops before its next batch" in first.stdout
    again = desk.call("hold", "deleted_files", "--why", "another reason")
    assert again.exit_code == 0
    assert "held already" in again.stdout
    assert "a customer misses files" in desk.call("hold").stdout
    seen = " ".join(desk.call("status").stdout.split())
    assert "deleted_files is held" in seen
    assert "a customer misses files" in seen


@pytest.mark.parametrize(("held", "released"), [(None, "deleted_files"), ("deleted_files", None)])
def test_releasing_another_hold_says_what_is_still_held(
    desk: Desk, held: str | None, released: str | None
) -> None:
    assert desk.call("hold", *([held] if held else []), "--why", "careful").exit_code == 0
    result = desk.call("release", *([released] if released else []))
    assert result.exit_code == 1
    assert "careful" in result.stdout
    assert desk.connection.execute(
        "SELECT count(*) FROM hold WHERE released_at IS NULL"
    ).fetchone() == (1,)
    ended = desk.call("release", *([held] if held else []))
    assert ended.exit_code == 0, ended.output
    assert desk.connection.execute(
        "SELECT count(*) FROM hold WHERE released_by IS NOT NULL"
    ).fetchone() == (1,)
    assert desk.call("release").exit_code == 1
    assert "was not held" in desk.call("release").stderr


def test_a_job_that_does_not_exist_is_no_hold(desk: Desk) -> None:
    result = desk.call("hold", "storage_orphan", "--why", "typo")
    assert result.exit_code == 64
    assert "storage_orphans" in result.stderr
