from __future__ import annotations

import io
import json
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from filejobs_dagster.cli import run

if TYPE_CHECKING:
    from tests.cli.conftest import Desk

HOUR = timedelta(hours=1)


def listed(desk: Desk, *arguments: str) -> list[dict[str, Any]]:
    said = desk.call("runs", "--format", "json", *arguments)
    assert said.exit_code == 0, said.output
    found: list[dict[str, Any]] = json.loads(said.stdout)
    return found


def test_the_newest_run_stands_first_whatever_the_order_of_recording(desk: Desk) -> None:
    newer = desk.record("storage_orphans", ago=HOUR)
    older = desk.record(ago=5 * HOUR)
    newest = desk.record(ago=HOUR / 2)
    assert [run["run_id"] for run in listed(desk)] == [newest, newer, older]


def test_job_mode_failure_and_age_can_be_asked_for(desk: Desk) -> None:
    failed = desk.record(outcome="failed", mode="dry", ago=HOUR)
    desk.record(ago=2 * HOUR)
    desk.record("storage_orphans", outcome="failed", ago=50 * HOUR)
    asked = ("--failed", "--mode", "dry", "--job", "upload_reservations", "--since", "24h")
    assert [run["run_id"] for run in listed(desk, *asked)] == [failed]
    assert len(listed(desk, "--failed")) == 2
    assert len(listed(desk, "--failed", "--since", "2d")) == 1


def test_the_limit_counts_over_all_jobs(desk: Desk) -> None:
    for hours in range(1, 5):
        desk.record(ago=hours * HOUR)
        desk.record("audit_seal", ago=hours * HOUR)
    assert len(listed(desk, "--limit", "3")) == 3
    assert len(listed(desk)) == 8


def test_counts_that_are_not_known_read_unknown_and_are_null_in_json(desk: Desk) -> None:
    desk.record(outcome="failed", scanned=None, acted=None)
    (row,) = (line for line in desk.call("runs").stdout.splitlines() if "failed" in line)
    assert row.count("unknown") >= 2
    assert " 0 " not in row
    (run,) = listed(desk)
    assert (run["scanned"], run["acted"]) == (None, None)


def test_window_trigger_and_what_was_left_are_shown(desk: Desk) -> None:
    desk.record(
        detail={
            "window": {"covers": "2026-03-01"},
            "trigger": {"kind": "backfill", "name": "abcdef"},
            "truncated": True,
            "stopped_reason": "limit",
        }
    )
    said = desk.call("runs").stdout
    for shown in ("2026-03-01", "backfill: abcdef", "limit", "1m30s"):
        assert shown in said
    (run,) = listed(desk)
    assert run["trigger"] == {"kind": "backfill", "name": "abcdef"}
    assert (run["truncated"], run["stopped_reason"]) == (True, "limit")


def test_orphans_that_are_not_due_yet_are_not_called_nothing(desk: Desk) -> None:
    waiting = {"truncated": False, "stopped_reason": None, "waiting": 1500}
    desk.record(detail=waiting)
    assert "nothing; 1,500 wait" in desk.call("runs").stdout
    desk.record(detail=waiting | {"truncated": True, "stopped_reason": "limit"})
    assert "limit; 1,500 wait" in desk.call("runs").stdout
    desk.record(detail=waiting | {"waiting": 0})
    assert desk.call("runs").stdout.count("wait") == 2


def test_a_dry_run_says_what_it_would_have_taken_and_not_that_it_left_nothing(desk: Desk) -> None:
    found = {"truncated": False, "stopped_reason": None, "would_collect": 1560}
    desk.record(mode="dry", scanned=1560, acted=0, detail=found)
    for said in (desk.call("runs").stdout, desk.call("status").stdout):
        assert "would 1,560" in " ".join(said.split())
        assert "nothing" not in said.replace("collects nothing", "").replace("nothing counts", "")
    (run,) = listed(desk)
    assert (run["acted"], run["detail"]["would_collect"]) == (0, 1560)


def test_a_record_without_details_is_shown_with_unknowns(desk: Desk) -> None:
    desk.record(detail={"window": "odd", "trigger": None, "truncated": "yes"})
    (run,) = listed(desk)
    assert (run["window"], run["truncated"]) == (None, None)
    assert run["trigger"] == {"kind": None, "name": None}
    assert desk.call("runs").exit_code == 0


def test_an_error_shows_its_first_line_and_the_rest_on_request(desk: Desk) -> None:
    desk.record(outcome="failed", error="the first line\nthe second line")
    assert "the second line" not in desk.call("runs").stdout
    said = desk.call("runs", "--full").stdout
    assert "the first line" in said
    assert "the second line" in said


def test_a_secret_in_a_record_that_somebody_else_wrote_is_hidden(desk: Desk) -> None:
    desk.record(outcome="failed", error="postgresql://me:word-of-pass@db/files refused")
    for arguments in ((), ("--full",), ("--format", "json")):
        said = desk.call("runs", *arguments)
        assert "refused" in said.stdout
        assert "word-of-pass" not in said.output


def test_no_run_is_said_and_is_no_failure(desk: Desk) -> None:
    desk.record(installation="other")
    said = desk.call("runs")
    assert said.exit_code == 0
    assert "No run of desk is recorded" in said.stdout
    assert "filejobs mirror" in said.stdout
    assert listed(desk) == []


@pytest.mark.parametrize(
    ("arguments", "taught"),
    [
        (("--since", "7"), "7 has no unit"),
        (("--since", "9999999d"), "is not between"),
        (("--job", "upload_reservation"), "did you mean upload_reservations?"),
        (("--limit", "0"), "--limit"),
        (("--mode", "wet"), "--mode"),
    ],
)
def test_a_wrong_call_is_taught(desk: Desk, arguments: tuple[str, ...], taught: str) -> None:
    said = desk.call("runs", *arguments)
    assert said.exit_code == 64
    assert taught in said.stderr


@pytest.mark.parametrize("width", [60, 100, 200])
def test_a_terminal_of_any_width_shows_everything(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    screen = io.StringIO()
    out = Console(file=screen, width=width, force_terminal=True, highlight=False)
    monkeypatch.setattr(run, "console", lambda: out)
    run_id = desk.record(outcome="failed", error="the bucket said no", scanned=None)
    desk.call("runs")
    said = screen.getvalue()
    for shown in (run_id[:8], "upload_reservations", "the bucket said no", "unknown", "everything"):
        assert shown in said
    assert run_id not in said


def test_a_run_says_who_asked_for_it_and_a_typed_name_is_a_claim(desk: Desk) -> None:
    ada = {"user": "ada", "host": "desk", "how": "process"}
    for starter in (ada, {"user": "mallory", "host": None, "how": "tag"}, {"user": 7}):
        desk.record(detail={"window": {"covers": "everything"}, "started_by": starter})

    shown = desk.call("runs").stdout
    assert "ada@desk" in shown
    assert "mallory (claimed)" in shown
    documents = json.loads(desk.call("runs", "--format", "json").stdout)
    assert [each["started_by"] for each in documents][::-1] == [
        ada,
        {"user": "mallory", "host": None, "how": "tag"},
        None,
    ]
    [job] = [
        each
        for each in json.loads(desk.call("status", "--format", "json").stdout)["jobs"]
        if each["configured"]
    ]
    assert job["last_run"]["started_by"] is None


def test_a_cancelled_run_is_no_failed_one_in_any_view(desk: Desk) -> None:
    told = {"window": {"covers": "everything"}, "ended": "canceled"}
    desk.record(ago=timedelta(hours=1))
    desk.record(outcome="failed", error="Cancelled while it worked: stopped by ada.", detail=told)
    # CONTROL: by its outcome alone it is a failure.
    assert desk.connection.execute(
        "SELECT count(*) FROM job_run WHERE outcome = 'failed'"
    ).fetchone() == (1,)

    assert "No run of desk is recorded that fits" in desk.call("runs", "--failed").stdout
    shown = desk.call("runs").stdout
    assert "cancelled" in shown
    assert "stopped by ada" in shown
    standing = desk.call("status", "--check")
    assert standing.exit_code == 0, standing.stdout
    assert "since it was cancelled" in " ".join(standing.stdout.split())
    figures = desk.call("status", "--format", "prometheus").stdout
    assert re.search(r'last_run_failed\{[^}]*upload_reservations"\} 0\.0', figures)


BAD_RECORDS: dict[str, str] = {
    "nested 2,000 deep": f'{{"window": {{"covers": "everything"}}, "a": {"[" * 2000}{"]" * 2000}}}',
    "a list": "[1, 2]",
    "words for numbers": '{"window": {"covers": "everything"}, "oldest_left": {"a": 1}, "missing":'
    ' "many", "dead_letters": [], "untouched": "x", "finding": 7, "samples": 5, "breakers": 3,'
    ' "findings": {}, "classes": [1], "fates": 4, "would_collect": {}, "trigger": 9, "holder": 3,'
    ' "started_by": 8, "truncated": "no", "explained": 5, "cutoff": "infinity", "swept": true,'
    ' "limited_to": {}, "ended": [], "started_again": 2, "references_read_at": "infinity"}',
    "numbers beyond all": '{"window": {"covers": "everything", "to": "infinity"}, "missing": 1e400,'
    ' "dead_letters": 99999999999999999999999999999999, "untouched": -1, "oldest_left":'
    ' "99999-01-01", "bytes_freed": 1e308, "swept": true, "cutoff": "-infinity"}',
}


@pytest.mark.parametrize("detail", BAD_RECORDS.values(), ids=BAD_RECORDS)
def test_every_command_that_reads_survives_any_record(desk: Desk, detail: str) -> None:
    desk.configure("audit_seal", mode="live")
    good = desk.record("audit_seal")
    for odd, times in (("r", "now(), now()"), ("s", "'-infinity', 'infinity'")):
        desk.connection.execute(
            "INSERT INTO job_run (run_id, installation, job, started_at, finished_at, outcome,"
            " mode, scanned, acted, detail)"
            f" VALUES (%s, 'desk', 'upload_reservations', {times}, 'ok', 'live', 1, 1, %s)",
            (odd, detail),
        )
    for arguments in (
        ("status",), ("status", "--format", "json"), ("status", "--check"),
        ("runs",), ("runs", "--format", "json"), ("runs", "--full"), ("runs", "--failed"),
        ("metrics",), ("alert", "--show"),
    ):  # fmt: skip
        said = desk.call(*arguments)
        assert said.exception is None or isinstance(said.exception, SystemExit), (
            arguments,
            repr(said.exception),
        )
        assert "Traceback" not in said.output, arguments
        assert said.exit_code in (0, 1, 2, 3), (arguments, said.output)
    table = desk.call("status").output
    assert re.search(r"audit_seal\s.*ok", table), table
    assert {run["run_id"] for run in listed(desk)} == {good, "r", "s"}
