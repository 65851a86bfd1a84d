"""From the end of a run to its row in `job_run`, with real processes."""

from __future__ import annotations

import statistics
import subprocess
import time
from typing import TYPE_CHECKING

import dagster as dg
import psycopg

from benchmarks.collector import NotTheSameWork
from benchmarks.installation import Installation
from benchmarks.measurement import Measurement, Value, more, readable
from filejobs_dagster.orchestration.sensors import all_sensors
from filejobs_dagster.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dagster._core.scheduler.instigation import InstigatorState

    from benchmarks.scale import Scale
    from benchmarks.surroundings import Surroundings

NAME = "delay"
SUMMARY = "from the end of a run to its row in job_run, with Dagster's daemon at work"

WAKER = "job_run_mirror_success"
"""The sensor that is woken by the end of such a run."""

SECONDS_TO_RECORD = 180
SECONDS_BETWEEN_LOOKS = 0.05
SECONDS_BETWEEN_RUNS = 3


def run(surroundings: Surroundings, scale: Scale) -> Iterator[Measurement]:
    """The daemon with its sensors, and runs of `dagster job execute` beside it."""
    count = scale.runs_watched
    installation = Installation.make(surroundings)
    # Makes Dagster's tables before two processes want to at once.
    with installation.instance() as instance, installation.daemon():
        _wait_for_first_tick(instance)
        taken = delays(installation, instance, count)
    measured = Value(statistics.median(taken), "s", "end of the run to its row, median")
    compared = Value(interval(installation), "s", f"interval of the sensor {WAKER}")
    yield Measurement(
        benchmark=NAME,
        what="from the end of a run to its row in job_run, daemon at work",
        measured=measured,
        compared=compared,
        ratio=more(measured, compared),
        reading="intervals",
        note=f"{count} runs of dagster job execute, the slowest {readable(max(taken))} s",
    )


def delays(installation: Installation, instance: dg.DagsterInstance, count: int) -> list[float]:
    """Start runs one after the other, and note when the row of each appears.

    Raises:
        NotTheSameWork: A run has no row after minutes.
    """
    seen: dict[str, float] = {}
    deadline = time.monotonic() + SECONDS_TO_RECORD
    started: list[subprocess.Popen[bytes]] = []
    next_start = time.monotonic()
    with psycopg.connect(installation.database_url, autocommit=True) as connection:
        while len(seen) < count:
            if len(started) < count and time.monotonic() >= next_start:
                started.append(_start(installation))
                next_start = time.monotonic() + SECONDS_BETWEEN_RUNS
            for (run_id,) in connection.execute("SELECT run_id FROM job_run"):
                seen.setdefault(run_id, time.time())
            if time.monotonic() > deadline:
                raise NotTheSameWork(f"Only {len(seen)} of {count} runs have their row.")
            time.sleep(SECONDS_BETWEEN_LOOKS)
    for process in started:
        process.wait()
    ended = {
        record.dagster_run.run_id: record.end_time
        for record in instance.get_run_records(dg.RunsFilter(run_ids=list(seen)))
    }
    return [max(0.0, seen[run_id] - (ended[run_id] or 0.0)) for run_id in seen]


def _start(installation: Installation) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        installation.execute(),
        env=installation.environment,
        cwd=installation.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _wait_for_first_tick(instance: dg.DagsterInstance) -> None:
    """A run-status sensor skips what was before its first tick.

    Raises:
        NotTheSameWork: The daemon does not evaluate sensors.
    """
    deadline = time.monotonic() + SECONDS_TO_RECORD
    while time.monotonic() < deadline:
        states = instance.all_instigator_state()
        ticked = {state.instigator_name for state in states if _has_ticked(instance, state)}
        if WAKER in ticked:
            return
        time.sleep(SECONDS_BETWEEN_LOOKS)
    raise NotTheSameWork("The daemon evaluated no sensor within minutes.")


def _has_ticked(instance: dg.DagsterInstance, state: InstigatorState) -> bool:
    return bool(instance.get_ticks(state.instigator_origin_id, state.selector_id, limit=1))


def interval(installation: Installation) -> float:
    """Seconds between two ticks of the sensor, as the definitions say."""
    loaded = read_settings(installation.folder / "filejobs.yaml", installation.environment)
    [seconds] = [
        sensor.minimum_interval_seconds
        for sensor in all_sensors(loaded, {})
        if sensor.name == WAKER
    ]
    return float(seconds or 0)
