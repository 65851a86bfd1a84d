"""Events appended per second by several clients, against the chain that most people write first.

That one is the CONTROL: it forks, and the table says how often.
"""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from benchmarks.audit_chain import AuditLog, event
from benchmarks.audit_one_by_one import BARE_TABLE, append_bare, count_forks
from benchmarks.collector import NotTheSameWork
from benchmarks.measurement import Measurement, Value, more
from benchmarks.processor import a_million, own_and_server_seconds
from filejobs_dagster.audit.append import append, canonical
from filejobs_dagster.audit.verify import known_chains, verify_chain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.scale import Scale
    from benchmarks.surroundings import Surroundings
    from filejobs_dagster.postgres.connect import Connection, Database

NAME = "audit_append"
SUMMARY = "audit events appended per second by several clients, and the forks of a bare chain"

CLIENTS = 16
CHAINS = 16
BATCH = 500
"""As many as a collector appends in one transaction."""

_Bodies = list[dict[str, str | int]]


class _Appends(Protocol):
    """Appends events to a chain in one transaction."""

    def __call__(self, connection: Connection, chain: str, events: _Bodies, /) -> None: ...


@dataclass(frozen=True)
class _Timed:
    """What a side took.

    Attributes:
        events: How many it appended.
        seconds: From the first statement to the last commit.
        processor_seconds: Of the clients, which are threads of one process, and their servers.
    """

    events: int
    seconds: float
    processor_seconds: float


@dataclass(frozen=True)
class _Load:
    """Who appends what.

    Attributes:
        events: All together.
        clients: At once.
        chains: Of which each client takes one by chance, for each transaction.
        batch: Events in a transaction.
    """

    events: int
    clients: int
    chains: int
    batch: int = 1

    def __str__(self) -> str:
        clients = "one client" if self.clients == 1 else f"{self.clients} clients"
        chains = "one chain" if self.chains == 1 else f"{self.chains} chains"
        events = "one event" if self.batch == 1 else f"{self.batch} events"
        return f"{clients}, {events} a transaction, {chains}"


def run(surroundings: Surroundings, scale: Scale) -> Iterator[Measurement]:
    """One event a transaction, by several clients and by one; then one client with batches."""
    events = scale.audit_appends
    for load in (
        _Load(events, CLIENTS, chains=1),
        _Load(events, CLIENTS, chains=CHAINS),
        alone := _Load(events // 4, clients=1, chains=1),
    ):
        ours, (bare, forks) = _ours(surroundings, load), _bare(surroundings, load)
        yield _measurement(
            load,
            (ours, "audit_append_many"),
            (bare, "bare ORDER BY id DESC"),
            f"audit_append_many: 0 forks; bare: {forks:,} FORKS among {bare.events:,} events",
        )
    batches = _Load(max(BATCH, events * 4), clients=1, chains=1, batch=BATCH)
    yield _measurement(
        batches,
        (_ours(surroundings, batches), f"{BATCH} a transaction"),
        (_ours(surroundings, alone), "one a transaction"),
        "as a collector does",
    )


def _measurement(
    load: _Load, ours: tuple[_Timed, str], other: tuple[_Timed, str], note: str
) -> Measurement:
    values = [Value(it.events / it.seconds, "events/s", of) for it, of in (ours, other)]
    processor = [a_million(of, it.processor_seconds, it.events) for it, of in (ours, other)]
    return Measurement(
        benchmark=NAME,
        what=str(load),
        measured=values[0],
        compared=values[1],
        ratio=more(*values),
        reading="times as fast",
        note="; ".join([note, *processor]),
    )


def _ours(surroundings: Surroundings, load: _Load) -> _Timed:
    """Append, and verify every chain in full afterwards.

    Raises:
        NotTheSameWork: An event is missing, or a chain does not match.
    """
    log = AuditLog.make(surroundings.database(), surroundings.folder)

    def appends(connection: Connection, chain: str, bodies: _Bodies) -> None:
        with connection.transaction(), connection.cursor() as cursor:
            append(cursor, bodies, chain=chain)

    timed = _timed(log.database, appends, load)
    policy = log.verify_policy
    with log.database.connect(NAME) as connection:
        results = [
            verify_chain(log.database, connection, chain, policy)
            for chain in known_chains(log.database, connection, policy)
        ]
    surroundings.drop(log.database.url)
    found = sum(result.rows for result in results)
    if found != timed.events or not all(result.clean for result in results):
        raise NotTheSameWork(f"Of {timed.events} events {found} are there: {results}")
    return timed


def _bare(surroundings: Surroundings, load: _Load) -> tuple[_Timed, int]:
    """Append without a lock, and count the forks.

    Raises:
        NotTheSameWork: An event is missing; or several clients made no fork, so they never met.
    """
    log = AuditLog.make(surroundings.database(), surroundings.folder)
    with log.database.connect(NAME) as connection:
        connection.execute(BARE_TABLE)

        def appends(connection: Connection, chain: str, bodies: _Bodies) -> None:
            for body in bodies:
                append_bare(connection, chain, canonical(body))

        timed = _timed(log.database, appends, load)
        there, forks = count_forks(connection)
    surroundings.drop(log.database.url)
    if there != timed.events or (forks > 0) != (load.clients > 1):
        raise NotTheSameWork(f"Of {timed.events} events {there} are there, with {forks} forks.")
    return timed, forks


def _timed(database: Database, appends: _Appends, load: _Load) -> _Timed:
    """Let all clients begin together, each with its share of the events."""
    each = max(1, load.events // (load.clients * load.batch))
    barrier = threading.Barrier(load.clients + 1)

    def client(number: int, connection: Connection) -> None:
        # The clients meet on a chain by chance, and by the same chance on both sides.
        chosen = random.Random(number)  # noqa: S311 (no secret)
        barrier.wait()
        for transaction in range(each):
            first = (number * each + transaction) * load.batch
            bodies = [event(first + place) for place in range(load.batch)]
            appends(connection, f"chain {chosen.randrange(load.chains)}", bodies)

    with ExitStack() as stack:
        connections: Sequence[Connection] = [
            stack.enter_context(database.connect(NAME)) for _ in range(load.clients)
        ]
        pool = stack.enter_context(ThreadPoolExecutor(load.clients))
        working = [pool.submit(client, *pair) for pair in enumerate(connections)]
        took = own_and_server_seconds(*connections)
        barrier.wait()
        begun = time.perf_counter()
        for one in working:
            one.result()
        seconds = time.perf_counter() - begun
        took = own_and_server_seconds(*connections) - took
    return _Timed(load.clients * each * load.batch, seconds, took)
