"""Copies in quarantine, many against few: their end, and what a dry restore of them would bring."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg

from benchmarks import reservations
from benchmarks.collector import NotTheSameWork
from benchmarks.installation import Installation
from benchmarks.measurement import Measurement, Value, more
from benchmarks.orphans_child import Task, search
from filejobs_dagster.audit.append import append
from filejobs_dagster.door.adoption import AdoptionTarget, adopt
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.objects.targets import QUARANTINE
from filejobs_dagster.postgres.connect import Database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.scale import Scale
    from benchmarks.surroundings import Surroundings

NAME = "quarantined"
SUMMARY = "memory and speed over copies in quarantine, many against few"

RUN = "00000000-0000-0000-0000-000000000001"
NAMED_OF = 100
"""One of so many copies is named again, and stays."""

BATCH = 500
AT_ONCE = 50_000
KILOBYTES = 1024


def run(surroundings: Surroundings, scale: Scale) -> Iterator[Measurement]:
    """Compare a dry restore of all, then their end."""
    for what, measured in (("a dry restore of", _restored), ("the end of", _expired)):
        (few, _), (many, speed) = (
            measured(surroundings, count) for count in (scale.few_copies, scale.many_copies)
        )
        yield Measurement(
            benchmark=NAME,
            what=f"{what} {scale.many_copies:,} copies in quarantine, canned S3",
            measured=many,
            compared=few,
            ratio=more(many, few),
            reading="times the memory",
            note=f"{speed:,.0f} copies/s",
        )


def _fill(surroundings: Surroundings, bucket: str, originals: list[str]) -> None:
    server = surroundings.canned()
    for start in range(0, len(originals), AT_ONCE):
        some = originals[start : start + AT_ONCE]
        server.load(bucket, [f"{QUARANTINE}{key}~{'0' * 16}" for key in some])


def _peak(kilobytes: int, count: int) -> Value:
    return Value(kilobytes / KILOBYTES, "MiB", f"{count:,} copies")


def _expired(surroundings: Surroundings, count: int) -> tuple[Value, float]:
    """Let all go in a process of its own.

    Raises:
        NotTheSameWork: A copy is left that nothing names, or one that is named is not.
    """
    database_url = surroundings.database()
    reservations.reserve(database_url, named := count // NAMED_OF)
    bucket = f"expired-{count}"
    reservations.store(surroundings.canned(), bucket, [])
    originals = reservations.other_keys(count - named)
    _fill(surroundings, bucket, [*originals, *reservations.keys(database_url)])
    endpoint = surroundings.canned().endpoint_url
    done = search(surroundings, Task("expire", database_url, endpoint, bucket=bucket))
    surroundings.drop(database_url)
    if (done.objects, done.orphans) != (count, count - named):
        raise NotTheSameWork(f"Of {count} copies {named} are named, and its end reports {done}.")
    return _peak(done.peak_kilobytes, count), count / done.seconds


def _restored(surroundings: Surroundings, count: int) -> tuple[Value, float]:
    """Call the command as people do, for a run that took all of them.

    Raises:
        NotTheSameWork: It would not bring all of them back.
    """
    installation = Installation.make(surroundings)
    settings = installation.settings
    (bucket,) = settings.buckets.values()
    originals = reservations.other_keys(count)
    _fill(surroundings, bucket.bucket, originals)
    database = Database.of(settings.database)
    os.environ.update(surroundings.canned().environment())
    with closing(make_client(bucket)) as client, closing(database.connect("fill")) as connection:
        adopt(AdoptionTarget.of(settings, bucket, client, database, connection), by=NAME)
        for start in range(0, count, BATCH):
            intent = {
                "kind": "objects.delete.intent",
                "job": "storage_orphans",
                "run_id": RUN,
                "bucket": bucket.bucket,
                "batch": start // BATCH,
                "keys": originals[start : start + BATCH],
            }
            with database.transaction(connection) as cursor:
                append(cursor, [intent])
    with psycopg.connect(installation.database_url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE audit_event")
    said = installation.folder / "said.json"
    command = [sys.executable, "-m", "filejobs_dagster.cli", "restore", "--run", RUN]
    command += ["--limit", str(count), "--format", "json"]
    begun = time.perf_counter()
    with said.open("wb") as out:
        # Of this child alone, wait4 says how much it took.
        process = os.posix_spawn(
            sys.executable,
            command,
            dict(installation.environment),
            file_actions=[(os.POSIX_SPAWN_DUP2, out.fileno(), 1)],
        )
        _, status, usage = os.wait4(process, 0)
    seconds = time.perf_counter() - begun
    found = json.loads(said.read_text() or "{}")
    if status or found["would_restore"] != count:
        raise NotTheSameWork(f"Of {count} copies, a restore that ended with {status} says {found}.")
    return _peak(usage.ru_maxrss, count), count / seconds
