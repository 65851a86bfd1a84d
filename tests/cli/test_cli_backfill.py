"""What `filejobs backfill` says and refuses; tests/e2e has it at work."""

from __future__ import annotations

import io
import sys
from datetime import date, datetime, timedelta, timezone
from typing import TYPE_CHECKING

import dagster as dg
import pytest
import typer

from filejobs_dagster.cli.backfill import ranges
from filejobs_dagster.cli.backfill_desk import Desk as Counter
from filejobs_dagster.ledger.swept_days import end_of
from filejobs_dagster.settings import load_settings

if TYPE_CHECKING:
    from pathlib import Path

    from filejobs_dagster.ledger.outcome import Mode
    from tests.cli.conftest import Desk

JOB = "upload_reservations"
TODAY = datetime.now(timezone.utc).date()


def day(ago: int) -> str:
    return (TODAY - timedelta(days=ago)).isoformat()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A DAGSTER_HOME with an instance of its own, and no workspace file anywhere."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    return home


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--from", day(-1), "--to", day(-1)), "has not begun"),
        (("--from", "2024-12-31", "--to", day(1)), "before backfill_from"),
        (("--from", day(1)), "DAGSTER_HOME is not set"),
    ],
)
def test_days_that_cannot_be_and_a_missing_instance_are_refused_with_a_reason(
    desk: Desk, arguments: tuple[str, ...], said: str
) -> None:
    refused = desk.call("backfill", JOB, *arguments)
    assert refused.exit_code == 1
    assert said in refused.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        (JOB,),
        (JOB, "--from", "yesterday"),
        (JOB, "--from", "2026-02-30"),
        (JOB, "--from", day(1), "--to", day(2)),
        (),
        (JOB, "--from", day(1), "--resume", "abc"),
        ("--resume", "abc", "--mode", "live"),
        ("no_such_job", "--from", day(1)),
    ],
    ids=" ".join,
)
def test_what_is_not_a_question_is_called_wrong(desk: Desk, arguments: tuple[str, ...]) -> None:
    assert desk.call("backfill", *arguments).exit_code == 64


@pytest.mark.parametrize(
    ("job", "why"),
    [
        ("audit_seal", "would be a lie"),
        ("audit_verify", "would be a lie"),
        ("storage_orphans", "looks at everything"),
        ("table_retention", "looks at everything"),
    ],
)
def test_a_job_without_days_says_why_and_what_to_do_instead(desk: Desk, job: str, why: str) -> None:
    refused = desk.call("backfill", job, "--from", day(3))
    assert refused.exit_code == 1
    assert why in refused.stderr
    assert f"dagster job launch -w workspace.yaml -j {job}" in refused.stderr
    assert ("filejobs/mode" in refused.stderr) == (job != "audit_verify")


def test_a_job_outside_the_settings_is_refused(desk: Desk) -> None:
    desk.document["jobs"] = {"audit_seal": {"by_hand": True}}
    desk.write()
    assert "does not stand under" in desk.call("backfill", JOB, "--from", day(3)).stderr


def test_live_is_refused_where_it_would_be_dry(desk: Desk, home: Path) -> None:
    assert home.is_dir()
    desk.document["allow_live"] = False
    desk.write()
    refused = desk.call("backfill", JOB, "--from", day(3), "--mode", "live")
    assert refused.exit_code == 1
    assert "allow_live: false" in refused.stderr


def test_live_is_refused_while_somebody_holds_the_job(desk: Desk, home: Path) -> None:
    assert home.is_dir()
    assert desk.call("hold", "--why", "files are missing").exit_code == 0
    refused = desk.call("backfill", JOB, "--from", day(3), "--mode", "live")
    assert refused.exit_code == 1
    assert "files are missing" in refused.stderr
    assert "filejobs release" in refused.stderr
    # CONTROL: released, it goes on to look for a workspace.
    assert desk.call("release").exit_code == 0
    allowed = desk.call("backfill", JOB, "--from", day(3), "--mode", "live")
    assert "No workspace file was found" in allowed.stderr


def test_more_than_a_month_needs_a_yes_and_the_plan_is_said_first(desk: Desk, home: Path) -> None:
    assert home.is_dir()
    refused = desk.call("backfill", JOB, "--from", day(40), "--to", day(1))
    assert refused.exit_code == 1
    assert "dry: reports what a live run would take, and changes nothing, of 40 days" in (
        refused.stdout
    )
    assert f"{day(40)} to {day(1)}" in refused.stdout
    assert "--yes" in refused.stderr
    allowed = desk.call("backfill", JOB, "--from", day(40), "--to", day(1), "--yes")
    assert "No workspace file was found" in allowed.stderr


def test_days_that_were_swept_are_left_out_and_nothing_missing_is_no_failure(
    desk: Desk, home: Path
) -> None:
    assert home.is_dir()
    two_days_ago = TODAY - timedelta(days=2)
    run_id = desk.record(
        detail={
            "window": {"covers": "everything"},
            "swept": True,
            "cutoff": end_of(two_days_ago).isoformat(),
        }
    )
    some = desk.call("backfill", JOB, "--from", day(5), "--mode", "live")
    assert "live: deletes, for good, what became due on 2 days" in some.stdout
    assert "Left out: 4 days done already" in some.stdout
    none = desk.call("backfill", JOB, "--from", day(5), "--to", day(2), "--mode", "live")
    assert none.exit_code == 0
    assert "Nothing is missing" in none.stdout
    assert run_id in none.stdout
    every = desk.call("backfill", JOB, "--from", day(5), "--to", day(2), "--all")
    assert "4 days" in every.stdout


def test_an_unknown_backfill_cannot_be_cancelled_or_resumed(desk: Desk, home: Path) -> None:
    assert home.is_dir()
    for option in ("--cancel", "--resume"):
        refused = desk.call("backfill", option, "abcdefgh")
        assert refused.exit_code == 1
        assert "No backfill of this installation's jobs is called 'abcdefgh'" in refused.stderr
    assert "There is no backfill." in desk.call("backfill", "--list").stdout


def test_days_that_follow_each_other_are_one_range() -> None:
    days = [date(2026, 2, 27), date(2026, 2, 28), date(2026, 3, 1), date(2026, 3, 7)]
    assert ranges(reversed(days)) == "2026-02-27 to 2026-03-01, 2026-03-07"  # type: ignore[arg-type]


class Terminal(io.StringIO):
    """Somebody who can answer."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("mode", "answer", "goes_on"),
    [("live", "n\n", False), ("live", "\n", False), ("live", "y\n", True), ("dry", "", True)],
)
def test_at_a_terminal_a_live_backfill_asks_first_and_no_is_the_default(
    desk: Desk,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    mode: Mode,
    answer: str,
    goes_on: bool,
) -> None:
    assert home.is_dir()
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    with dg.DagsterInstance.ephemeral() as instance:
        counter = Counter(load_settings(desk.path), instance, None, yes=False)
        with pytest.raises(typer.Exit) as ended:
            counter.start(JOB, (TODAY - timedelta(days=1),), mode, take_all=False)
    assert ended.value.exit_code == 1
    said = capsys.readouterr()
    assert ("Delete for good?" in said.out) == (mode == "live")
    assert ("No workspace file" in said.err) == goes_on
