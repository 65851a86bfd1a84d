"""Reservations per second: the project's collector against the row-by-row version."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks import reservations
from benchmarks.collector import NotTheSameWork, collect
from benchmarks.measurement import Measurement, Value, more
from benchmarks.row_by_row import collect_row_by_row
from filejobs_dagster.jobs.upload_reservations import UploadReservationsRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.scale import Scale
    from benchmarks.surroundings import Surroundings
    from filejobs_dagster.embedded.s3 import S3Endpoint

NAME = "throughput"
SUMMARY = "reservations per second, against one transaction and one DeleteObject per row"

NETWORK_MILLISECONDS = 10
"""What an answer of object storage in the same region takes, in the order of magnitude."""

OTHERS = 50
"""Other objects for each reservation's, so many that no listing pays."""

BATCH_SIZE = 500
"""The default of the settings."""


@dataclass(frozen=True)
class Place:
    """Where both sides do the same work.

    Attributes:
        server: The object storage.
        called: What the table calls it.
        count: Reservations, each with an object.
        note: What limits both sides there; may be empty.
        sizes: Where sizes come from there.
        others: Objects of other files that lie between those of the reservations, for each.
    """

    server: S3Endpoint
    called: str
    count: int
    note: str = ""
    sizes: str = "sizes come from a listing, since the objects lie together"
    others: int = 0


def run(surroundings: Surroundings, scale: Scale) -> Iterator[Measurement]:
    """Compare on each server, with and without asking for sizes."""
    for place in _places(surroundings, scale):
        plain = _row_by_row(surroundings, place)
        if place.others:
            yield _compared(surroundings, place, plain, count_bytes=True)
            continue
        for count_bytes in (True, False):
            yield _compared(surroundings, place, plain, count_bytes=count_bytes)


def _compared(
    surroundings: Surroundings, place: Place, plain: Value, *, count_bytes: bool
) -> Measurement:
    ours = _collector(surroundings, place, count_bytes=count_bytes)
    sizes = "with sizes (default)" if count_bytes else "without sizes"
    return Measurement(
        benchmark=NAME,
        what=f"collecting {place.count:,} reservations, {sizes}, {place.called}",
        measured=ours,
        compared=plain,
        ratio=more(ours, plain),
        reading="times as fast",
        note="; ".join(filter(None, [place.note, place.sizes if count_bytes else ""])),
    )


def _places(surroundings: Surroundings, scale: Scale) -> Iterator[Place]:
    yield Place(
        surroundings.canned(NETWORK_MILLISECONDS),
        f"canned S3, answers after {NETWORK_MILLISECONDS} ms",
        scale.reservations_with_latency,
    )
    yield Place(
        surroundings.canned(NETWORK_MILLISECONDS),
        f"the same among {OTHERS} times as many other objects",
        scale.reservations_with_latency,
        sizes="each size is a HEAD of its own, whose cost in botocore is the limit",
        others=OTHERS,
    )
    yield Place(
        surroundings.canned(),
        "canned S3, answers at once",
        scale.reservations,
        "no network: the client's own work is all there is",
    )
    yield Place(
        surroundings.moto,
        "moto",
        scale.reservations_on_moto,
        "moto answers slowly, and more so for each object",
    )


def _row_by_row(surroundings: Surroundings, place: Place) -> Value:
    def work(database_url: str, bucket: str) -> int:
        return collect_row_by_row(database_url, place.server.client(), bucket)

    return _timed(surroundings, place, "row by row", work)


def _collector(surroundings: Surroundings, place: Place, *, count_bytes: bool) -> Value:
    request = UploadReservationsRun(
        limit=place.count, batch_size=BATCH_SIZE, count_bytes=count_bytes
    )

    def work(database_url: str, bucket: str) -> int:
        return collect(database_url, place.server, bucket, request).acted or 0

    return _timed(surroundings, place, "the collector", work)


def _timed(
    surroundings: Surroundings, place: Place, who: str, work: Callable[[str, str], int]
) -> Value:
    """Time one side on data of its own, and make sure that it did all of the work.

    Raises:
        NotTheSameWork: A row or an object is left.
    """
    database_url = surroundings.database()
    reservations.reserve(database_url, place.count)
    bucket = f"uploads-{time.monotonic_ns()}"
    wanted = reservations.keys(database_url)
    others = reservations.other_keys(place.count * place.others)
    reservations.store(place.server, bucket, [*wanted, *others])
    begun = time.perf_counter()
    done = work(database_url, bucket)
    seconds = time.perf_counter() - begun
    rows = reservations.rows_left(database_url)
    objects = reservations.objects_left(place.server, bucket)
    if (done, rows, objects) != (place.count, 0, len(others)):
        raise NotTheSameWork(
            f"Of {place.count} reservations {who} reports {done} as collected; {rows} rows and "
            f"{objects} objects are left, {len(others)} of which belong to others."
        )
    return Value(place.count / seconds, "reservations/s", who)
