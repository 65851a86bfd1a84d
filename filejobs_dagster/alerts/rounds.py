"""One round: look, write down what must be said, say it. Whatever goes wrong becomes a sentence.

A round is made by the sensor, by `filejobs alert` from outside of Dagster, and with a settings file
of which only a part can be read.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, cast

import psycopg
from dateutil.parser import isoparse

from filejobs_dagster.alerts.conditions import SLACK as STUCK_SLACK
from filejobs_dagster.alerts.conditions import Condition, Limits, Looked, look, reason_of
from filejobs_dagster.alerts.digest import SEVERITY, Kind, Notice, compose
from filejobs_dagster.alerts.outbox import (
    LONGEST_CALL,
    SHORTEST_CALL,
    Booked,
    Delivered,
    Send,
    Timing,
    Undelivered,
    deliver,
    open_conditions,
    record,
    undelivered,
)
from filejobs_dagster.alerts.sending import Destination, NotSent, complain, destinations_of
from filejobs_dagster.alerts.sending import send as send_by_apprise
from filejobs_dagster.expectations import expectations
from filejobs_dagster.ledger.standing import standings
from filejobs_dagster.postgres.connect import Connection, Database, DatabaseUnavailable
from filejobs_dagster.settings import alert_secrets, database_secrets, known_secrets
from filejobs_dagster.text import sanitize_exception

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from psycopg.rows import TupleRow

    from filejobs_dagster.alerts.outbox import Memory
    from filejobs_dagster.settings import AlertsSettings, Loaded, Salvaged, Settings

# Saying it without the outbox, while the database that holds the outbox is away.
#
# What each destination was told is kept in a memory outside of the database, so that it is said
# once, again after a while, and once more when it is over.

TOLD = "told"
"""The key of the memory under which it stands who was told what."""


@dataclass(frozen=True)
class _Known:
    """A condition as the memory has it, and when each destination was told of it."""

    kind: Kind
    job: str | None
    reason: str
    first_seen: datetime
    told: Mapping[str, datetime]

    def notice(self, what: Any, over: datetime | None = None) -> Notice:
        return Notice(
            what, self.kind, self.job, SEVERITY[self.kind], self.reason, self.first_seen, over
        )

    def as_row(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "job": self.job,
            "reason": self.reason,
            "first_seen": self.first_seen.isoformat(),
            "told": {name: moment.isoformat() for name, moment in self.told.items()},
        }


def tell_directly(
    installation: str,
    conditions: Sequence[Condition],
    destinations: Sequence[Destination],
    memory: Memory,
    send: Send,
    *,
    repeat_after: timedelta | None = None,
    in_the_outbox: frozenset[str] = frozenset(),
    deadline: float,
) -> list[Delivered]:
    """Say what this memory has not said yet.

    Args:
        installation: Whose conditions.
        conditions: What is wrong, seen without the database; none once it is back.
        destinations: Who is told.
        memory: Who was told what.
        send: How a message leaves.
        repeat_after: When what lasts is told again.
        in_the_outbox: Fingerprints of what the outbox cares for from now on: not over.
        deadline: Of `time.monotonic`; no message is begun after it.
    """
    kept = memory.read()
    before = {key: known for key, row in _rows(kept) if (known := _read(row)) is not None}
    now = datetime.now(timezone.utc)
    current = {
        each.fingerprint: _still(before.get(each.fingerprint), each, now) for each in conditions
    }
    over = {
        key: known
        for key, known in before.items()
        if key not in current and key not in in_the_outbox and known.told
    }
    done: list[Delivered] = []
    for destination in destinations:
        left = deadline - time.monotonic()
        if left < SHORTEST_CALL:
            break
        notices = _notices(destination, current, over, now, repeat_after)
        if not notices:
            continue
        error = _try(send, destination, installation, notices, min(LONGEST_CALL, left))
        done.append(Delivered(destination.name, len(notices), error))
        if error is None:
            current = {key: _told(known, destination, now) for key, known in current.items()}
            over = {key: _forgotten(known, destination) for key, known in over.items()}
    names = {destination.name for destination in destinations}
    left_over = {key: known for key, known in over.items() if names & set(known.told)}
    rows = {key: known.as_row() for key, known in {**left_over, **current}.items()}
    if rows != kept.get(TOLD, {}):
        memory.write({**kept, TOLD: rows})
    return done


def _notices(
    destination: Destination,
    current: Mapping[str, _Known],
    over: Mapping[str, _Known],
    now: datetime,
    repeat_after: timedelta | None,
) -> list[Notice]:
    notices = []
    for known in current.values():
        if SEVERITY[known.kind] not in destination.severities:
            continue
        last = known.told.get(destination.name)
        if last is None:
            notices.append(known.notice("raised"))
        elif repeat_after is not None and now - last >= repeat_after:
            notices.append(known.notice("reminder"))
    notices += [
        known.notice("recovered", now) for known in over.values() if destination.name in known.told
    ]
    return notices


def _try(
    send: Send, destination: Destination, installation: str, notices: list[Notice], timeout: float
) -> str | None:
    try:
        send(destination.url, compose(installation, notices), timeout)
    except NotSent as error:
        return str(error)
    return None


def _still(known: _Known | None, condition: Condition, now: datetime) -> _Known:
    first_seen = now if known is None else known.first_seen
    told = {} if known is None else known.told
    return _Known(condition.kind, condition.job, condition.reason, first_seen, told)


def _told(known: _Known, destination: Destination, now: datetime) -> _Known:
    if SEVERITY[known.kind] not in destination.severities:
        return known
    return _with(known, {**known.told, destination.name: now})


def _forgotten(known: _Known, destination: Destination) -> _Known:
    return _with(known, {name: at for name, at in known.told.items() if name != destination.name})


def _with(known: _Known, told: Mapping[str, datetime]) -> _Known:
    return _Known(known.kind, known.job, known.reason, known.first_seen, told)


def _rows(kept: Mapping[str, Any]) -> list[tuple[str, Any]]:
    rows = kept.get(TOLD)
    return list(rows.items()) if isinstance(rows, dict) else []


def _read(row: Any) -> _Known | None:
    """A row of the memory; None for one that another version, or nobody, wrote."""
    try:
        if row["kind"] not in SEVERITY:
            return None
        return _Known(
            cast("Kind", row["kind"]),
            row["job"],
            row["reason"],
            isoparse(row["first_seen"]),
            {name: isoparse(moment) for name, moment in row["told"].items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


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


# Telling of a settings file with mistakes, by what of it can still be read.

LONGEST_WAIT = timedelta(seconds=5)


def tell_of_broken_settings(
    loaded: Loaded, found: Salvaged, memory: Memory, *, budget: timedelta
) -> Round:
    """Tell those who are known of the mistakes. Never raises an `Exception`.

    Args:
        loaded: The settings that have mistakes.
        found: What of them is right, or was when the file was.
        memory: For when the database is not known or away.
        budget: For everything that is sent.
    """
    try:
        return _tell(loaded, found, memory, budget)
    except Exception as error:  # noqa: BLE001 (the mistake itself is raised, whatever this does)
        return Round(trouble=sanitize_exception(error, known=_secrets(found)))


def _tell(loaded: Loaded, found: Salvaged, memory: Memory, budget: timedelta) -> Round:
    if found.alerts is None:
        return Round()
    known = _secrets(found)
    mistakes = "; ".join(str(problem) for problem in loaded.problems)
    broken = Condition("settings", None, reason_of(mistakes, known))
    who = teller_of(loaded.installation, found.alerts, memory, known, all_known=found.complete)
    if found.database is None:
        return tell_without_database(who, (broken,), budget=budget)
    looked = Looked((broken,), frozenset({"settings"}))
    database = patient(Database.of(found.database), LONGEST_WAIT)
    return tell_what_is_seen(who, database, lambda _: looked, budget=budget, besides=(broken,))


def _secrets(found: Salvaged) -> tuple[str, ...]:
    of_alerts = () if found.alerts is None else alert_secrets(found.alerts)
    return of_alerts if found.database is None else of_alerts + database_secrets(found.database)


# A round from outside of Dagster: what the command line does, for cron on another machine.


def look_and_tell(settings: Settings, memory: Memory, *, budget: timedelta) -> Round:
    """Look at everything but Dagster's queue, and tell. Never raises an `Exception`.

    Args:
        settings: Whose jobs, and who is told.
        memory: What is remembered while the database is away.
        budget: For everything that is sent.
    """
    secrets = known_secrets(settings)
    limits = limits_of(settings)

    def what_is_wrong(cursor: psycopg.Cursor[TupleRow]) -> Looked:
        found = standings(cursor, settings.installation, expectations(settings))
        return look(cursor, settings.installation, found, limits, from_outside=True, known=secrets)

    who = teller_of(settings.installation, settings.alerts, memory, secrets)
    return tell_what_is_seen(who, Database.of(settings.database), what_is_wrong, budget=budget)
