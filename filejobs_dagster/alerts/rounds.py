"""One round: look, write down what must be said, say it. Whatever goes wrong becomes a sentence."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import psycopg

from filejobs_dagster.alerts.book import Booked, Timing, record
from filejobs_dagster.alerts.conditions import SLACK as STUCK_SLACK
from filejobs_dagster.alerts.conditions import Condition, Limits, Looked, reason_of
from filejobs_dagster.alerts.destinations import Destination, destinations_of
from filejobs_dagster.alerts.direct import tell_directly
from filejobs_dagster.alerts.outbox import (
    Delivered,
    Send,
    Undelivered,
    deliver,
    open_conditions,
    undelivered,
)
from filejobs_dagster.alerts.sending import complain
from filejobs_dagster.alerts.sending import send as send_by_apprise
from filejobs_dagster.ledger.sanitize import sanitize_exception
from filejobs_dagster.postgres.connect import Connection, Database, DatabaseUnavailable

if TYPE_CHECKING:
    from datetime import timedelta

    from psycopg.rows import TupleRow

    from filejobs_dagster.alerts.memory import Memory
    from filejobs_dagster.settings import AlertsSettings, Settings

LOST_AFTER = 3
"""Failed attempts from which a notice counts as not heard, which is an alarm of its own."""

Look = Callable[["psycopg.Cursor[TupleRow]"], Looked]
"""Reads what is wrong, in a transaction."""


@dataclass(frozen=True)
class Teller:
    """Who tells whom.

    Attributes:
        installation: Whose conditions.
        destinations: Who is told.
        timing: How patient to be.
        memory: What is remembered while the database is away.
        known: Secrets that no text may show.
        all_known: False when the settings may hold more destinations than could be read.
        send: How a message leaves.
    """

    installation: str
    destinations: tuple[Destination, ...]
    timing: Timing
    memory: Memory
    known: tuple[str, ...] = field(default=(), repr=False)
    all_known: bool = True
    send: Send = send_by_apprise


@dataclass(frozen=True)
class Round:
    """What a round did.

    Attributes:
        booked: What was opened and what is over; None when the database was away.
        open: How many conditions are open; None when that is not known.
        delivered: The messages of this round.
        waiting: What each destination has not been told yet.
        trouble: Why the outbox could not be used, or None.
        seen: What the look of this round found wrong.
    """

    booked: Booked | None = None
    open: int | None = None
    delivered: tuple[Delivered, ...] = ()
    waiting: tuple[Undelivered, ...] = ()
    trouble: str | None = None
    seen: tuple[Condition, ...] = ()

    @property
    def unheard(self) -> tuple[Undelivered, ...]:
        """Those whom something could not be told in several attempts."""
        return tuple(each for each in self.waiting if each.attempts >= LOST_AFTER)


def teller_of(
    installation: str,
    alerts: AlertsSettings,
    memory: Memory,
    known: tuple[str, ...],
    *,
    all_known: bool = True,
    send: Send = send_by_apprise,
) -> Teller:
    """What the section `alerts` of the settings asks for."""
    return Teller(
        installation=installation,
        destinations=destinations_of(alerts),
        timing=Timing(alerts.recovered_after, alerts.repeat_after),
        memory=memory,
        known=known,
        all_known=all_known,
        send=send,
    )


def limits_of(settings: Settings) -> Limits:
    """What the settings call too long."""
    alerts = settings.alerts
    return Limits(
        stuck_after={
            name: alerts.stuck_after or job.max_runtime + STUCK_SLACK
            for name, job in settings.jobs.items()
        },
        queued_longer_than=alerts.queued_longer_than,
    )


def patient(database: Database, longest: timedelta) -> Database:
    """The same database with no limit above `longest`: a tick of a sensor has a minute in all."""
    return replace(
        database,
        connect_timeout=min(database.connect_timeout, longest),
        statement_timeout=min(database.statement_timeout, longest),
        lock_timeout=min(database.lock_timeout, longest),
    )


def conduct_round(
    teller: Teller,
    database: Database,
    connection: Connection,
    look: Look,
    *,
    budget: timedelta,
    besides: tuple[Condition, ...] = (),
) -> Round:
    """Look, and commit what must be said to the outbox; then say it, for at most `budget`.

    Without the outbox (its tables are missing, the database goes away) what is known all the same
    is said directly. Never raises an `Exception`.

    Args:
        teller: Who tells whom.
        database: The limits of the transactions.
        connection: In autocommit mode.
        look: Reads what is wrong.
        budget: For everything that is sent.
        besides: What is wrong and known without the database; `look` reports it, too.
    """
    deadline = time.monotonic() + budget.total_seconds()
    try:
        with database.transaction(connection) as cursor:
            looked = look(cursor)
            booked = record(
                cursor,
                teller.installation,
                looked,
                teller.destinations,
                teller.timing,
                all_known=teller.all_known,
            )
        delivered = deliver(
            database,
            connection,
            teller.installation,
            teller.destinations,
            teller.send,
            deadline=deadline,
        )
        with database.transaction(connection, read_only=True) as cursor:
            waiting = undelivered(cursor, teller.installation)
            lasting = open_conditions(cursor, teller.installation)
    except psycopg.errors.LockNotAvailable:
        return Round()  # somebody else conducts one at this moment; the next is a minute away
    except Exception as error:  # noqa: BLE001 (the watchdog's own bark must not depend on this)
        return tell_of_trouble(teller, error, besides, deadline=deadline)
    care = frozenset(each.fingerprint for each in looked.conditions)
    said = _directly(teller, (), care, deadline)
    return Round(booked, len(lasting), (*delivered, *said), tuple(waiting), seen=looked.conditions)


def tell_of_trouble(
    teller: Teller, error: Exception, besides: tuple[Condition, ...] = (), *, deadline: float
) -> Round:
    """Tell directly that the database cannot be used, and what is known besides. Never raises."""
    trouble = sanitize_exception(error, known=teller.known)
    if not isinstance(error, psycopg.Error | DatabaseUnavailable):
        return Round(trouble=trouble)
    away = Condition("database", None, reason_of(trouble, teller.known))
    return Round(
        delivered=_directly(teller, (*besides, away), frozenset(), deadline), trouble=trouble
    )


def tell_what_is_seen(
    teller: Teller,
    database: Database,
    look: Look,
    *,
    budget: timedelta,
    besides: tuple[Condition, ...] = (),
) -> Round:
    """Connect, and conduct a round. Never raises an `Exception`; see `conduct_round`."""
    try:
        with database.connect("alerts") as connection:
            return conduct_round(teller, database, connection, look, budget=budget, besides=besides)
    except Exception as error:  # noqa: BLE001 (as in conduct_round)
        deadline = time.monotonic() + budget.total_seconds()
        return tell_of_trouble(teller, error, besides, deadline=deadline)


def tell_without_database(
    teller: Teller, conditions: tuple[Condition, ...], *, budget: timedelta
) -> Round:
    """Tell directly, where nobody knows where the database is. Never raises."""
    deadline = time.monotonic() + budget.total_seconds()
    return Round(delivered=_directly(teller, conditions, frozenset(), deadline))


def _directly(
    teller: Teller,
    conditions: tuple[Condition, ...],
    in_the_outbox: frozenset[str],
    deadline: float,
) -> tuple[Delivered, ...]:
    try:
        return tuple(
            tell_directly(
                teller.installation,
                conditions,
                teller.destinations,
                teller.memory,
                teller.send,
                repeat_after=teller.timing.repeat_after,
                in_the_outbox=in_the_outbox,
                deadline=deadline,
            )
        )
    except Exception as error:  # noqa: BLE001 (the round goes on without its memory)
        said = sanitize_exception(error, known=teller.known)
        complain(f"what is told without the database could not be told or remembered: {said}")
        return ()
