"""dagster.yaml makes an instance on PostgreSQL, and says to Dagster what its comments say."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
import yaml
from dagster import DagsterInstance, DagsterRun
from dagster._core.instance.ref import InstanceRef
from dagster._core.scheduler.instigation import TickStatus
from dagster._core.workspace.load import location_origins_from_yaml_paths

from filejobs_dagster.orchestration import storage

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECKOUT = Path(__file__).parents[2]


@pytest.fixture
def dagster_home(tmp_path: Path, empty_database_url: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copy(CHECKOUT / "dagster.yaml", tmp_path)
    monkeypatch.setenv("FILEJOBS_DAGSTER_URL", empty_database_url)
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def instance(dagster_home: Path) -> Iterator[DagsterInstance]:
    with DagsterInstance.from_config(str(dagster_home)) as instance:
        yield instance


def test_runs_events_and_schedules_are_kept_in_postgresql(instance: DagsterInstance) -> None:
    storages = (instance.run_storage, instance.event_log_storage, instance.schedule_storage)
    assert [type(storage).__name__ for storage in storages] == [
        "PostgresRunStorage",
        "PostgresEventLogStorage",
        "PostgresScheduleStorage",
    ]
    assert instance.get_runs_count() == 0


def test_a_job_has_one_place_in_the_queue_and_the_queue_survives_a_redeployment(
    instance: DagsterInstance,
) -> None:
    queue = instance.get_concurrency_config().run_queue_config
    assert queue is not None
    assert queue.max_concurrent_runs == 4
    assert queue.tag_concurrency_limits == [
        {"key": "filejobs/exclusive", "value": {"applyLimitPerUniqueValue": True}, "limit": 1}
    ]
    assert queue.max_user_code_failure_retries == 5
    assert queue.user_code_failure_retry_delay == 30


def test_a_run_that_nobody_works_on_is_ended(instance: DagsterInstance) -> None:
    assert instance.run_monitoring_enabled
    assert instance.run_monitoring_start_timeout_seconds == 120
    assert instance.run_monitoring_cancel_timeout_seconds == 60
    assert instance.run_monitoring_max_runtime_seconds == 86400
    assert instance.run_monitoring_poll_interval_seconds == 15


def test_crashes_are_retried_and_failures_are_not(instance: DagsterInstance) -> None:
    assert instance.run_retries_enabled
    assert instance.run_retries_max_retries == 1
    assert instance.run_retries_retry_on_asset_or_op_failure is False


def test_schedules_and_sensors_have_threads(instance: DagsterInstance) -> None:
    for daemon in ("schedules", "sensors"):
        assert instance.get_settings(daemon) == {"use_threads": True, "num_workers": 4}


def test_every_kind_of_tick_is_removed_some_day(instance: DagsterInstance) -> None:
    settings = instance.get_settings("retention")
    for kind in ("schedule", "sensor"):
        days = settings[kind]["purge_after_days"]
        ended = {TickStatus.SKIPPED, TickStatus.SUCCESS, TickStatus.FAILURE}
        assert {name.upper() for name in days} == {status.value for status in ended}
        assert all(number > 0 for number in days.values())


def test_nothing_is_sent_to_anybody(instance: DagsterInstance) -> None:
    assert instance.telemetry_enabled is False
    assert instance.nux_enabled is False


def test_the_command_line_loads_it_and_prints_no_address(dagster_home: Path) -> None:
    result = subprocess.run(
        [Path(sys.executable).with_name("dagster"), "instance", "info"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "PostgresRunStorage" in result.stdout
    assert os.environ["FILEJOBS_DAGSTER_URL"] not in result.stdout + result.stderr


def test_a_missing_address_is_one_sentence_that_says_what_to_type(
    dagster_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FILEJOBS_DAGSTER_URL")
    with pytest.raises(click.ClickException) as caught:
        DagsterInstance.from_config(str(dagster_home))
    assert f"is not set while DAGSTER_HOME is {dagster_home}: type `export" in str(caught.value)


def test_outside_of_a_checkout_nothing_is_kept_in_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "CHECKOUT", tmp_path)
    for variable in ("FILEJOBS_DAGSTER_URL", "DAGSTER_HOME"):
        monkeypatch.delenv(variable, raising=False)
    ref = InstanceRef.from_dir(str(tmp_path), config_dir=str(CHECKOUT))
    with pytest.raises(click.ClickException, match="FILEJOBS_DAGSTER_URL is not set: type"):
        DagsterInstance.from_ref(ref)
    assert list(tmp_path.iterdir()) == []


def test_a_checkout_with_nothing_set_keeps_its_runs_in_files_for_the_next_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "CHECKOUT", tmp_path)
    (tmp_path / "dagster.yaml").touch()
    for variable in ("FILEJOBS_DAGSTER_URL", "DAGSTER_HOME"):
        monkeypatch.delenv(variable, raising=False)
    run = DagsterRun(job_name="upload_reservations")
    for folder in ("one", "another"):
        # Dagster's commands each make a temporary home of their own.
        ref = InstanceRef.from_dir(str(tmp_path / folder), config_dir=str(CHECKOUT))
        with DagsterInstance.from_ref(ref) as instance:
            if folder == "one":
                instance.add_run(run)
            assert [found.run_id for found in instance.get_runs()] == [run.run_id]
            assert type(instance.run_coordinator).__name__ == "AttributingRunCoordinator"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("job list", "Job: upload_reservations"),
        ("definitions validate", "All code locations passed validation."),
        (
            "job execute -m filejobs_dagster.definitions -j upload_reservations",
            "(line 20): the environment variable FILEJOBS_DATABASE_URL is not set; set",
        ),
    ],
)
def test_dagsters_own_words_work_in_a_fresh_checkout_with_nothing_set(
    tmp_path: Path, words: str, says: str
) -> None:
    fresh = tmp_path / "fresh"
    subprocess.run(["git", "clone", "--quiet", CHECKOUT, fresh], check=True)
    said = subprocess.run(
        [Path(sys.executable).with_name("dagster"), *words.split()],
        cwd=fresh,
        env={"PATH": os.defpath, "HOME": str(tmp_path), "PYTHONPATH": str(fresh)},
        capture_output=True,
        text=True,
        check=False,
    )
    printed = said.stdout + said.stderr
    assert says in printed, printed
    assert (said.returncode == 0) is ("execute" not in words)
    assert "FILEJOBS_DAGSTER_URL" not in printed


def test_both_workspaces_name_the_same_location(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FILEJOBS_CODE_HOST", "127.0.0.1")
    monkeypatch.setenv("FILEJOBS_CODE_PORT", "4000")
    for workspace in ("workspace.yaml", "deploy/settings/workspace.yaml"):
        origins = location_origins_from_yaml_paths([str(CHECKOUT / workspace)])
        assert [origin.location_name for origin in origins] == ["filejobs"]


def test_the_workspace_of_a_checkout_names_the_module_that_pyproject_names() -> None:
    workspace = yaml.safe_load((CHECKOUT / "workspace.yaml").read_text())
    (location,) = workspace["load_from"]
    assert location["python_module"]["module_name"] == "filejobs_dagster.definitions"
    assert (
        'module_name = "filejobs_dagster.definitions"' in (CHECKOUT / "pyproject.toml").read_text()
    )
