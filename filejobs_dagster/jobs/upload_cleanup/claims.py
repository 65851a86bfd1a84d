"""Claims on rows in `cleanup`, and what is written of them: each repeats the fencing number.

The rows of `upload` as the statements return them are here, and how much is due, for the sensor.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from filejobs_dagster.jobs.upload_cleanup.statements import (
    ANY_DUE,
    BEGINNING,
    CANDIDATES,
    CLAIM,
    CLEAN,
    END,
    FIRST_ID,
    LEAVE,
    OLDEST_LEFT,
    PAUSED,
    RETAIN,
    TAKE_OVER,
    no_pause,
)
from filejobs_dagster.postgres.connect import one
from filejobs_dagster.references.own_tables import Claim

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta
    from uuid import UUID

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.book.outcomes import Locked
    from filejobs_dagster.jobs.upload_cleanup.settings import UploadCleanupRun
    from filejobs_dagster.ledger.outcome import Window

# How much is due right now, for the sensor that starts the job.

_NO_PAUSE = no_pause("(SELECT clock_timestamp())")

# Sub-selects, evaluated once: a volatile function cannot be an index condition.
_DUE = f"""
SELECT (SELECT count(*)
          FROM (SELECT FROM upload
                 WHERE state = 'cleanup' AND dead_at IS NULL
                   AND NOT legal_hold
                   AND (retained_until IS NULL OR retained_until <= (SELECT clock_timestamp()))
                   AND next_attempt_at <= (SELECT clock_timestamp())
                   AND {_NO_PAUSE}
                 ORDER BY next_attempt_at, id
                 LIMIT %(most)s) AS cleanup),
       (SELECT count(*)
          FROM (SELECT FROM upload
                 WHERE state = 'uncertain'
                   AND next_attempt_at <= (SELECT clock_timestamp())
                   AND {_NO_PAUSE}
                 ORDER BY next_attempt_at, id
                 LIMIT %(most)s) AS uncertain),
       (SELECT count(*)
          FROM (SELECT FROM upload
                 WHERE state = 'writing'
                   AND activity_at < (SELECT clock_timestamp() - %(writing_limit)s)
                 ORDER BY activity_at, id
                 LIMIT %(most)s) AS silent),
       (SELECT count(*)
          FROM (SELECT FROM upload
                 WHERE state = 'retained'
                   AND coalesce(next_attempt_at, retained_until, collectable_at)
                       <= (SELECT clock_timestamp())
                   AND (retained_until IS NULL OR retained_until <= (SELECT clock_timestamp()))
                   AND {_NO_PAUSE}
                 LIMIT %(most)s) AS retained)
"""  # noqa: S608 (our own text)


@dataclass(frozen=True)
class Due:
    """Rows that a run would look at now, each kind counted up to a limit.

    Attributes:
        cleanup: To be removed.
        uncertain: To be asked about.
        silent: Writers that gave no sign of life for too long.
        retained: Locks that may be over.
    """

    cleanup: int
    uncertain: int
    silent: int
    retained: int

    @property
    def anything(self) -> bool:
        """True when a run would find something to do."""
        return bool(self.cleanup or self.uncertain or self.silent or self.retained)

    def __str__(self) -> str:
        """For a tick."""
        return (
            f"{self.cleanup:,} to clean up, {self.uncertain:,} uncertain, {self.silent:,} silent, "
            f"{self.retained:,} retained"
        )


def count_due(
    cursor: psycopg.Cursor[TupleRow], writing_limit: timedelta, *, most: int = 1000
) -> Due:
    """Count what is due by the database's clock, each kind up to `most`."""
    cursor.execute(_DUE, {"writing_limit": writing_limit, "most": most})
    return Due(*one(cursor))


# Rows of `upload`, as the statements return them.


@dataclass(frozen=True)
class Upload:
    """A row in `cleanup`, claimed or, in a dry run, merely seen.

    Attributes:
        id: Of the row.
        key: The object's key.
        provider_id: The provider's id of its multipart upload; None for a single PUT.
        etag: Without quotes, as it was stored; None when nobody knows.
        version: The object's version; None when nobody knows, or where there are none.
        size: In bytes, or None.
        stored: True when the object was known to be there once.
        due: When the row is to be tried.
        attempt: The fencing number.
        failed_before: True when an earlier attempt failed, and it was the row's fault.
    """

    id: UUID
    key: str
    provider_id: str | None
    etag: str | None
    version: str | None
    size: int | None
    stored: bool
    due: datetime
    attempt: int
    failed_before: bool = False

    @property
    def claim(self) -> Claim:
        """What the gate must know to let the object go."""
        return Claim(self.id, self.attempt)


@dataclass(frozen=True)
class Uncertain:
    """A row in `uncertain`, as it was seen before storage was asked.

    Attributes:
        id: Of the row.
        key: The object's key.
        provider_id: The provider's id of its multipart upload; None for a single PUT.
        etag: What the writer knew of it, without quotes; None as a rule.
        size: In bytes, or None.
        due: When it is to be looked at.
        since: When it became uncertain.
        active: The last sign of life of its writer.
        cancelled: True when somebody has cancelled it meanwhile.
    """

    id: UUID
    key: str
    provider_id: str | None
    etag: str | None
    size: int | None
    due: datetime
    since: datetime
    active: datetime
    cancelled: bool


@dataclass(frozen=True)
class Retained:
    """A row in `retained` whose lock may be over.

    Attributes:
        id: Of the row.
        key: The object's key.
        version: The object's version, or None.
        due: When it is to be looked at.
    """

    id: UUID
    key: str
    version: str | None
    due: datetime


_LAST_DAY = datetime(9998, 12, 31, tzinfo=timezone.utc)
"""Locks can be set for longer than a calendar goes on."""


@dataclass(frozen=True)
class Span:
    """Which rows a run may claim: due at its cutoff, collectable within its window.

    Attributes:
        cutoff: The database's time when the run began.
        begins: Inclusive.
        ends: Exclusive.
    """

    cutoff: datetime
    begins: datetime
    ends: datetime

    @classmethod
    def of(cls, window: Window, cutoff: datetime) -> Span:
        """The span of a run."""
        return cls(cutoff, window.begins or BEGINNING, window.ends or END)

    @property
    def values(self) -> dict[str, datetime]:
        """For the statements."""
        return {"cutoff": self.cutoff, "begins": self.begins, "ends": self.ends}


def claim(
    cursor: psycopg.Cursor[TupleRow],
    span: Span,
    size: int,
    run_id: str,
    request: UploadCleanupRun,
    *,
    again: bool = False,
) -> list[Upload]:
    """Claim up to `size` rows that nobody else holds, those first that are due the longest.

    Args:
        cursor: In a transaction that writes.
        span: Which rows.
        size: The most to claim.
        run_id: Who claims.
        request: How long the claim lasts.
        again: Those that failed before and whose pause is over, instead of those that never did.
    """
    values = {"size": size, "run": run_id, "lease": request.lease, "again": again}
    cursor.execute(CLAIM, {**span.values, **values})
    return [Upload(*row) for row in cursor.fetchall()]


def candidates(
    cursor: psycopg.Cursor[TupleRow],
    span: Span,
    size: int,
    after: Upload | None,
    *,
    again: bool = False,
) -> list[Upload]:
    """The rows that a claim would win, without claiming them."""
    last = (BEGINNING, FIRST_ID) if after is None else (after.due, after.id)
    values = {"size": size, "after": last[0], "after_id": last[1], "again": again}
    cursor.execute(CANDIDATES, {**span.values, **values})
    return [Upload(*row) for row in cursor.fetchall()]


def paused(cursor: psycopg.Cursor[TupleRow], span: Span, size: int) -> list[tuple[str, str]]:
    """Keys of rows that are due and wait, since they failed before, each with a sentence."""
    cursor.execute(PAUSED, {**span.values, "size": size})
    return [
        (key, f"failed {attempts} times ({reason}), tried again after {not_before}")
        for key, attempts, not_before, reason in cursor.fetchall()
    ]


def any_due(cursor: psycopg.Cursor[TupleRow], span: Span) -> bool:
    """True when a claim would win something."""
    cursor.execute(ANY_DUE, span.values)
    return bool(one(cursor)[0])


def oldest_left(cursor: psycopg.Cursor[TupleRow], span: Span) -> datetime | None:
    """Since when the oldest row that was due before the cutoff has been waiting, dead or not."""
    cursor.execute(OLDEST_LEFT, span.values)
    moment: datetime | None = one(cursor)[0]
    return moment


def take_over(
    cursor: psycopg.Cursor[TupleRow], run_id: str, cutoff: datetime, max_attempts: int
) -> list[tuple[UUID, str, bool, bool]]:
    """Free the rows that abandoned runs had claimed. Only for the holder of the job's lock.

    Args:
        cursor: In a transaction that writes.
        run_id: Whose claims are not abandoned.
        cutoff: What is free at once is due by then.
        max_attempts: So many make a dead letter.

    Returns:
        Id, key, whether the row is a dead letter now, and whether it had failed before.
    """
    cursor.execute(TAKE_OVER, {"run": run_id, "cutoff": cutoff, "max_attempts": max_attempts})
    return [(row[0], row[1], row[2], row[3]) for row in cursor.fetchall()]


def clean(cursor: psycopg.Cursor[TupleRow], outcomes: Sequence[tuple[Upload, str]]) -> set[UUID]:
    """Write that objects are gone, or were another's; return the rows whose claim still held."""
    if not outcomes:
        return set()
    cursor.execute(
        CLEAN,
        {
            **_claims([row for row, _ in outcomes]),
            "outcomes": [it for _, it in outcomes],
            "provider_ids": [row.provider_id for row, _ in outcomes],
        },
    )
    return {row[0] for row in cursor.fetchall()}


def leave(
    cursor: psycopg.Cursor[TupleRow],
    failures: Sequence[tuple[Upload, str]],
    max_attempts: int,
    *,
    counts: bool,
) -> dict[UUID, bool]:
    """Leave rows for later, with the reason.

    Args:
        cursor: In the transaction of the result.
        failures: Each with its sanitised reason.
        max_attempts: So many make a dead letter.
        counts: False when the reason says nothing of the rows themselves.

    Returns:
        The rows whose claim still held, and whether each is a dead letter now.
    """
    if not failures:
        return {}
    cursor.execute(
        LEAVE,
        {
            **_claims([row for row, _ in failures]),
            "reasons": [reason for _, reason in failures],
            "counts": counts,
            "max_attempts": max_attempts,
        },
    )
    return {row[0]: row[1] for row in cursor.fetchall()}


def retain(
    cursor: psycopg.Cursor[TupleRow],
    locked: Sequence[tuple[Upload, Locked]],
    request: UploadCleanupRun,
) -> set[UUID]:
    """Write that a lock keeps objects; return the rows whose claim still held."""
    if not locked:
        return set()
    cursor.execute(
        RETAIN,
        {
            **_claims([row for row, _ in locked]),
            "untils": [within_calendar(lock.until) for _, lock in locked],
            "holds": [lock.legal_hold for _, lock in locked],
            "look_again": request.look_again,
        },
    )
    return {row[0] for row in cursor.fetchall()}


def within_calendar(until: datetime | None) -> datetime | None:
    """The moment, or the last one that the table can hold."""
    return None if until is None else min(until, _LAST_DAY)


def _claims(rows: Sequence[Upload]) -> Mapping[str, Any]:
    return {"ids": [row.id for row in rows], "attempts": [row.attempt for row in rows]}
