from __future__ import annotations

import io
import json
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console

from filejobs_dagster.cli.status import print_standings, verdict_on
from filejobs_dagster.ledger.standing import Severity, Standing
from filejobs_dagster.registry import JOB_NAMES
from filejobs_dagster.runbook import PAGE

if TYPE_CHECKING:
    from tests.cli.conftest import Desk


def document(desk: Desk, *arguments: str) -> dict[str, Any]:
    said = desk.call("status", "--format", "json", *arguments)
    found: dict[str, Any] = json.loads(said.stdout)
    return found


def job(desk: Desk, name: str = "upload_reservations", *arguments: str) -> dict[str, Any]:
    return next(each for each in document(desk, *arguments)["jobs"] if each["job"] == name)


class TestCheck:
    def test_a_recent_live_success_is_ok(self, desk: Desk) -> None:
        desk.configure(stale_after="1h")
        desk.record()
        said = desk.call("status", "--check")
        assert said.exit_code == 0
        assert said.stdout.splitlines()[0] == "OK - upload_reservations ok"

    def test_a_job_that_never_ran_is_critical_with_a_threshold(self, desk: Desk) -> None:
        desk.configure(stale_after="1h")
        said = desk.call("status", "--check")
        assert said.exit_code == 2
        assert said.stdout.startswith("CRITICAL - upload_reservations never run: no run is")
        assert job(desk)["stale"] is True

    def test_a_job_that_never_ran_is_critical_without_a_threshold_too(self, desk: Desk) -> None:
        assert desk.call("status", "--check").exit_code == 2
        assert job(desk)["stale"] is None

    def test_an_old_success_is_stale_by_the_threshold_of_the_settings(self, desk: Desk) -> None:
        desk.configure(stale_after="1h")
        desk.record(ago=timedelta(hours=3))
        said = desk.call("status", "--check")
        assert said.exit_code == 2
        assert "upload_reservations stale" in said.stdout.splitlines()[0]

    def test_a_threshold_given_with_the_call_wins_over_the_settings(self, desk: Desk) -> None:
        desk.configure(stale_after="1h")
        desk.record(ago=timedelta(hours=3))
        given = ("--stale-after", "upload_reservations=4h")
        assert desk.call("status", "--check", *given).exit_code == 0
        assert job(desk, "upload_reservations", *given)["stale_after_seconds"] == 4 * 3600

    def test_a_threshold_for_a_job_outside_the_settings_makes_it_count(self, desk: Desk) -> None:
        desk.record()
        assert desk.call("status", "--check").exit_code == 0
        said = desk.call("status", "--check", "--stale-after", "storage_orphans=26h")
        assert said.exit_code == 2
        assert said.stdout.startswith("CRITICAL - storage_orphans never run")

    def test_only_dry_runs_of_a_job_configured_live_are_not_ok(self, desk: Desk) -> None:
        for day in range(42):
            desk.record(mode="dry", ago=timedelta(days=day))
        said = desk.call("status", "--check")
        assert said.exit_code == 2
        line = said.stdout.splitlines()[0]
        assert "mode: live" in line
        assert "42 recorded runs" in line
        assert job(desk)["last_live_success"] is None

    def test_a_failed_run_is_critical_and_its_first_line_is_the_reason(self, desk: Desk) -> None:
        desk.record(outcome="failed", error="the bucket said no\nand much more")
        line = desk.call("status", "--check").stdout.splitlines()[0]
        assert line == (
            "CRITICAL - upload_reservations failed: the last run failed: the bucket said no"
            f" (see {PAGE}#failed)"
        )

    def test_items_left_for_too_long_are_a_warning(self, desk: Desk) -> None:
        desk.configure(stale_after="1h")
        old = datetime.now(timezone.utc) - timedelta(days=3)
        desk.record(detail={"window": {"covers": "everything"}, "oldest_left": old.isoformat()})
        said = desk.call("status", "--check")
        assert said.exit_code == 1
        assert said.stdout.startswith("WARNING - upload_reservations behind")

    def test_jobs_outside_the_settings_do_not_count(self, desk: Desk) -> None:
        desk.record()
        desk.record("storage_orphans", outcome="failed")
        assert desk.call("status", "--check").exit_code == 0

    def test_runs_of_another_installation_do_not_count(self, desk: Desk) -> None:
        desk.record(installation="other")
        assert desk.call("status", "--check").exit_code == 2

    def test_settings_that_name_no_job_are_unknown_rather_than_healthy(self, desk: Desk) -> None:
        desk.document["jobs"] = {}
        desk.write()
        said = desk.call("status", "--check")
        assert said.exit_code == 3
        assert said.stdout.startswith("UNKNOWN - the settings name no job")

    def test_one_job_can_be_asked_for(self, desk: Desk) -> None:
        desk.configure("storage_orphans")
        desk.record()
        assert desk.call("status", "--check").exit_code == 2
        assert desk.call("status", "--check", "--job", "upload_reservations").exit_code == 0
        assert desk.call("status", "--check", "--job", "audit_seal").exit_code == 3

    def test_broken_settings_are_unknown_with_every_mistake(self, desk: Desk) -> None:
        desk.document["jobs"]["upload_reservations"]["limt"] = 3
        desk.write()
        said = desk.call("status", "--check")
        assert said.exit_code == 3
        assert said.stdout.startswith("UNKNOWN - ")
        assert "jobs.upload_reservations.limt" in said.stdout
        assert "did you mean limit?" in said.stderr

    def test_a_database_that_is_down_is_unknown_and_no_secret_is_shown(
        self, desk: Desk, unreachable: str
    ) -> None:
        said = desk.call("status", "--check")
        assert said.exit_code == 3
        assert said.stdout.startswith("UNKNOWN - Could not connect to PostgreSQL at 127.0.0.1:9")
        assert len(said.stdout.splitlines()) == 1
        assert unreachable not in said.output

    def test_missing_migrations_are_unknown_and_named(
        self, desk: Desk, empty_database_url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FILEJOBS_DATABASE_URL", empty_database_url)
        said = desk.call("status", "--check")
        assert said.exit_code == 3
        assert "0001_file.sql" in said.stdout
        assert "filejobs migrate" in said.stdout

    def test_a_database_of_a_newer_version_is_unknown(self, desk: Desk) -> None:
        desk.connection.execute(
            "INSERT INTO filejobs_migration (number, name, checksum) VALUES (9000, 'x.sql', 'y')"
        )
        said = desk.call("status", "--check")
        assert said.exit_code == 3
        assert "newer version" in said.stdout

    def test_a_secret_in_a_record_that_somebody_else_wrote_is_hidden(self, desk: Desk) -> None:
        desk.record(outcome="failed", error="postgresql://me:word-of-pass@db/files | refused")
        for arguments in (("--check",), ("--format", "json"), ()):
            said = desk.call("status", *arguments)
            assert "word-of-pass" not in said.output
            assert "refused" in said.output

    def test_a_bar_never_begins_performance_data(self, desk: Desk) -> None:
        desk.record(outcome="failed", error="a | b")
        assert "|" not in desk.call("status", "--check").stdout.splitlines()[0]


class TestVerdict:
    @pytest.mark.parametrize(
        ("severities", "exit_code"),
        [
            (["ok", "ok"], 0),
            (["ok", "warning"], 1),
            (["warning", "unknown"], 3),
            (["unknown", "critical"], 2),
            (["silent", "ok"], 0),
            (["silent"], 3),
            ([], 3),
        ],
    )
    def test_the_worst_that_somebody_asked_for_decides(
        self, severities: list[Severity], exit_code: int
    ) -> None:
        assert verdict_on([standing(severity) for severity in severities]).exit_code == exit_code


def standing(severity: Severity, **changes: Any) -> Standing:
    described: dict[str, Any] = {
        "job": "upload_reservations",
        "word": "ok",
        "severity": severity,
        "reason": "because",
        "configured": severity != "silent",
        "mode": "live",
        "stale_after": None,
        "last_run": None,
        "last_success": None,
        "last_live_success": None,
        "age": None,
        "consecutive_failures": 0,
        "stale": None,
        "behind": None,
        "running": None,
    }
    return Standing(**described | changes)


class TestWrongCalls:
    @pytest.mark.parametrize(
        ("given", "taught"),
        [
            ("upload_reservation=1h", "did you mean upload_reservations?"),
            ("upload_reservations=60", "60 has no unit"),
            ("upload_reservations=soon", "is not a duration"),
            ("upload_reservations=0s", "is not between"),
            ("upload_reservations=99999999d", "is not between"),
            ("upload_reservations", "write a job and a duration"),
        ],
    )
    def test_a_threshold_that_cannot_be_read_is_taught(
        self, desk: Desk, given: str, taught: str
    ) -> None:
        said = desk.call("status", "--check", "--stale-after", given)
        assert said.exit_code == 64
        assert taught in said.stderr
        assert said.stdout == ""

    def test_an_unknown_job_is_taught(self, desk: Desk) -> None:
        said = desk.call("status", "--job", "orphans")
        assert said.exit_code == 64
        assert "storage_orphans" in said.stderr


class TestTable:
    def test_every_job_stands_in_the_order_of_the_registry(self, desk: Desk) -> None:
        said = desk.call("status").stdout
        rows = [line.split()[0] for line in said.splitlines() if line.startswith(tuple(JOB_NAMES))]
        assert rows == list(JOB_NAMES)
        assert said.count("not in the settings") == len(JOB_NAMES) - 1

    def test_showing_a_critical_standing_is_no_failure_of_the_command(self, desk: Desk) -> None:
        assert desk.call("status").exit_code == 0

    def test_counts_that_are_not_known_read_unknown(self, desk: Desk) -> None:
        desk.record(outcome="failed", scanned=None, acted=None)
        assert "unknown / unknown" in desk.call("status").stdout

    def test_zero_is_shown_as_zero(self, desk: Desk) -> None:
        desk.record(scanned=0, acted=0)
        assert "0 / 0" in desk.call("status").stdout

    def test_what_is_no_terminal_gets_long_plain_lines(self, desk: Desk) -> None:
        error = "the reason " + "goes on " * 60 + "to the end"
        desk.record(outcome="failed", error=error)
        said = desk.call("status").stdout
        assert error in said
        assert "\x1b" not in said
        assert all(line == line.rstrip() for line in said.splitlines())

    def test_what_is_running_is_shown_with_its_last_sign_of_life(self, desk: Desk) -> None:
        desk.connection.execute(
            """
            INSERT INTO job_progress (run_id, installation, job, mode, trigger, holder, started_at,
                                      heartbeat_at)
            VALUES ('r', 'desk', 'upload_reservations', 'live', 'cli', 'a host',
                    now() - interval '12 minutes', now() - interval '3 minutes')
            """
        )
        said = desk.call("status").stdout
        assert "live, for 12m" in said
        assert "last sign of life 3m" in said
        assert job(desk)["running"]["holder"] == "a host"

    def test_square_brackets_in_an_error_are_not_taken_for_colours(self, desk: Desk) -> None:
        desk.record(outcome="failed", error="column [red]key[/red] and [/] are missing")
        assert "column [red]key[/red] and [/] are missing" in desk.call("status").stdout

    @pytest.mark.parametrize("width", [60, 80, 120, 200])
    def test_a_terminal_gets_colours_and_every_reason_at_any_width(self, width: int) -> None:
        screen = io.StringIO()
        out = Console(file=screen, width=width, force_terminal=True, color_system="standard")
        wrong = standing("critical", word="never run", reason="no run is recorded")
        print_standings(out, [wrong, standing("silent")], datetime.now(timezone.utc))
        said = screen.getvalue()
        assert "no run is recorded" in said
        assert "\x1b[1;31m" in said
        assert "…" not in said

    def test_no_color_is_respected(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NO_COLOR", "1")
        screen = io.StringIO()
        out = Console(file=screen, width=100, force_terminal=True)
        print_standings(out, [standing("critical")], datetime.now(timezone.utc))
        assert "\x1b[31" not in screen.getvalue()
        assert "\x1b[1;31" not in screen.getvalue()


class TestJson:
    def test_its_fields_are_the_documented_ones(self, desk: Desk) -> None:
        desk.configure(stale_after="1h")
        run_id = desk.record(scanned=None, acted=None)
        found = document(desk)
        assert list(found) == [
            "installation",
            "at",
            "verdict",
            "summary",
            "jobs",
            "besides",
            "settings",
            "muted",
        ]
        assert (found["installation"], found["verdict"]) == ("desk", "ok")
        shown = found["jobs"][0]
        assert list(shown) == [
            "job",
            "standing",
            "severity",
            "reason",
            "see",
            "configured",
            "mode",
            "stale",
            "stale_after_seconds",
            "behind",
            "age_seconds",
            "consecutive_failures",
            "last_run",
            "last_success",
            "last_live_success",
            "running",
        ]
        assert list(shown["last_run"]) == [
            "run_id",
            "started_at",
            "finished_at",
            "outcome",
            "mode",
            "scanned",
            "acted",
            "would_act",
            "error",
            "started_by",
        ]
        assert shown["last_run"]["run_id"] == run_id
        assert shown["last_run"]["scanned"] is None
        assert shown["stale"] is False
        assert 290 < shown["age_seconds"] < 400

    def test_a_job_outside_the_settings_claims_neither_mode_nor_staleness(self, desk: Desk) -> None:
        shown = job(desk, "audit_seal")
        assert (shown["configured"], shown["severity"]) == (False, "silent")
        assert (shown["mode"], shown["stale"], shown["age_seconds"]) == (None, None, None)

    def test_consecutive_failures_are_counted_since_the_last_success(self, desk: Desk) -> None:
        desk.record(outcome="failed", ago=timedelta(hours=9))
        desk.record(ago=timedelta(hours=8))
        for hours in (3, 2, 1):
            desk.record(outcome="failed", ago=timedelta(hours=hours))
        assert job(desk)["consecutive_failures"] == 3

    def test_it_stays_json_when_nothing_could_be_determined(
        self, desk: Desk, unreachable: str
    ) -> None:
        said = desk.call("status", "--format", "json", "--check")
        assert said.exit_code == 3
        found = json.loads(said.stdout)
        assert (found["verdict"], found["jobs"], found["at"]) == ("unknown", [], None)
        assert "Could not connect" in found["summary"]
        assert unreachable not in said.output


class TestPrometheus:
    def test_it_parses_and_carries_both_labels(self, desk: Desk) -> None:
        desk.record()
        said = desk.call("status", "--format", "prometheus")
        assert said.exit_code == 0
        families = {each.name: each for each in text_string_to_metric_families(said.stdout)}
        success = families["filejobs_job_last_success_timestamp_seconds"].samples
        assert [sample.labels for sample in success] == [
            {"installation": "desk", "job_name": "upload_reservations"}
        ]

    def test_with_check_it_stays_pure_and_exits_with_the_verdict(self, desk: Desk) -> None:
        said = desk.call("status", "--format", "prometheus", "--check")
        assert said.exit_code == 2
        assert said.stdout.startswith("# HELP filejobs_job_standing")

    def test_it_prints_nothing_rather_than_zeros_when_nothing_is_known(
        self, desk: Desk, unreachable: str
    ) -> None:
        said = desk.call("status", "--format", "prometheus")
        assert (said.exit_code, said.stdout) == (3, "")
        assert "Could not connect" in said.stderr
        assert unreachable not in said.stderr


def test_status_works_where_nothing_can_be_written(desk: Desk) -> None:
    desk.record()
    name = desk.connection.info.dbname
    desk.connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    assert desk.call("status", "--check").exit_code == 0


def test_a_threshold_for_a_job_that_changes_nothing_is_met_by_its_dry_runs(desk: Desk) -> None:
    desk.record("audit_verify", mode="dry", scanned=5, acted=0)
    desk.record()
    said = desk.call("status", "--check", "--stale-after", "audit_verify=1h")
    assert said.exit_code == 0, said.output
    assert "audit_verify ok" in said.stdout


def test_a_mirror_that_is_silent_is_critical_although_every_job_stands_well(desk: Desk) -> None:
    """The daemon is dead: what it recorded last is still fresh, and nothing new will come."""
    desk.record()
    looked = "INSERT INTO mirror_watermark (installation, read_until, wide_scan_at)"
    desk.connection.execute(f"{looked} VALUES ('other', now() - interval '2 hours', now())")
    desk.connection.execute(f"{looked} VALUES ('desk', now() - interval '10 minutes', now())")
    assert desk.call("status", "--check").exit_code == 0
    desk.connection.execute(
        "UPDATE mirror_watermark SET read_until = now() - interval '16 minutes'"
    )
    said = desk.call("status", "--check", "--job", "upload_reservations")
    assert said.exit_code == 2
    first, *lines = said.stdout.splitlines()
    assert first.startswith("CRITICAL - Nobody records what ran: the mirror of finished runs last")
    assert any(line.startswith("CRITICAL  Nobody records what ran") for line in lines)
    assert "Start Dagster's daemon" in said.stdout
    found = document(desk)
    assert found["verdict"] == "critical"
    assert [(each["kind"], each["job"]) for each in found["besides"]] == [("silent", None)]


def test_a_run_that_is_stuck_or_has_no_record_is_a_warning(desk: Desk) -> None:
    desk.record()
    columns = "run_id, installation, job, mode, trigger, holder, started_at, outcome, finished_at"
    desk.connection.execute(
        f"INSERT INTO job_progress ({columns}) VALUES"
        " ('hangs', 'desk', 'upload_reservations', 'live', 'schedule', 'host 4711',"
        " now() - interval '39 minutes', NULL, NULL),"
        " ('ended', 'desk', 'audit_verify', 'dry', 'schedule', 'host 4711',"
        " now() - interval '1 hour', 'ok', now() - interval '14 minutes')"
    )
    assert desk.call("status", "--check").exit_code == 0
    desk.connection.execute(
        "UPDATE job_progress SET started_at = started_at - interval '2 minutes',"
        " finished_at = finished_at - interval '2 minutes'"
    )
    said = desk.call("status", "--check")
    assert said.exit_code == 1
    assert said.stdout.startswith(
        "WARNING - upload_reservations has a run that is stuck: run hangs"
    )
    assert "audit_verify has a run that ended without its record: run ended" in said.stdout
    assert desk.call("status", "--check", "--job", "storage_orphans").exit_code == 3
    desk.record(outcome="failed")
    failed = desk.call("status", "--check")
    assert failed.exit_code == 2
    assert failed.stdout.startswith("CRITICAL - upload_reservations failed")


def test_what_an_operator_types_ends_in_the_anchor(desk: Desk) -> None:
    checked = desk.call("status", "--check").stdout
    assert checked.splitlines()[0].endswith(f"(see {PAGE}#never-run)")
    looked = desk.call("doctor").stdout
    assert f"        See {PAGE}#doctor-jobs" in looked
    desk.path.write_text("jobs: 1")
    broken = desk.call("status", "--check").stdout
    assert broken.splitlines()[0].endswith(f"(see {PAGE}#settings)")
