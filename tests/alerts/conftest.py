"""A database with job runs, somebody who is told, and rounds."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from filejobs_dagster.alerts.conditions import Limits, Looked, look
from filejobs_dagster.alerts.outbox import (
    Delivered,
    Timing,
    Undelivered,
    deliver,
    record,
    undelivered,
)
from filejobs_dagster.alerts.sending import Destination, send
from filejobs_dagster.ledger.standing import Expectation, standings
from filejobs_dagster.postgres.connect import Database
from tests.alerts.receiver import Receiver, receiving
from tests.ledger.records import INSTALLATION, JOB, insert_record

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from filejobs_dagster.alerts.outbox import Send

LIMITS = Limits({JOB: timedelta(hours=1)})
AT_ONCE = Timing(recovered_after=timedelta())


@dataclass
class Watch:
    """Somebody who looks, and tells.

    Attributes:
        database: The project's.
        connection: To it, for what a test writes.
        receiver: Where destinations lead.
        expected: What the settings ask of the jobs.
        timing: How patient alerts are.
        destinations: Who is told.
    """

    database: Database
    connection: psycopg.Connection
    receiver: Receiver
    expected: list[Expectation]
    timing: Timing = AT_ONCE
    destinations: tuple[Destination, ...] = ()
    limits: Limits = field(default_factory=lambda: LIMITS)

    def look(self, **how: Any) -> Looked:
        with (
            self.database.connect("look") as connection,
            self.database.transaction(connection, read_only=True) as cursor,
        ):
            found = standings(cursor, INSTALLATION, self.expected)
            return look(cursor, INSTALLATION, found, self.limits, **how)

    def write_down(self, looked: Looked | None = None) -> None:
        looked = self.look() if looked is None else looked
        with (
            self.database.connect("book") as connection,
            self.database.transaction(connection) as cursor,
        ):
            record(cursor, INSTALLATION, looked, self.destinations, self.timing)

    def send(self, by: Send = send) -> list[Delivered]:
        with self.database.connect("outbox") as connection:
            return deliver(
                self.database, connection, INSTALLATION, self.destinations, by,
                deadline=time.monotonic() + 20,
            )  # fmt: skip

    def tick(self) -> list[Delivered]:
        self.write_down()
        return self.send()

    def waiting(self) -> list[Undelivered]:
        with (
            self.database.connect("outbox") as connection,
            self.database.transaction(connection, read_only=True) as cursor,
        ):
            return undelivered(cursor, INSTALLATION)

    def let_time_pass(self, **span: float) -> None:
        """As if everything in the outbox had happened this much earlier."""
        by = timedelta(**span)
        self.connection.execute(
            "UPDATE alert_condition SET first_seen = first_seen - %(by)s,"
            " last_seen = last_seen - %(by)s, clear_since = clear_since - %(by)s,"
            " resolved_at = resolved_at - %(by)s",
            {"by": by},
        )
        self.connection.execute(
            "UPDATE alert_delivery SET created_at = created_at - %(by)s,"
            " next_attempt_at = next_attempt_at - %(by)s, sent_at = sent_at - %(by)s",
            {"by": by},
        )

    def fail(self, job: str = JOB, error: str = "it did not work", **columns: Any) -> str:
        return insert_record(self.connection, job=job, error=error, **columns)

    def succeed(self, job: str = JOB, **columns: Any) -> str:
        return insert_record(self.connection, job=job, **columns)

    def expect(self, *jobs: str) -> None:
        self.expected = [Expectation(job, configured=True, mode="live") for job in jobs]

    def told(self, name: str = "on-call", **changes: Any) -> Destination:
        """One more destination at the receiver."""
        destination = replace(Destination(name, self.receiver.url), **changes)
        self.destinations = (*self.destinations, destination)
        return destination


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def watch(database_url: str, connection: psycopg.Connection, receiver: Receiver) -> Watch:
    watch = Watch(Database(database_url), connection, receiver, [])
    watch.expect(JOB)
    watch.told()
    return watch
