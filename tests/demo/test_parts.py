"""The demo's parts that need no server."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest
import yaml

from filejobs_dagster.demo import web
from filejobs_dagster.demo.configuration import LIVE_CONFIG, SETTINGS, shipped_instance
from filejobs_dagster.demo.feature import NAMES, SMALL, invent
from filejobs_dagster.demo.place import DemoPlace
from filejobs_dagster.demo.processes import Recorded, end, read_record, write_record
from filejobs_dagster.demo.record import highlights
from filejobs_dagster.demo.screen import DemoFailed
from filejobs_dagster.demo.serving import is_loopback
from filejobs_dagster.demo.story import _job_lines
from filejobs_dagster.settings import read_settings

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 1, 2, 3, 4, tzinfo=timezone.utc)
RUN = "741d720a-b9f2-4900-803c-05bd06dcecd2"


def test_a_folder_that_holds_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    place = DemoPlace.at(tmp_path)
    with pytest.raises(DemoFailed, match="it holds something else"):
        place.make_empty()
    with pytest.raises(DemoFailed, match="it holds something else"), place.locked():
        pass
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]


def test_an_old_demo_is_emptied_and_links_in_it_are_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    place = DemoPlace.at(tmp_path / "state")
    place.make_empty()
    place.loaded.touch()
    (place.home / "link").symlink_to(precious)
    place.make_empty()
    assert not place.loaded.exists()
    assert (precious / "file").exists()
    assert {entry.name for entry in place.home.iterdir()} == {"README", "logs", "dagster_home"}


def test_a_second_command_in_the_same_folder_is_refused_and_told_who_works(tmp_path: Path) -> None:
    place = DemoPlace.at(tmp_path / "state")
    with (
        place.locked(),
        pytest.raises(DemoFailed, match=f"process {os.getpid()} is setting up"),
        place.locked(),
    ):
        pass
    with place.locked():
        assert place.lock.read_text() == f"{os.getpid()}\n"


def test_a_process_is_ended_only_if_it_really_is_the_recorded_one() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        recorded = Recorded.of("sleeper", process.pid)
        strangers = [
            replace(recorded, began=recorded.began - 60),
            replace(recorded, command=("postgres", "-D", "/somewhere")),
        ]
        assert end(strangers, patience=5) == []
        assert process.poll() is None
        assert end([recorded], patience=5) == [recorded]
        assert process.wait(5) != 0
        assert end([recorded], patience=5) == []
    finally:
        process.kill()
        process.communicate()


def test_a_child_that_outlives_its_recorded_parent_is_ended_too() -> None:
    child = "import time; print(flush=True); time.sleep(600)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    process = subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    children = Recorded.of("parent", process.pid).process().children()  # type: ignore[union-attr]
    assert len(children) == 1
    end([Recorded.of("parent", process.pid)], patience=5)
    assert process.stdout.read() == b"", "the pipe closes when its last holder has ended"
    process.communicate()


def test_a_record_is_read_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    assert read_record(path) is None
    path.write_text('{"keeper": {"pid"')
    assert read_record(path) is None
    write_record(path, {"keeper": 1})
    assert read_record(path) == {"keeper": 1}


def test_a_busy_port_is_named_and_a_free_one_is_proposed() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(DemoFailed) as failure:
            web.must_be_free("127.0.0.1", port)
    assert f"port {port}" in failure.value.tried
    proposed = int(failure.value.advice.split()[2].rstrip(","))
    assert proposed > port
    web.must_be_free("127.0.0.1", proposed)


@pytest.mark.parametrize(
    ("host", "only_this_machine"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.1.4", False),
        ("files.example.com", False),
    ],
)
def test_only_loopback_is_taken_for_safe(host: str, *, only_this_machine: bool) -> None:
    assert is_loopback(host) is only_this_machine


def test_only_the_jobs_own_lines_are_shown_and_everything_is_kept(tmp_path: Path) -> None:
    head = f"2026-11-29 18:13:33 +0000 - dagster - {{}} - upload_reservations - {RUN} - "
    lines = [
        "core.py:911: SupersessionWarning: Use 'dg launch' instead.",
        head.format("DEBUG") + '31768 - RUN_START - Started execution of run for "x".',
        head.format("INFO") + "upload_reservations - batch 1: scanned 100, 0 left",
        "\x1b[34m" + head.format("WARNING") + "upload_reservations - \x1b[0mno luck",
    ]
    text = "".join(f"{line}\n" for line in lines)
    process = subprocess.Popen(
        [sys.executable, "-c", f"print({text!r}, end='')"], stdout=subprocess.PIPE, text=True
    )
    log = tmp_path / "log"
    assert list(_job_lines(process, log)) == ["batch 1: scanned 100, 0 left", "no luck"]
    process.communicate()
    assert log.read_text() == text.replace("\x1b[34m", "").replace("\x1b[0m", "")


def test_the_file_feature_is_the_same_every_time_and_moves_with_the_clock() -> None:
    first, second = invent(NOW, SMALL), invent(NOW, SMALL)
    assert first == second
    later = invent(NOW + timedelta(days=400), SMALL)
    assert [row.id for row in later.rows] == [row.id for row in first.rows]
    due = [row.upload_expires_at for row in first.expired]
    assert None not in due
    assert all(moment < NOW for moment in due if moment is not None)
    assert len(first.expired) == SMALL.expired
    live = [row for row in first.rows if row.upload_expires_at and row.upload_expires_at > NOW]
    assert len(live) == SMALL.live
    keys = [row.storage_key for row in first.rows] + first.orphans
    assert len(set(keys)) == len(keys)
    assert all(any(key.endswith(f"/{name}") for key in keys) for name in NAMES)


def test_the_demos_settings_are_right(tmp_path: Path) -> None:
    path = tmp_path / "filejobs.yaml"
    path.write_text(
        SETTINGS.format(
            installation="demo",
            backfill_from="2026-01-01",
            bucket="demo-uploads",
            endpoint="http://127.0.0.1:40000",
            batch_size=100,
            pins="/somewhere/it''s/pins",
        )
    )
    names = ("FILEJOBS_DATABASE_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    loaded = read_settings(path, dict.fromkeys(names, "value"))
    assert loaded.problems == ()
    assert loaded.require().jobs["upload_reservations"].mode == "live"
    config = yaml.safe_load(LIVE_CONFIG)["ops"]["upload_reservations"]["config"]
    assert config == {"dry_run": False}


def test_the_instance_of_the_demo_is_the_one_that_is_shipped() -> None:
    storage = yaml.safe_load(shipped_instance())["storage"]["custom"]
    assert storage["config"] == {"postgres_url": {"env": "FILEJOBS_DAGSTER_URL"}}


def test_what_is_unknown_is_not_shown_as_zero() -> None:
    assert highlights("dry", {}) == "would collect unknown, would free unknown"
    assert "objects left unknown" in highlights("live", {})


def test_the_daemons_noise_is_not_shown_and_an_alarm_is_shown_once(tmp_path: Path) -> None:
    said: list[str] = []
    watched = web.Web(DemoPlace.at(tmp_path / "state"), {}, said.append)
    alarm = "filejobs_dagster.orchestration.sensors.JobsNeedAttention: 1 job needs attention"
    head = "2026-11-29 18:13:33 +0000 - dagster.daemon.SensorDaemon - "
    for line in (
        head + "INFO - Checking for new runs",
        "2026-11-29 18:13:33 +0000 - dagster - WARNING - job_definition.py:289: BetaWarning: beta",
        head + "ERROR - Sensor daemon caught an error for sensor job_freshness",
        alarm,
        alarm,
        head + "INFO - Completed launch of run 1 for a_schedule",
    ):
        watched._show("daemon: " + web._HEAD.sub("", line), line)
    assert said == [
        "daemon: JobsNeedAttention: 1 job needs attention",
        "daemon: dagster.daemon.SensorDaemon - INFO - Completed launch of run 1 for a_schedule",
    ]
