"""`filejobs mute` and `filejobs unmute`."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.metrics.exposition import read, text_of
from filejobs_dagster.orchestration.standing_checks import verdicts
from filejobs_dagster.settings import read_settings

if TYPE_CHECKING:
    from tests.cli.conftest import Desk

JOB = "upload_reservations"


def test_what_is_muted_is_seen_everywhere_and_no_exit_code_forgets_it(desk: Desk) -> None:
    assert "Nothing is muted" in desk.call("mute").stdout
    loud = desk.call("status", "--check")
    done = desk.call("mute", JOB, "--for", "4h", "--why", "the bucket is being moved")
    assert done.exit_code == 0, done.output
    assert f"To end it sooner: filejobs unmute {JOB}" in done.stdout
    assert "the bucket is being moved" in desk.call("mute").stdout

    checked = desk.call("status", "--check")
    assert checked.exit_code == loud.exit_code == 2
    assert "[told to nobody: muted until " in checked.stdout.splitlines()[0]
    assert "MUTED  every alert of upload_reservations is muted until" in checked.stdout
    (said,) = json.loads(desk.call("status", "--format", "json").stdout)["muted"]
    assert (said["job"], said["kind"], said["why"]) == (JOB, None, "the bucket is being moved")
    (verdict,) = verdicts(read_settings(desk.path))
    assert not verdict.passed
    assert "told to nobody: muted until" in (verdict.description or "")
    sample = re.compile(
        r'muted_until_timestamp_seconds\{[^}]*job_name="upload_reservations",kind=""'
    )
    assert sample.search(text_of(read(desk.path)))
    assert sample.search(desk.call("status", "--format", "prometheus").stdout)

    ended = desk.call("unmute", JOB)
    assert ended.exit_code == 0, ended.output
    assert "Over. It was: every alert" in ended.stdout
    assert "told to nobody" not in desk.call("status", "--check").stdout
    assert desk.call("unmute", JOB).exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([JOB, "--for", "4h"], "say why"),
        ([JOB, "--why", "x"], "one of --until and --for"),
        ([JOB, "--for", "31d", "--why", "x"], "within the next 30 days"),
        ([JOB, "--until", "2020-01-01 08:00", "--why", "x"], "within the next 30 days"),
        ([JOB, "--until", "tomorrow", "--why", "x"], "is not a time"),
        (["--for", "1h", "--why", "x"], "name a job"),
        (["--kind", "faild", "--for", "1h", "--why", "x"], "no alert is called 'faild'"),
    ],
)
def test_a_mute_that_says_too_little_or_too_much_is_taught(
    desk: Desk, arguments: list[str], said: str
) -> None:
    result = desk.call("mute", *arguments)
    assert result.exit_code == 64, result.output
    assert said in " ".join(result.stderr.split())
    assert desk.connection.execute("SELECT count(*) FROM mute").fetchone() == (0,)
