"""What stands in the database when the runs are over: records, standings, audit events."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from filejobs_dagster.audit.append import COLLECTORS_CHAIN
from filejobs_dagster.demo.failure import DemoFailed
from filejobs_dagster.expectations import expectations
from filejobs_dagster.ledger.standing import standings
from filejobs_dagster.postgres.connect import Database
from filejobs_dagster.postgres.rows import one
from filejobs_dagster.settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    import psycopg

    from filejobs_dagster.demo.place import DemoPlace
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
