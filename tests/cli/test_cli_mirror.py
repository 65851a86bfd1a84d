from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Desk


def progress(desk: Desk, run_id: str, outcome: str | None, *, silent: bool = False) -> None:
    """A run that left this row behind; its process is gone, so nobody holds its lock."""
    desk.connection.execute(
        """
        INSERT INTO job_progress
            (run_id, installation, job, mode, trigger, holder, started_at, heartbeat_at, scanned,
             acted, outcome, error, finished_at, silent_since)
        VALUES
            (%(run_id)s, 'desk', 'upload_reservations', 'live', 'cli', 'a host',
             now() - interval '20 minutes', now() - interval '10 minutes', 9, 8, %(outcome)s,
             CASE WHEN %(outcome)s = 'failed' THEN 'it said so itself' END,
             CASE WHEN %(outcome)s IS NOT NULL THEN now() - interval '10 minutes' END,
             CASE WHEN %(silent)s THEN now() - interval '5 minutes' END)
        """,
        {"run_id": run_id, "outcome": outcome, "silent": silent},
    )


def records(desk: Desk) -> dict[str, str]:
    rows = desk.connection.execute("SELECT run_id, outcome FROM job_run").fetchall()
    return {str(run_id): str(outcome) for run_id, outcome in rows}


class TestWithoutDagsterHome:
    def test_runs_that_said_their_final_word_are_recorded_once(self, desk: Desk) -> None:
        progress(desk, "good", "ok")
        progress(desk, "bad", "failed")
        said = desk.call("mirror")
        assert said.exit_code == 0, said.output
        assert sorted(said.stdout.splitlines()) == ["recorded bad", "recorded good"]
        assert "DAGSTER_HOME is not set" in said.stderr
        assert records(desk) == {"good": "ok", "bad": "failed"}
        assert desk.call("mirror").stdout.startswith("nothing to do")
        assert len(records(desk)) == 2

    def test_a_run_that_has_been_silent_for_long_is_recorded_as_lost(self, desk: Desk) -> None:
        progress(desk, "killed", None, silent=True)
        assert desk.call("mirror").stdout == "recorded killed\n"
        assert records(desk) == {"killed": "failed"}
        assert "Lost:" in desk.call("runs").stdout

    def test_one_look_is_not_enough_to_call_a_run_lost(self, desk: Desk) -> None:
        progress(desk, "perhaps", None)
        assert desk.call("mirror").stdout.startswith("nothing to do")
        assert records(desk) == {}

    def test_the_watermark_of_dagsters_storage_is_left_alone(self, desk: Desk) -> None:
        progress(desk, "good", "ok")
        desk.call("mirror")
        counted = desk.connection.execute("SELECT count(*) FROM mirror_watermark").fetchone()
        assert counted == (0,)

    def test_a_run_that_cannot_be_recorded_is_named_and_the_others_are_recorded(
        self, desk: Desk
    ) -> None:
        desk.connection.execute(
            "ALTER TABLE job_run ADD CONSTRAINT refused CHECK (run_id <> 'refused')"
        )
        progress(desk, "refused", "ok")
        progress(desk, "good", "ok")
        said = desk.call("mirror")
        assert said.exit_code == 1
        assert said.stdout == "recorded good\n"
        assert "not recorded refused: " in said.stderr
        assert records(desk) == {"good": "ok"}


class TestWithDagsterHome:
    def test_what_dagster_does_not_know_is_recorded_from_its_own_word(
        self, desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        home = tmp_path / "dagster"
        home.mkdir()
        (home / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
        monkeypatch.setenv("DAGSTER_HOME", str(home))
        progress(desk, "good", "ok")
        command = [sys.executable, "-m", "filejobs_dagster.cli", "--config", str(desk.path)]
        said = subprocess.run(
            [*command, "mirror"], capture_output=True, text=True, timeout=120, check=False
        )
        assert (said.returncode, said.stdout, said.stderr) == (0, "recorded good\n", "")
        assert records(desk) == {"good": "ok"}

    def test_a_home_that_is_no_directory_is_one_teaching_message(
        self, desk: Desk, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("DAGSTER_HOME", "relative/place")
        said = desk.call("mirror")
        assert said.exit_code == 1
        assert "absolute path" in said.stderr
        assert "Traceback" not in said.output

    @pytest.mark.thorough
    def test_a_storage_that_does_not_answer_is_said_without_its_password(
        self, desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        home = tmp_path / "dagster"
        home.mkdir()
        (home / "dagster.yaml").write_text(
            "telemetry: {enabled: false}\n"
            "storage: {postgres: {postgres_url: {env: FILEJOBS_DAGSTER_URL}}}\n"
        )
        monkeypatch.setenv("DAGSTER_HOME", str(home))
        monkeypatch.setenv(
            "FILEJOBS_DAGSTER_URL", "postgresql://dagster:storage-pass-word@127.0.0.1:9/dagster"
        )
        command = [sys.executable, "-m", "filejobs_dagster.cli", "--config", str(desk.path)]
        said = subprocess.run(
            [*command, "mirror"], capture_output=True, text=True, timeout=120, check=False
        )
        assert said.returncode == 1
        assert "Dagster's run storage could not be read" in said.stderr
        assert "storage-pass-word" not in said.stdout + said.stderr
        assert "Traceback" not in said.stderr
