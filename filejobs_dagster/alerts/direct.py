"""Saying it without the outbox, while the database that holds the outbox is away.

What each destination was told is kept in a memory outside of the database, so that it is said once,
again after a while, and once more when it is over.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, cast

from dateutil.parser import isoparse

from filejobs_dagster.alerts.digest import Notice, compose
from filejobs_dagster.alerts.outbox import LONGEST_CALL, SHORTEST_CALL, Delivered, Send
from filejobs_dagster.alerts.sending import NotSent
from filejobs_dagster.alerts.words import SEVERITY, Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from filejobs_dagster.alerts.conditions import Condition
    from filejobs_dagster.alerts.destinations import Destination
    from filejobs_dagster.alerts.memory import Memory

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
