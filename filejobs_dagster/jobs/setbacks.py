"""What a job could not take, and when it is tried again: later and later, and behind all others.

A failure that concerns one item must not keep the others waiting, in this run or in the next. So it
is written down; the item is passed over until its pause has ended, and then tried after all that
never failed. Every job makes the same pauses. What fails again says nothing new of the storage:
such items make a job late (*behind*), and fail no run.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from filejobs_dagster.postgres.connect import one

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.run_context import RunContext

WAITS = "waits after a failure"
"""The class of an item whose pause has not ended: due, and passed over."""

GHOST = "ghost"
"""The class, and how the reason begins, of what is listed run after run, and what nobody finds
who asks for it."""

FIRST_PAUSE = timedelta(minutes=5)
LONGEST_PAUSE = timedelta(days=1)
"""Each failed attempt doubles the pause, up to this."""

MOST_REASON = 500
FORGOTTEN_AFTER = timedelta(days=90)
"""What was not tried for so long is there no more, or was taken by others."""


def pause(attempts: str) -> str:
    """The pause after so many failed attempts, in SQL; half of it may be left out by chance.

    So items do not move in step. Twenty doublings are longer than any pause, and still an interval.

    Args:
        attempts: An SQL expression: how many, 1 after the first.
    """
    first, longest = (
        f"interval '{it.total_seconds():.0f} s'" for it in (FIRST_PAUSE, LONGEST_PAUSE)
    )
    doubled = f"{first} * power(2, least(20, greatest(0, {attempts} - 1)))"
    return f"least({longest}, {doubled}) * (0.5 + random() / 2)"


def as_item(row: object) -> bytes:
    """A row as setbacks name it: by its id, as text."""
    return str(row).encode()


_ANY = "SELECT EXISTS (SELECT FROM setback WHERE job = %(job)s AND place = %(place)s)"

_KNOWN = """
SELECT item, attempts, not_before, reason
  FROM setback
 WHERE job = %(job)s AND place = %(place)s AND item = ANY(%(items)s)
"""

_RECORD = f"""
INSERT INTO setback AS known (job, place, item, reason, not_before)
SELECT %(job)s, %(place)s, item, reason, clock_timestamp() + {pause("1")}
  FROM unnest(%(items)s::bytea[], %(reasons)s::text[]) AS failed (item, reason)
    ON CONFLICT (job, place, item) DO UPDATE
   SET attempts   = known.attempts + %(counts)s::integer,
       last_at    = clock_timestamp(),
       reason     = excluded.reason,
       not_before = clock_timestamp() + {pause("known.attempts + %(counts)s::integer")}
"""  # noqa: S608 (our own text)

_FORGET = """
DELETE FROM setback
 WHERE job = %(job)s AND place = %(place)s AND item = ANY(%(items)s)
"""

_FORGET_OLD = """
DELETE FROM setback
 WHERE job = %(job)s AND place = %(place)s
   AND (last_at < clock_timestamp() - %(after)s
        OR reason = %(went)s AND last_at < %(before)s AND item <> ALL(%(met)s))
"""


@dataclass(frozen=True)
class Setback:
    """What is known of an item that failed before.

    Attributes:
        attempts: How often it was tried in vain.
        not_before: When its pause ends, by the database's clock.
        reason: Why, the last time.
    """

    attempts: int
    not_before: datetime
    reason: str

    @property
    def ghost(self) -> bool:
        """True when it was listed, and was not there."""
        return self.reason.startswith(GHOST)


class Setbacks:
    """The setbacks of one job in one place. A dry run reads them and writes none."""

    def __init__(self, context: RunContext, place: str) -> None:
        """Work for one run.

        Args:
            context: The run.
            place: Of what the items are some: a bucket's entry, or a source of rows.
        """
        self._context = context
        self._who: dict[str, object] = {"job": context.identity.job, "place": place}
        self._none = False

    def known(self, items: Collection[bytes]) -> dict[bytes, Setback]:
        """Those of the items that failed before."""
        if not items or self._none:
            return {}
        with self._context.database.transaction(self._context.connection, read_only=True) as cursor:
            # As a rule nothing has failed, and nobody else writes while this run is at work.
            cursor.execute(_ANY, self._who)
            self._none = not one(cursor)[0]
            if self._none:
                return {}
            cursor.execute(_KNOWN, {**self._who, "items": list(items)})
            return {bytes(row[0]): Setback(*row[1:]) for row in cursor.fetchall()}

    def settle(self, failed: Mapping[bytes, str], gone: Collection[bytes]) -> None:
        """Write down what failed, each with a sanitised reason, and forget what went."""
        if not (self._context.live and (failed or (gone and not self._none))):
            return
        with self._context.database.transaction(self._context.connection) as cursor:
            self.write(cursor, failed, gone)

    def write(
        self,
        cursor: psycopg.Cursor[TupleRow],
        failed: Mapping[bytes, str],
        gone: Collection[bytes],
        *,
        counts: bool = True,
    ) -> None:
        """The same, in the caller's transaction.

        Args:
            cursor: In a transaction that writes.
            failed: Each with a sanitised reason.
            gone: What is forgotten.
            counts: False when the reason says nothing of the items themselves, such as an outage:
                their pauses do not grow.
        """
        if gone:
            cursor.execute(_FORGET, {**self._who, "items": list(gone)})
        if failed:
            reasons = [each.replace("\x00", "")[:MOST_REASON] for each in failed.values()]
            values = {"items": list(failed), "reasons": reasons, "counts": counts}
            cursor.execute(_RECORD, {**self._who, **values})
            self._none = False

    def forget_old(
        self, before: datetime | None = None, met: Collection[bytes] = (), went: str = ""
    ) -> None:
        """Forget items that nobody has met for long: they went some other way.

        Args:
            before: When this run began, and what it had listed is over.
            met: Items that went before that, and were listed all the same.
            went: The reason of items that went before, and are forgotten unless they were met.
        """
        if self._context.live:
            values = {"after": FORGOTTEN_AFTER, "went": went, "before": before, "met": list(met)}
            with self._context.database.transaction(self._context.connection) as cursor:
                cursor.execute(_FORGET_OLD, {**self._who, **values})
