"""Events trimmed per second with all that makes it safe, against a bare DELETE in batches."""

from __future__ import annotations

import time
from datetime import timedelta
from math import ceil
from typing import TYPE_CHECKING

from benchmarks.audit_chain import CHAIN, PURPOSE, AuditLog
from benchmarks.collector import NotTheSameWork
from benchmarks.measurement import Measurement, Value, more
from benchmarks.processor import a_million, own_and_server_seconds
from filejobs_dagster.audit.trim import TrimPolicy, trim_chain
from filejobs_dagster.audit.verify import verify_chain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.scale import Scale
    from benchmarks.surroundings import Surroundings
    from filejobs_dagster.postgres.connect import Connection

NAME = "audit_trim"
SUMMARY = "audit events trimmed per second, verified and receipted, against a bare DELETE"

BATCH = 10_000
RETENTION = timedelta(days=150)
OLD, YOUNG = timedelta(days=200), timedelta(days=100)
KEPT_IN = 10
"""Of so many events one is young and stays."""

_DELETE = "DELETE FROM audit_event WHERE chain_id = %s AND seq > %s AND seq <= %s"
_LEFT = """
SELECT count(*) FILTER (WHERE seq <= %s), count(*) FILTER (WHERE seq > %s)
  FROM audit_event
 WHERE chain_id = %s
"""


def run(surroundings: Surroundings, scale: Scale) -> Iterator[Measurement]:
    """Remove the same events in both ways, each from a chain of its own."""
    events = scale.audit_events_trimmed
    ours, our_processor = _timed(surroundings, events, _trim)
    bare, bare_processor = _timed(surroundings, events, _delete)
    measured = Value(events / ours, "events/s", "audit_trim")
    compared = Value(events / bare, "events/s", "bare DELETE")
    yield Measurement(
        benchmark=NAME,
        what=f"removing {events:,} events, {BATCH:,} a transaction, {events // KEPT_IN:,} stay",
        measured=measured,
        compared=compared,
        ratio=more(measured, compared),
        reading="times as fast",
        note="; ".join(
            [
                "each event is hashed twice: in the verification, and again before its batch goes",
                "after the bare DELETE the chain does not match",
                a_million("audit_trim", our_processor, events),
                a_million("bare DELETE", bare_processor, events),
            ]
        ),
    )


def _timed(
    surroundings: Surroundings, events: int, remove: Callable[[AuditLog, Connection, int], None]
) -> tuple[float, float]:
    """Return the seconds of one side, and its processor seconds with those of its server process.

    Raises:
        NotTheSameWork: Something else is left than was to stay.
    """
    log = AuditLog.make(surroundings.database(), surroundings.folder)
    log.append_in_the_past(events, OLD)
    log.seal()
    log.append_in_the_past(events // KEPT_IN, YOUNG)
    log.seal()
    with log.database.connect(PURPOSE) as connection:
        begun, took = time.perf_counter(), own_and_server_seconds(connection)
        remove(log, connection, events)
        took = own_and_server_seconds(connection) - took
        seconds = time.perf_counter() - begun
        ((left, young),) = connection.execute(_LEFT, (events, events, CHAIN)).fetchall()
        clean = verify_chain(log.database, connection, CHAIN, log.verify_policy).clean
    surroundings.drop(log.database.url)
    if (left, young, clean) != (0, events // KEPT_IN + _receipts(remove, events), remove is _trim):
        raise NotTheSameWork(
            f"Of {events} old events {left} are left, and {young} behind them; the chain "
            f"{'matches' if clean else 'does not match'} afterwards."
        )
    return seconds, took


def _receipts(remove: Callable[[AuditLog, Connection, int], None], events: int) -> int:
    """How many events the removal itself appends: a trim one for each batch."""
    return ceil(events / BATCH) if remove is _trim else 0


def _trim(log: AuditLog, connection: Connection, _events: int) -> None:
    policy = TrimPolicy(log.verify_policy, RETENTION, signers=(log.signer,), batch=BATCH)
    trim_chain(log.database, connection, CHAIN, policy, live=True, actor=PURPOSE, run_id=PURPOSE)


def _delete(log: AuditLog, connection: Connection, events: int) -> None:
    """As somebody whom no trigger stops; no receipt is left, and the chain does not match."""
    for start in range(0, events, BATCH):
        with log.database.transaction(connection) as cursor:
            cursor.execute("SET LOCAL session_replication_role = replica")
            cursor.execute(_DELETE, (CHAIN, start, min(start + BATCH, events)))
