"""Orphans removed per second by the gate, against a SELECT and a DeleteObject for each key."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from benchmarks import reservations
from benchmarks.canned_s3 import SIZE
from benchmarks.collector import NotTheSameWork
from benchmarks.measurement import Measurement, Value, more
from benchmarks.sweeping import conducted
from filejobs_dagster.jobs.storage_orphans import StorageOrphansRun
from filejobs_dagster.ledger.outcome import Outcome
from filejobs_dagster.objects.deletion_mode import DeletionMode
from filejobs_dagster.objects.targets import Expected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.canned_process import CannedS3Process
    from benchmarks.scale import Scale
    from benchmarks.surroundings import Surroundings
    from filejobs_dagster.jobs.storage_orphans import Storage
    from filejobs_dagster.objects.deletion_mode import ConditionalDelete
    from filejobs_dagster.run_context import RunContext

NAME = "orphans_removal"
SUMMARY = "orphans removed per second, against a SELECT and a DeleteObject for each key"

NETWORK_MILLISECONDS = 10
BATCH = 1000
ETAG = "0"
"""Of every object of the canned server."""

_NAMED = "SELECT FROM file WHERE storage_key = %s"


@dataclass(frozen=True)
class Way:
    """How the gate removes on one server.

    Attributes:
        milliseconds: For which each answer is held back.
        conditional: What the server makes of a condition, as if the probe had found it.
        called: For the table.
    """

    milliseconds: int
    conditional: ConditionalDelete
    called: str


WAYS = (
    Way(
        NETWORK_MILLISECONDS,
        "honoured",
        f"a thousand to a request, canned S3, after {NETWORK_MILLISECONDS} ms",
    ),
    Way(
        NETWORK_MILLISECONDS,
        "single only",
        f"one to a request, where only that obeys a condition, after {NETWORK_MILLISECONDS} ms",
    ),
    Way(0, "honoured", "a thousand to a request, canned S3, answers at once"),
)


def run(surroundings: Surroundings, scale: Scale) -> Iterator[Measurement]:
    """Compare in each way."""
    count = scale.orphans_removed
    for way in WAYS:
        server = surroundings.canned(way.milliseconds)

        def by_gate(database_url: str, bucket: str, keys: list[str], way: Way = way) -> None:
            _by_gate(database_url, surroundings.canned(way.milliseconds), bucket, keys, way)

        def one_by_one(database_url: str, bucket: str, keys: list[str], way: Way = way) -> None:
            _one_by_one(database_url, surroundings.canned(way.milliseconds), bucket, keys)

        ours = _timed(surroundings, server, count, "the gate", by_gate)
        plain = _timed(surroundings, server, count, "SELECT and DeleteObject", one_by_one)
        yield Measurement(
            benchmark=NAME,
            what=f"removing {count:,} orphans, {way.called}",
            measured=ours,
            compared=plain,
            ratio=more(ours, plain),
            reading="times as fast",
            note="the gate looks at each object again right before, and asks every source",
        )


def _timed(
    surroundings: Surroundings,
    server: CannedS3Process,
    count: int,
    who: str,
    work: Callable[[str, str, list[str]], None],
) -> Value:
    """Time one side on data of its own, half of which is referenced and must stay.

    Raises:
        NotTheSameWork: An orphan is left, or an object that is referenced is not.
    """
    database_url = surroundings.database()
    reservations.reserve(database_url, count)
    named = reservations.keys(database_url)
    orphans = reservations.other_keys(count)
    bucket = f"removal-{time.monotonic_ns()}"
    reservations.store(server, bucket, [*named, *orphans])
    begun = time.perf_counter()
    work(database_url, bucket, orphans)
    seconds = time.perf_counter() - begun
    left = reservations.objects_left(server, bucket)
    surroundings.drop(database_url)
    if left != len(named):
        raise NotTheSameWork(f"{who} leaves {left} objects, and {len(named)} are referenced.")
    return Value(count / seconds, "orphans/s", who)


def _by_gate(
    database_url: str, server: CannedS3Process, bucket: str, keys: list[str], way: Way
) -> None:
    def work(context: RunContext, _request: StorageOrphansRun, storage: Storage) -> Outcome:
        deletion_mode = DeletionMode(conditional=way.conditional)
        removed = 0
        for start in range(0, len(keys), BATCH):
            orphans = [Expected(key.encode(), ETAG, SIZE, -1) for key in keys[start:][:BATCH]]
            removal = storage.gate.remove(orphans, context.prove_alive, deletion_mode)
            removed += len(removal.deleted)
        return Outcome(scanned=len(keys), acted=removed)

    conducted(database_url, server, bucket, StorageOrphansRun(), work, mode="live")


def _one_by_one(database_url: str, server: CannedS3Process, bucket: str, keys: list[str]) -> None:
    """What a script does: ask for each key, and delete its object when no row has it."""
    client = server.client()
    with psycopg.connect(database_url, autocommit=True) as connection:
        for key in keys:
            if connection.execute(_NAMED, (key,)).fetchone() is None:
                client.delete_object(Bucket=bucket, Key=key)
