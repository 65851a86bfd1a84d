"""What the application's own inserts lose while a collector works: the slowest hundredth."""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING

import psycopg

from benchmarks import child, reservations
from benchmarks.collector import NotTheSameWork
from benchmarks.measurement import Measurement, Value, more, readable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from subprocess import Popen

    from benchmarks.scale import Scale
    from benchmarks.surroundings import Surroundings

NAME = "inserts"
SUMMARY = "the 99th percentile of the application's inserts, with a collector at work and without"

INSERTS_PER_SECOND = 200
COLLECTED_PER_SECOND = 10_000
"""More than a collector manages, so that it has work until the end."""

SECONDS_TO_BEGIN = 60
SECONDS_BETWEEN_LOOKS = 0.02
PERCENT = 100
MILLISECONDS = 1000

_INSERT = """
INSERT INTO file (storage_key, upload_expires_at)
VALUES ('files/' || gen_random_uuid(), now() + interval '1 day')
"""


def run(surroundings: Surroundings, scale: Scale) -> Iterator[Measurement]:
    """Insert at a steady rate: without a collector, with one, and without again."""
    database_url = surroundings.database()
    backlog = max(1000, round(scale.seconds_of_inserts * COLLECTED_PER_SECOND))
    reservations.reserve(database_url, backlog)
    with psycopg.connect(database_url, autocommit=True) as connection:
        before = _latencies(connection, scale.seconds_of_inserts / 2)
        collector = _start_collector(surroundings, database_url, backlog)
        try:
            begun = _collected(connection)
            with_collector = _latencies(
                connection, scale.seconds_of_inserts, lambda: collector.poll() is None
            )
            collected = _collected(connection) - begun
        finally:
            collector.terminate()
            collector.wait()
        after = _latencies(connection, scale.seconds_of_inserts / 2)
    if collected <= 0:
        raise NotTheSameWork("The collector collected nothing while the application inserted.")
    yield _measurement(with_collector, before + after, collected)
    surroundings.drop(database_url)


def _measurement(with_collector: list[float], without: list[float], collected: int) -> Measurement:
    measured = Value(_slowest_hundredth(with_collector), "ms", "p99 with a collector")
    compared = Value(_slowest_hundredth(without), "ms", "p99 without")
    seconds = len(with_collector) / INSERTS_PER_SECOND
    medians = (
        f"median {readable(statistics.median(with_collector) * MILLISECONDS)} ms against "
        f"{readable(statistics.median(without) * MILLISECONDS)} ms"
    )
    return Measurement(
        benchmark=NAME,
        what=f"p99 of {INSERTS_PER_SECOND} inserts a second, collector at full speed",
        measured=measured,
        compared=compared,
        ratio=more(measured, compared),
        reading="times as slow",
        note=f"{medians}; it collected {readable(collected / seconds)} reservations/s meanwhile",
    )


def _latencies(
    connection: psycopg.Connection, seconds: float, going: Callable[[], bool] = lambda: True
) -> list[float]:
    """Insert at the rate, and take each time from when the insert was due.

    An insert that had to wait for a slow one before it was slow, too: a client would have felt it.
    """
    found: list[float] = []
    begun = time.perf_counter()
    for number in range(max(1, round(seconds * INSERTS_PER_SECOND))):
        due = begun + number / INSERTS_PER_SECOND
        time.sleep(max(0.0, due - time.perf_counter()))
        if not going():
            break
        connection.execute(_INSERT)
        found.append(time.perf_counter() - due)
    return found


def _slowest_hundredth(latencies: list[float]) -> float:
    """The 99th percentile, in milliseconds."""
    return statistics.quantiles(latencies, n=PERCENT, method="inclusive")[-1] * MILLISECONDS


def _start_collector(surroundings: Surroundings, database_url: str, limit: int) -> Popen[str]:
    """Start one, and return when it has collected its first batch.

    Raises:
        NotTheSameWork: It never did.
    """
    server = surroundings.canned()
    bucket = f"inserts-{time.monotonic_ns()}"
    reservations.store(server, bucket, reservations.keys(database_url))
    task = child.Task(database_url, server.endpoint_url, bucket, limit)
    process = child.start(surroundings, task)
    deadline = time.monotonic() + SECONDS_TO_BEGIN
    with psycopg.connect(database_url, autocommit=True) as connection:
        while not _collected(connection):
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                process.wait()
                raise NotTheSameWork("The collector's process ended before it collected.")
            time.sleep(SECONDS_BETWEEN_LOOKS)
    return process


def _collected(connection: psycopg.Connection) -> int:
    row = connection.execute("SELECT coalesce(sum(acted), 0) FROM job_progress").fetchone()
    return 0 if row is None else int(row[0])
