from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from filejobs_dagster.cli import run as runs_command
from filejobs_dagster.cli.lazy import reflowed
from filejobs_dagster.cli.main import Commands, app

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cli.conftest import Desk

COMMANDS = (
    "demo", "dev", "prove", "scan", "init", "preset", "migrate", "grants", "doctor", "bucket",
    "rehearse", "apply", "verify", "audit", "run", "open", "status", "runs", "retention",
    "hold", "release", "restore", "backup", "mute", "unmute", "backfill", "drain",
    "uploads", "alert", "metrics", "record", "mirror", "serve-trigger", "live", "ready",
    "settings", "man",
)  # fmt: skip

IMPORTED = """
import sys
from filejobs_dagster.cli.main import run
try:
    run()
finally:
    heavy = {"dagster", "boto3", "botocore", "moto", "sqlalchemy"}
    sys.stderr.write("heavy: " + ",".join(sorted(heavy & set(sys.modules))) + "\\n")
"""


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_help_lists_every_command() -> None:
    said = CliRunner().invoke(app, ["--help"])
    assert said.exit_code == 0
    listed = [line.split()[1] for line in said.stdout.splitlines() if line.startswith("│ ")]
    assert set(COMMANDS) <= set(listed)
    assert tuple(Commands.places) == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command_teaches_examples_and_exit_codes(command: str) -> None:
    below = {
        "preset": ["apply"],
        "settings": ["check"],
        "bucket": ["adopt"],
        "audit": ["show"],
        "backup": ["check"],
    }
    inner = [command, *below.get(command, [])]
    said = CliRunner().invoke(app, [*inner, "--help"])
    assert said.exit_code == 0
    assert f"filejobs {' '.join(inner)}" in said.stdout
    assert "Example" in said.stdout
    assert "Exit code" in said.stdout


def test_prose_of_a_help_text_is_reflowed_and_lists_are_kept() -> None:
    assert reflowed("One\nsentence.\n\n[bold]Examples[/bold]\n  a\n  b") == (
        "One sentence.\n\n[bold]Examples[/bold]\n  a\n  b"
    )


def test_alone_it_shows_the_help_and_does_not_pretend_success() -> None:
    said = CliRunner().invoke(app, [])
    assert said.exit_code == 64
    assert "Usage: filejobs" in said.stdout


def test_the_version_is_shown() -> None:
    said = CliRunner().invoke(app, ["--version"])
    assert said.exit_code == 0
    assert said.stdout.startswith("filejobs")


def test_a_wrong_command_exits_with_64_and_says_where_to_look() -> None:
    said = CliRunner().invoke(app, ["stauts"])
    assert said.exit_code == 64
    assert "No such command 'stauts'" in said.stderr
    assert "filejobs --help" in said.stderr


def test_a_wrong_option_is_never_mistaken_for_a_critical_standing() -> None:
    said = CliRunner().invoke(app, ["status", "--check", "--bogus"])
    assert said.exit_code == 64
    assert "filejobs status --help" in said.stderr


def test_status_imports_neither_dagster_nor_boto3_nor_moto(desk: Desk) -> None:
    desk.record()
    said = python("-c", IMPORTED, "--config", str(desk.path), "status", "--format", "json")
    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout)["verdict"] == "ok"
    assert said.stderr.splitlines()[-1] == "heavy: "


def test_help_of_everything_imports_nothing_heavy() -> None:
    said = python("-c", IMPORTED, "--help")
    assert said.stderr.splitlines()[-1] == "heavy: "


def test_the_module_can_be_run_where_the_command_is_not_on_the_path(desk: Desk) -> None:
    desk.record()
    said = python("-m", "filejobs_dagster.cli", "--config", str(desk.path), "status", "--check")
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.startswith("OK - upload_reservations ok\n")


def test_a_reader_that_has_seen_enough_gets_no_traceback(desk: Desk) -> None:
    for _ in range(3):
        desk.record(detail={"note": "x" * 3_000_000})
    command = [sys.executable, "-m", "filejobs_dagster.cli", "--config", str(desk.path)]
    process = subprocess.Popen(
        [*command, "runs", "--format", "json"],
        # Unbuffered, Python itself drops what a closed pipe did not take, and says nothing.
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(1)
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=30) == 1
    assert said == ""


def test_an_output_that_knows_ascii_only_is_no_crash(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.record(outcome="failed", error="Schlüssel „ß“")
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    said = python("-m", "filejobs_dagster.cli", "--config", str(desk.path), "runs")
    assert said.returncode == 0, said.stderr
    assert "Schl\\xfcssel" in said.stdout


class TestAnUnexpectedError:
    @pytest.fixture(autouse=True)
    def _broken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def break_down(*_: object, **__: object) -> None:
            url = "postgresql://collector:very-secret-word@127.0.0.1/files"
            raise ZeroDivisionError(f"cannot divide {url}")

        monkeypatch.setattr(runs_command, "newest_runs", break_down)

    def test_exits_with_70_and_names_the_variable_for_more(self, desk: Desk) -> None:
        said = desk.call("runs")
        assert said.exit_code == 70
        assert "ZeroDivisionError: cannot divide" in said.stderr
        assert "FILEJOBS_TRACEBACK=1" in said.stderr
        assert "Traceback" not in said.output
        assert "very-secret-word" not in said.output

    def test_shows_its_traceback_without_secrets_when_asked(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FILEJOBS_TRACEBACK", "1")
        said = desk.call("runs")
        assert said.exit_code == 70
        assert "Traceback" in said.stderr
        assert "break_down" in said.stderr
        assert "very-secret-word" not in said.output


@pytest.mark.parametrize("command", [("runs",), ("migrate",), ("mirror",), ("status", "--check")])
def test_an_address_that_cannot_be_read_is_not_repeated(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setenv("FILEJOBS_DATABASE_URL", "my-own password of-the-database")
    said = desk.call(*command)
    assert said.exit_code in (1, 3)
    assert "address" in said.stderr
    for word in ("my-own", "of-the-database"):
        assert word not in said.output


@pytest.mark.parametrize("command", ["runs", "migrate", "mirror"])
def test_a_closed_port_is_one_teaching_message_without_the_password(
    desk: Desk, unreachable: str, command: str
) -> None:
    said = desk.call(command)
    assert said.exit_code == 1
    assert "Could not connect to PostgreSQL at 127.0.0.1:9/files" in said.stderr
    assert "Check that the server runs" in said.stderr
    assert unreachable not in said.output
    assert "Traceback" not in said.output


@pytest.mark.parametrize("command", ["runs", "migrate", "mirror"])
def test_every_mistake_in_the_settings_is_named_on_standard_error(desk: Desk, command: str) -> None:
    desk.document["jobs"]["upload_reservations"] |= {"max_runtime": 30, "limt": 3}
    desk.write()
    said = desk.call(command)
    assert said.exit_code == 1
    assert "has 2 mistakes" in said.stderr
    assert "jobs.upload_reservations.max_runtime (line" in said.stderr
    assert "found: 30 has no unit" in said.stderr
    assert "did you mean limit?" in said.stderr
    assert said.stdout == ""


def test_runs_without_tables_names_the_migration(
    desk: Desk, empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FILEJOBS_DATABASE_URL", empty_database_url)
    said = desk.call("runs")
    assert said.exit_code == 1
    assert "filejobs migrate" in said.stderr


def test_what_people_type_after_any_command_is_understood(desk: Desk) -> None:
    run_id = desk.record()
    short = desk.call("runs", "--json")
    assert json.loads(short.stdout) == json.loads(desk.call("runs", "--format", "json").stdout)
    assert json.loads(short.stdout)[0]["run_id"] == run_id
    checked = desk.call("status", "--check", "--quiet")
    assert (checked.exit_code, checked.stdout) == (0, "")
    refused = desk.call("runs", "--quiet", "--since", "7")
    assert (refused.exit_code, refused.stdout) == (64, "")
    assert "7 has no unit" in refused.stderr
    assert desk.call("uploads", "dead", "--json", "--no-color").exit_code == 0
    assert desk.call("open", "--json").exit_code == 64, "it has no such format"


def test_no_color_takes_the_colours_of_a_terminal_away(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    desk.record(outcome="failed")
    coloured = desk.call("runs").stdout
    plain = desk.call("runs", "--no-color").stdout
    assert "\x1b[1;31m" in coloured
    assert "31m" not in plain
    for option in ("--bogus", "--help"):
        desk.call("runs", "--no-color", option)
        assert "\x1b[1;31m" in desk.call("runs").stdout, "it ends with the call that said it"


def test_columns_folds_what_no_terminal_reads_for_a_mail(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.record(outcome="failed")
    assert max(map(len, desk.call("runs").stdout.splitlines())) > 100
    monkeypatch.setenv("COLUMNS", "100")
    assert max(map(len, desk.call("runs").stdout.splitlines())) <= 100


def test_the_version_has_a_short_option() -> None:
    assert CliRunner().invoke(app, ["-V"]).stdout == CliRunner().invoke(app, ["--version"]).stdout


TEXT = {
    # What they print is for people or for another program's own format.
    "demo", "dev", "init", "man", "migrate", "bucket adopt", "apply", "audit keygen",
    "audit restore", "audit prove", "audit hold set", "audit hold release", "open", "hold",
    "release", "mute", "unmute", "record", "drain", "backfill",
    "preset apply", "preset new", "uploads retry", "alert", "metrics", "serve-trigger", "live",
    "ready",
    # JSON in any case.
    "bucket policy", "settings schema",
}  # fmt: skip


def commands(command: Any, *path: str) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "list_commands"):
        yield " ".join(path), command
        return
    for name in command.list_commands(None):
        yield from commands(command.get_command(None, name), *path, name)


def test_every_command_whose_answer_is_data_gives_it_as_json() -> None:
    lacking = {
        name
        for name, command in commands(get_command(app))
        if not {"--json", "--format"} & {one for each in command.params for one in each.opts}
    }
    assert lacking == TEXT
