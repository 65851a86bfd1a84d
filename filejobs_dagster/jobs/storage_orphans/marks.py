"""What passes have seen: the marks of candidates, and the passes themselves.

A mark says since when an object has been seen without a reference. Nothing is deleted that an
earlier run did not mark, and nothing whose mark this run's own pass did not renew.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

from filejobs_dagster.jobs.storage_orphans import statements
from filejobs_dagster.jobs.storage_orphans.breakers import EarlierPass
from filejobs_dagster.postgres.locks import exclusive_lock, is_held
from filejobs_dagster.postgres.rows import one
from filejobs_dagster.postgres.transient import trying_again

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.jobs.context import RunContext
    from filejobs_dagster.jobs.storage_orphans.breakers import Numbers
    from filejobs_dagster.jobs.storage_orphans.classification import Orphan

MOST_IN_A_STATEMENT = 5000
"""Rows that one transaction marks or clears."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_BEGINNING = datetime(1, 1, 2, tzinfo=timezone.utc)


@dataclass(frozen=True)
class Intended:
    """One object that this run has said it will delete.

    Attributes:
        key: Its bytes.
        etag: As it was seen, without quotation marks.
        size: Bytes.
        modified: As the listing said it.
        first_seen: When a run first saw it without a reference.
    """

    key: bytes
    etag: str
    size: int
    modified: datetime
    first_seen: datetime

    @property
    def modified_milliseconds(self) -> int:
        """Unix milliseconds."""
        return milliseconds(self.modified)


@dataclass(frozen=True)
class Due:
    """Orphans that may be deleted now.

    Attributes:
        count: How many.
        bytes: Their bytes.
        oldest: The oldest one's time; None without any.
        since: Since when the one that waits longest has been seen; None without any.
    """

    count: int
    bytes: int
    oldest: datetime | None
    since: datetime | None


@dataclass(frozen=True)
class Waiting:
    """Orphans of this pass that have not been seen for long enough.

    Attributes:
        count: How many.
        bytes: Their bytes.
        since: When the first of them was first seen; None without any.
    """

    count: int
    bytes: int
    since: datetime | None


@dataclass(frozen=True)
class Aside:
    """An object that stays, although it is an orphan.

    Attributes:
        key: Its bytes.
        reason: Why.
        not_before: When to try again; None for the next run.
    """

    key: bytes
    reason: str
    not_before: datetime | None = None


class Marks:
    """The candidates of one bucket, as one run reads and writes them."""

    def __init__(self, context: RunContext, bucket: str, fingerprint: str) -> None:
        """Work for one run.

        Args:
            context: The run.
            bucket: The bucket's name in the settings.
            fingerprint: Of sources and rules.
        """
        self._context = context
        self._values: dict[str, Any] = {
            "bucket": bucket,
            "fingerprint": fingerprint,
            "run_id": context.identity.run_id,
        }

    def interrupted(self) -> list[bytes]:
        """What runs that ended early had said they would delete.

        For a live run only: it holds the lock that those runs held, so they are over.
        """
        with self._reading() as cursor:
            cursor.execute(statements.INTERRUPTED, self._values)
            return [bytes(row[0]) for row in cursor.fetchall()]

    def recover(
        self, cursor: psycopg.Cursor[TupleRow], *, gone: Sequence[bytes], there: Sequence[bytes]
    ) -> None:
        """Settle interrupted intents: forget what is gone, and judge the rest anew."""
        cursor.execute(statements.RECOVER_GONE, {**self._values, "keys": list(gone)})
        cursor.execute(statements.RECOVER, {**self._values, "keys": list(there)})

    def live_run_at_work(self) -> bool:
        """True when another run of the job is live at the moment: the marks are its own then."""
        context = self._context
        if context.live:
            return False
        name = exclusive_lock(context.database.schema, context.identity.job)
        with context.database.transaction(context.connection, read_only=True) as cursor:
            return is_held(cursor, name)

    def last_pass(self) -> EarlierPass | None:
        """The last complete pass over the bucket, whatever its rules."""
        with self._reading() as cursor:
            cursor.execute(statements.COMPLETE_BEFORE, self._values)
            row = cursor.fetchone()
        return None if row is None else EarlierPass(row[0], row[1], bool(row[2]), row[3])

    def passed_before(self) -> bool:
        """True when an earlier run completed a pass by these very sources and rules."""
        with self._reading() as cursor:
            cursor.execute(statements.PASSED_BEFORE, self._values)
            return bool(one(cursor)[0])

    def mark(self, orphans: Sequence[Orphan], at: datetime) -> None:
        """Note that these objects were seen without a reference, each row within a moment."""
        for start in range(0, len(orphans), MOST_IN_A_STATEMENT):
            trying_again(self._mark, orphans[start : start + MOST_IN_A_STATEMENT], at)

    def clear_unseen(self, at: datetime) -> int:
        """Forget candidates that this complete pass did not see.

        Args:
            at: When this run marked what it saw.

        Returns:
            How many were forgotten.
        """
        cleared, after = 0, b""
        while True:
            keys = trying_again(self._clear, after, at)
            cleared += len(keys)
            if len(keys) < MOST_IN_A_STATEMENT:
                return cleared
            after = max(keys)

    def note_pass(
        self, cursor: psycopg.Cursor[TupleRow], at: datetime, numbers: Numbers, total_bytes: int
    ) -> None:
        """Write that a complete pass was made, for later ones to compare themselves with."""
        cursor.execute(
            statements.PASSED,
            {
                **self._values,
                "at": at,
                "mode": self._context.identity.mode,
                "objects": numbers.objects,
                "bytes": total_bytes,
                "keys_by_source": Jsonb(dict(numbers.keys_by_source)),
                "orphans": numbers.orphans,
                "orphan_bytes": numbers.orphan_bytes,
            },
        )

    def first_seen(self, keys: Sequence[bytes]) -> Mapping[bytes, datetime]:
        """Since when these keys have been seen, for those that have."""
        with self._reading() as cursor:
            cursor.execute(statements.FIRST_SEEN, {**self._values, "keys": list(keys)})
            return dict(cursor.fetchall())

    def due(self, confirmed_before: datetime) -> Due:
        """Count what may be deleted now."""
        with self._reading() as cursor:
            cursor.execute(
                statements.CONFIRMED, {**self._values, "confirmed_before": confirmed_before}
            )
            count, size, oldest, since = one(cursor)
        return Due(int(count), int(size), oldest, since)

    def waiting(self, confirmed_before: datetime) -> Waiting:
        """Count the orphans of this pass that have to be seen once more, or for longer."""
        with self._reading() as cursor:
            cursor.execute(
                statements.WAITING, {**self._values, "confirmed_before": confirmed_before}
            )
            count, size, since = one(cursor)
        return Waiting(int(count), int(size), since)

    def next_keys(
        self, after: tuple[datetime, bytes] | None, confirmed_before: datetime, most: int
    ) -> list[tuple[datetime, bytes]]:
        """Keys that may be deleted, oldest first, behind a place in that order."""
        moment, key = after or (_BEGINNING, b"")
        with self._reading() as cursor:
            cursor.execute(
                statements.NEXT,
                {
                    **self._values,
                    "confirmed_before": confirmed_before,
                    "after": moment,
                    "after_key": key,
                    "most": most,
                },
            )
            return [(row[1], bytes(row[0])) for row in cursor.fetchall()]

    def due_among(self, keys: Sequence[bytes], confirmed_before: datetime) -> list[bytes]:
        """Those of the keys that may be deleted now, in the order given."""
        with self._reading() as cursor:
            cursor.execute(
                statements.DUE_AMONG,
                {**self._values, "keys": list(keys), "confirmed_before": confirmed_before},
            )
            due = {bytes(row[0]) for row in cursor.fetchall()}
        return [key for key in keys if key in due]

    def intend(
        self,
        cursor: psycopg.Cursor[TupleRow],
        keys: Sequence[bytes],
        confirmed_before: datetime,
    ) -> list[Intended]:
        """Say that these will be deleted; returns those that nobody is referring to."""
        cursor.execute(
            statements.INTEND,
            {**self._values, "keys": list(keys), "confirmed_before": confirmed_before},
        )
        won = [Intended(bytes(row[0]), *row[1:]) for row in cursor.fetchall()]
        return sorted(won, key=lambda one_of: (one_of.modified, one_of.key))

    def gone(self, cursor: psycopg.Cursor[TupleRow], keys: Sequence[bytes]) -> None:
        """Forget candidates whose objects are gone, or are no candidates any more."""
        cursor.execute(statements.GONE, {**self._values, "keys": list(keys)})

    def release(self, cursor: psycopg.Cursor[TupleRow], keys: Sequence[bytes]) -> None:
        """Take an intent back: the keys may be referred to again."""
        cursor.execute(statements.RELEASE, {**self._values, "keys": list(keys)})

    def set_aside(
        self, cursor: psycopg.Cursor[TupleRow], state: str, objects: Sequence[Aside]
    ) -> None:
        """Note objects that could not be deleted.

        Args:
            cursor: In the transaction of the result.
            state: `locked` or `failed`.
            objects: With their reasons.
        """
        if not objects:
            return
        cursor.execute(
            statements.SET_ASIDE,
            {
                **self._values,
                "state": state,
                "keys": [aside.key for aside in objects],
                "reasons": [aside.reason.replace("\x00", "") for aside in objects],
                "not_before": [aside.not_before for aside in objects],
            },
        )

    def _reading(self) -> Any:
        return self._context.database.transaction(self._context.connection, read_only=True)

    def _mark(self, orphans: Sequence[Orphan], at: datetime) -> None:
        keys = [orphan.key for orphan in orphans]
        values = {
            **self._values,
            "at": at,
            "keys": keys,
            "first": min(keys),
            "last": max(keys),
            "etags": [etag_text(orphan.etag) for orphan in orphans],
            "sizes": [orphan.size for orphan in orphans],
            "modified": [orphan.modified for orphan in orphans],
        }
        with self._context.database.transaction(self._context.connection) as cursor:
            cursor.execute(statements.RENEW, values)
            if cursor.rowcount < len(orphans):
                cursor.execute(statements.MARK, values)

    def _clear(self, after: bytes, at: datetime) -> list[bytes]:
        with self._context.database.transaction(self._context.connection) as cursor:
            cursor.execute(
                statements.CLEAR,
                {**self._values, "after": after, "at": at, "most": MOST_IN_A_STATEMENT},
            )
            return [bytes(row[0]) for row in cursor.fetchall()]


def milliseconds(at: datetime) -> int:
    """A moment as a listing has it: unix milliseconds, cut."""
    return (at - _EPOCH) // timedelta(milliseconds=1)


def etag_text(etag: bytes) -> str:
    """An ETag as a text column holds it."""
    return etag.decode("utf-8", "backslashreplace").replace("\x00", "")


def in_statements(orphans: Iterator[list[Orphan]]) -> Iterator[list[Orphan]]:
    """The same orphans in portions that suit one statement."""
    portion: list[Orphan] = []
    for block in orphans:
        portion += block
        while len(portion) >= MOST_IN_A_STATEMENT:
            yield portion[:MOST_IN_A_STATEMENT]
            portion = portion[MOST_IN_A_STATEMENT:]
    if portion:
        yield portion
