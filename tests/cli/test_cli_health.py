"""`filejobs live` and `filejobs ready` from a shell: exit codes, reasons, and no Dagster."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from filejobs_dagster.cli import terminal

if TYPE_CHECKING:
    from tests.cli.conftest import Desk


def test_what_is_not_alive_is_named_and_so_is_a_wrong_call(desk: Desk) -> None:
    dead = desk.call("live", "webserver", "--port", "1")
    assert (dead.exit_code, dead.stdout) == (terminal.FAILED, "")
    assert dead.stderr.startswith("NOT OK - webserver at 127.0.0.1:1")
    assert desk.call("live", "code", "--port", "1").exit_code == terminal.FAILED
    unknown = desk.call("live", "daemon")
    assert unknown.exit_code == terminal.FAILED
    assert "FILEJOBS_DAGSTER_URL is not set" in unknown.stderr
    assert desk.call("live", "somebody").exit_code == terminal.USAGE
    assert desk.call("live", "database").exit_code == terminal.USAGE, "only a process can be alive"


def test_the_database_is_ready_when_the_settings_are_right_and_it_is_migrated(desk: Desk) -> None:
    ready = desk.call("ready", "database")
    assert (ready.exit_code, ready.stderr) == (terminal.OK, "")
    assert "every migration is applied" in ready.stdout

    desk.connection.execute("DELETE FROM filejobs_migration WHERE number > 2")
    lacking = desk.call("ready", "database")
    assert lacking.exit_code == terminal.FAILED
    assert "0003_audit.sql" in lacking.stderr
    assert "run `filejobs migrate`" in lacking.stderr

    desk.configure(stale_after="90")
    assert desk.call("ready", "database").exit_code == terminal.FAILED


def test_a_database_that_is_away_is_not_ready_and_its_password_is_not_told(
    desk: Desk, unreachable: str
) -> None:
    away = desk.call("ready", "database")
    assert away.exit_code == terminal.FAILED
    assert away.stderr.startswith("NOT OK - ")
    assert unreachable not in away.stderr


def test_none_of_it_imports_dagster() -> None:
    code = (
        "import sys, filejobs_dagster.cli.health, filejobs_dagster.cli.health,"
        " filejobs_dagster.cli.health, filejobs_dagster.cli.health,"
        " filejobs_dagster.cli.health;"
        " sys.exit(bool({'dagster', 'sqlalchemy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
