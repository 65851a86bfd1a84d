"""What stands in the database when the runs are over: records, standings, audit events.

They are shown as tables and sentences, and `verify` looks up in database and bucket what must be
true after the live run.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from filejobs_dagster.audit.append import COLLECTORS_CHAIN
from filejobs_dagster.demo.configuration import BUCKET
from filejobs_dagster.demo.screen import DemoFailed
from filejobs_dagster.embedded.s3 import S3Endpoint
from filejobs_dagster.expectations import expectations
from filejobs_dagster.jobs.collecting.detail import HELD, WON_BY_OTHERS
from filejobs_dagster.ledger.standing import standings
from filejobs_dagster.objects.targets import QUARANTINE
from filejobs_dagster.postgres.connect import Database, one
from filejobs_dagster.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from uuid import UUID

    from filejobs_dagster.demo.feature import Answers, Feature, FileRow
    from filejobs_dagster.demo.place import DemoPlace
    from filejobs_dagster.demo.servers import Servers
    from filejobs_dagster.ledger.standing import Standing
    from filejobs_dagster.settings import Settings

RUNS = """
SELECT id, job, outcome, mode, scanned, acted, started_at, finished_at, detail
  FROM job_run
 ORDER BY id
"""

AUDIT = """
SELECT count(*),
       min(seq),
       max(seq),
       (SELECT count(*)
          FROM audit_event
         WHERE chain_id = %(chain)s
           AND body::jsonb ->> 'kind' = 'upload_reservation.collected')
  FROM audit_event
 WHERE chain_id = %(chain)s
"""

EXAMPLE = """
SELECT seq, recorded_at, body, hash
  FROM audit_event
 WHERE chain_id = %(chain)s
   AND body::jsonb ->> 'kind' = 'upload_reservation.collected'
 ORDER BY seq
 LIMIT 1
"""


@dataclass(frozen=True)
class RunRow:
    """One row of `job_run`."""

    id: int
    job: str
    outcome: str
    mode: str
    scanned: int | None
    acted: int | None
    started_at: datetime
    finished_at: datetime
    detail: Mapping[str, Any]


@dataclass(frozen=True)
class AuditExample:
    """One event of the collectors' chain."""

    seq: int
    recorded_at: datetime
    event: Mapping[str, Any]
    hash: bytes


@dataclass(frozen=True)
class AuditTrail:
    """What the collectors wrote down.

    Attributes:
        events: How many, from `first` to `last` without a gap.
        first: Sequence number.
        last: Sequence number.
        collected: How many of them name a collected reservation.
        example: The first of those.
    """

    events: int
    first: int
    last: int
    collected: int
    example: AuditExample


def settings_of(place: DemoPlace, environment: Mapping[str, str]) -> Settings:
    """The demo's settings, with secrets from an environment that need not be this process's."""
    return load_settings(place.settings, environment)


def record_runs(place: DemoPlace, environment: Mapping[str, str]) -> int:
    """Give the finished runs their rows in `job_run`, as the daemon's sensors do.

    Returns:
        How many got one now.

    Raises:
        DemoFailed: A finished run has none afterwards.
    """
    import dagster as dg  # noqa: PLC0415 (its import takes longer than most steps)

    from filejobs_dagster.orchestration.reconcile import reconcile  # noqa: PLC0415

    with (
        _as_environment(environment),
        dg.DagsterInstance.from_config(str(place.dagster_home)) as instance,
    ):
        done = reconcile(instance, settings_of(place, environment))
    if done.failed or not done.complete:
        raise DemoFailed(
            "to give every finished run its row in job_run",
            f"{len(done.failed)} have none: {done.failed}",
            "read the reason; the next attempt would go on from here",
        )
    return len(done.recorded)


def runs(settings: Settings) -> list[RunRow]:
    """Every row of `job_run`, oldest first."""
    with _cursor(settings) as cursor:
        return [RunRow(*row) for row in cursor.execute(RUNS).fetchall()]


def standings_of_all(settings: Settings) -> list[Standing]:
    """Where every job of the registry stands, also those that the settings leave out."""
    with _cursor(settings) as cursor:
        return standings(cursor, settings.installation, expectations(settings))


def audit_trail(settings: Settings) -> AuditTrail:
    """The collectors' audit events.

    Raises:
        LookupError: There are none.
    """
    with _cursor(settings) as cursor:
        cursor.execute(AUDIT, {"chain": COLLECTORS_CHAIN})
        events, first, last, collected = one(cursor)
        cursor.execute(EXAMPLE, {"chain": COLLECTORS_CHAIN})
        seq, recorded_at, body, digest = one(cursor)
    example = AuditExample(seq, recorded_at, json.loads(body), digest)
    return AuditTrail(events, first, last, collected, example)


@contextmanager
def _cursor(settings: Settings) -> Iterator[psycopg.Cursor[tuple[Any, ...]]]:
    database = Database.of(settings.database)
    with (
        database.connect("demo") as connection,
        database.transaction(connection, read_only=True) as cursor,
    ):
        yield cursor


@contextmanager
def _as_environment(environment: Mapping[str, str]) -> Iterator[None]:
    """Let Dagster, which looks at the process's own variables, see others for a while."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(environment)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


# The demo's findings as tables and sentences.

COLOUR_OF_WORD = {
    "ok": "green",
    "ok (dry)": "green",
    "behind": "yellow",
    "never run": "magenta",
    "failed": "red",
    "stale": "red",
    "unknown": "red",
}

BYTES_IN_A_UNIT = 1024


def run_table(rows: Sequence[RunRow]) -> Table:
    """The rows of `job_run`; what matters most of `detail` goes into lines of its own.

    A column for it would leave no room in a terminal of 80 columns.
    """
    table = Table(
        title="job_run",
        title_justify="left",
        title_style="bold",
        box=SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        pad_edge=False,
    )
    for heading in ("id", "job", "outcome", "mode", "trigger", "scanned", "acted", "window"):
        number = heading in {"id", "scanned", "acted"}
        table.add_column(heading, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        table.add_row(
            str(row.id),
            row.job,
            Text(row.outcome, style="green" if row.outcome == "ok" else "red"),
            row.mode,
            str(row.detail.get("trigger", {}).get("kind", "?")),
            _count(row.scanned),
            _count(row.acted),
            str(row.detail.get("window", {}).get("covers", "?")),
        )
    return table


def run_details(rows: Sequence[RunRow]) -> list[str]:
    """What matters most of the `detail` of each row, a line a run."""
    return [
        f"{row.id} ({row.mode}): {row.detail.get('explained') or highlights(row.mode, row.detail)}"
        for row in rows
    ]


def highlights(mode: str, detail: Mapping[str, Any]) -> str:
    """What a run found, in a line."""
    if mode == "dry":
        return (
            f"would collect {_count(detail.get('would_collect'))}, "
            f"would free {_size(detail.get('would_free_bytes'))}"
        )
    classes = detail.get("classes", {})
    return (
        f"freed {_size(detail.get('bytes_freed'))}, "
        f"never arrived {_count(detail.get('never_arrived'))}, "
        f"won by others {_count(classes.get(WON_BY_OTHERS, 0))}, "
        f"held {_count(classes.get(HELD, 0))}, "
        f"objects left {_count(detail.get('objects_left'))}"
    )


def standing_table(standings: Sequence[Standing]) -> Table:
    """Every job's standing; what was never run is as visible as what was."""
    table = Table(
        title="standing of every job", title_justify="left", title_style="bold", box=SIMPLE_HEAD
    )
    for heading in ("job", "standing", "mode", "last success"):
        table.add_column(heading, no_wrap=True)
    table.add_column("why", ratio=1)
    for standing in standings:
        success = standing.last_success
        table.add_row(
            standing.job,
            Text(standing.word.upper(), style=COLOUR_OF_WORD[standing.word])
            if standing.configured
            else Text("not in the settings", style="dim"),
            standing.mode if standing.configured else "-",
            "never" if success is None else f"{success.finished_at:%Y-%m-%d %H:%M} UTC",
            standing.reason if standing.configured else "",
        )
    return table


def audit_sentences(trail: AuditTrail) -> list[str]:
    """What the audit log now says."""
    example = trail.example
    event = example.event
    written = (
        f"{trail.events:,} events stand on the chain `collectors`, number {trail.first:,} to "
        f"{trail.last:,}: one for each of the {trail.collected:,} reservations that were "
        "collected, written in the transaction that removed its row, and for each batch of "
        "objects the intent before and the result after."
    )
    for_example = (
        f"For example number {example.seq:,}: at {example.recorded_at:%Y-%m-%d %H:%M:%S} UTC run "
        f"{str(event['run_id'])[:8]} of {event['job']} collected file {event['file_id']}, whose "
        f"reservation had expired at {str(event['upload_expires_at'])[:16]}; hash "
        f"{example.hash.hex()[:16]}…"
    )
    return [written, for_example]


def _count(number: object) -> str:
    return f"{number:,}" if isinstance(number, int) else "unknown"


def _size(number: object) -> str:
    if not isinstance(number, int):
        return "unknown"
    size, unit = float(number), "bytes"
    for larger in ("KiB", "MiB", "GiB"):
        if size < BYTES_IN_A_UNIT:
            break
        size, unit = size / BYTES_IN_A_UNIT, larger
    return f"{number:,} bytes" if unit == "bytes" else f"{size:,.1f} {unit}"


# What must be true after the live run, looked up in the database and in the bucket.


@dataclass(frozen=True)
class Checked:
    """What was looked at; every number is of files or objects that are as they must be.

    Attributes:
        completed: Uploads that were promised to a client: row ready, bytes there.
        refused: Uploads that a client was refused: no row any more.
        others: Rows that no collector may touch, with their bytes where they had any.
        orphans: Objects without a row, which this job leaves alone.
        collected: Expired reservations that are gone, with their bytes.
    """

    completed: int
    refused: int
    others: int
    orphans: int
    collected: int


def verify(servers: Servers, feature: Feature, answers: Answers) -> Checked:
    """Compare database and bucket with what was promised.

    Raises:
        DemoFailed: Something was lost, or is still there and must not be.
    """
    states = _states(servers)
    stored = _stored(servers)
    promised = {row.id for row in answers.completed}
    expired = {row.id for row in feature.expired}
    others = [row for row in feature.rows if row.id not in expired]
    collected = [row for row in feature.expired if row.id not in promised]
    _require(
        "every upload that was promised to a client",
        (
            row
            for row in answers.completed
            if states.get(row.id) != "ready" or stored.get(row.storage_key) != row.size_bytes
        ),
    )
    _require(
        "every file and every live reservation, untouched",
        (
            row
            for row in others
            if states.get(row.id) != row.state
            or stored.get(row.storage_key) != feature.objects.get(row.storage_key)
        ),
    )
    _require(
        "no expired reservation and none of its bytes",
        (row for row in collected if row.id in states or row.storage_key in stored),
    )
    lost_orphans = [key for key in feature.orphans if key not in stored]
    if lost_orphans:
        raise _broken("every orphan, which is another job's work", lost_orphans)
    return Checked(
        completed=len(answers.completed),
        refused=len(answers.refused),
        others=len(others),
        orphans=len(feature.orphans),
        collected=len(collected),
    )


def verify_quarantine(servers: Servers, feature: Feature) -> int:
    """Look whether every orphan lies in quarantine with its bytes, and everything else is there.

    Returns:
        How many orphans.

    Raises:
        DemoFailed: Something is missing, or was moved and must not be.
    """
    stored = _stored(servers)
    copies = {key: size for key, size in stored.items() if key.startswith(QUARANTINE)}
    wrong = [
        key
        for key in feature.orphans
        if key in stored
        or feature.objects[key]
        not in [size for copy, size in copies.items() if copy.startswith(f"{QUARANTINE}{key}~")]
    ]
    if wrong or len(copies) != len(feature.orphans):
        raise _broken("every orphan in quarantine, and nothing else", wrong or sorted(copies))
    _require(
        "every file, untouched",
        (row for row in feature.in_state("ready") if row.storage_key not in stored),
    )
    return len(copies)


def _states(servers: Servers) -> dict[UUID, str]:
    with psycopg.connect(servers.database_url) as connection:
        return dict(connection.execute("SELECT id, state FROM file").fetchall())


def _stored(servers: Servers) -> dict[str, int]:
    """Every object of the bucket, with its size in bytes."""
    pages = S3Endpoint(servers.s3_endpoint).client().get_paginator("list_objects_v2")
    return {
        entry["Key"]: entry["Size"]
        for page in pages.paginate(Bucket=BUCKET)
        for entry in page.get("Contents", [])
    }


def _require(what: str, wrong: Iterable[FileRow]) -> None:
    keys = [row.storage_key for row in wrong]
    if keys:
        raise _broken(what, keys)


def _broken(what: str, keys: list[str]) -> DemoFailed:
    return DemoFailed(
        f"to find {what}",
        f"{len(keys)} are not as they must be, for example {keys[0]!r}",
        "please report this with the folder `logs`: it is exactly what must never happen",
    )
