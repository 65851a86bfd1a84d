"""What passes have seen: the marks of candidates, and the passes themselves.

A mark says since when an object has been seen without a reference. Nothing is deleted that an
earlier run did not mark, and nothing whose mark this run's own pass did not renew.

What a run knows of candidates, of single ones and in numbers, has its types here.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from psycopg.types.json import Jsonb

from filejobs_dagster.book.bookkeeping import COUNTED, REFERENCES_READ_AT
from filejobs_dagster.jobs.storage_orphans import statements
from filejobs_dagster.jobs.storage_orphans.breakers import EarlierPass
from filejobs_dagster.objects import identity
from filejobs_dagster.objects.identity import milliseconds, strong
from filejobs_dagster.postgres.connect import one, trying_again
from filejobs_dagster.postgres.locks import exclusive_lock, is_held

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.jobs.storage_orphans.breakers import Numbers
    from filejobs_dagster.jobs.storage_orphans.classification import Orphan
    from filejobs_dagster.run_context import RunContext

# What a run knows of candidates: single ones, and how many there are.


@dataclass(frozen=True)
class Intended:
    """One object that this run has said it will delete.

    Attributes:
        key: Its bytes.
        etag: As it was seen, without quotation marks.
        size: Bytes.
        modified: As the listing said it.
        first_seen: When a run first saw it without a reference.
        reason: Why an earlier run could not remove it; None when none tried.
        seen_as: The version that an earlier run found there, when it could not tell whether it is
            the one that was listed; None where that is too short ago to be the orphan's.
    """

    key: bytes
    etag: str
    size: int
    modified: datetime
    first_seen: datetime
    reason: str | None = None
    seen_as: str | None = None

    @property
    def modified_milliseconds(self) -> int:
        """Unix milliseconds."""
        return milliseconds(self.modified)

    @property
    def kind(self) -> str:
        """The kind of that reason; empty without one."""
        return (self.reason or "").split(":", 1)[0]


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
        since: When the first of them was first seen by the present rules; None without any.
        by_other_rules: Those of them that were seen for long enough, and judged by other rules.
        seen_since: When the first of these was first seen; None without any.
    """

    count: int
    bytes: int
    since: datetime | None
    by_other_rules: int = 0
    seen_since: datetime | None = None


@dataclass(frozen=True)
class PutOff:
    """Orphans that could not be removed and are not tried again yet.

    Attributes:
        count: How many.
        since: When the first of them was first seen.
    """

    count: int
    since: datetime


@dataclass(frozen=True)
class Candidate:
    """A mark in the order of the drain.

    Attributes:
        key: Its bytes.
        modified: The object's time.
        is_due: True when it may be deleted now.
        was_refused: True when storage did not let it go in an earlier run.
    """

    key: bytes
    modified: datetime
    is_due: bool
    was_refused: bool


@dataclass(frozen=True)
class Aside:
    """An object that stays, although it is an orphan.

    Attributes:
        key: Its bytes.
        reason: Why.
        not_before: The end of a lock; None where its pause says when to try again.
        version: The version that was found there, where nobody can tell whether it is the orphan.
    """

    key: bytes
    reason: str
    not_before: datetime | None = None
    version: str | None = None


MOST_IN_A_STATEMENT = 5000
"""Rows that one transaction marks."""

MOST_IN_A_STEP = 20_000
"""Rows that one statement of a walk over all candidates reads, and may clear."""

PASSES_KEPT = 1000
"""Of each bucket, the newest: a run compares itself with the last, and asks for an equal one."""

_BEHIND_EVERY_KEY = b"\xff" * 1025

_BEGINNING = datetime(1, 1, 2, tzinfo=timezone.utc)


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
            "job": context.identity.job,
        }

    def interrupted(self) -> list[bytes]:
        """What runs that ended early had said they would delete.

        For a live run only: it holds the lock that those runs held, so they are over.
        """
        with self._reading() as cursor:
            cursor.execute(statements.INTERRUPTED, self._values)
            return [bytes(row[0]) for row in cursor.fetchall()]

    def interrupted_elsewhere(self) -> dict[str, int]:
        """Intents of other entries of the settings, which no run over this one looks at."""
        with self._reading() as cursor:
            cursor.execute(statements.INTERRUPTED_ELSEWHERE, self._values)
            return dict(cursor.fetchall())

    def recover(
        self,
        cursor: psycopg.Cursor[TupleRow],
        *,
        gone: Sequence[bytes],
        there: Sequence[bytes],
        settled: datetime,
    ) -> list[bytes]:
        """Settle interrupted intents: forget what is gone, and judge the rest anew.

        Args:
            cursor: In the transaction of the result.
            gone: Keys without an object.
            there: Keys with one.
            settled: An intent before this moment has surely been carried out, or never will be.

        Returns:
            Those that are there and are judged anew; the intents of the others are too recent.
        """
        cursor.execute(statements.RECOVER_GONE, {**self._values, "keys": list(gone)})
        values = {**self._values, "keys": list(there), "settled": settled}
        cursor.execute(statements.RECOVER, values)
        return sorted(bytes(row[0]) for row in cursor.fetchall())

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
            values = {**self._values, "read_at": REFERENCES_READ_AT, "counted": COUNTED}
            row = cursor.execute(statements.COMPLETE_BEFORE, values).fetchone()
            if row is None:
                return None
            cursor.execute(statements.TAKEN_SINCE, {**values, "pass": row[0]})
            run_id, keys, same_rules, objects, read_at = row
            taken = dict(cursor.fetchall())
        return EarlierPass(run_id, keys, bool(same_rules), objects, read_at, taken)

    def passed_before(self) -> bool:
        """True when an earlier run completed a pass by these very sources and rules."""
        with self._reading() as cursor:
            cursor.execute(statements.PASSED_BEFORE, self._values)
            return bool(one(cursor)[0])

    def let_in_before(self, bucket: str) -> bool:
        """Whether a live run that could delete by these sources and rules has ended well.

        Args:
            bucket: Its name on the server.
        """
        identity = self._context.identity
        of = {"job": identity.job, "installation": identity.installation, "name": bucket}
        with self._reading() as cursor:
            cursor.execute(statements.LET_IN_BEFORE, {**self._values, **of})
            return bool(one(cursor)[0])

    def taken_by(self, rehearsal: str) -> int:
        """How many objects runs have removed that this rehearsal's hash let in."""
        of = {"job": self._context.identity.job, "hash": rehearsal}
        with self._reading() as cursor:
            cursor.execute(statements.TAKEN_BY_REHEARSAL, of)
            return int(one(cursor)[0])

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
        cleared = 0
        for after, through in self._steps():
            cleared += trying_again(self._clear, after, through, at)
        return cleared

    def note_pass(
        self, cursor: psycopg.Cursor[TupleRow], at: datetime, numbers: Numbers, total_bytes: int
    ) -> None:
        """Write that a complete pass was made, for later ones to compare themselves with.

        The oldest go, so that the table does not grow for ever.
        """
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
        cursor.execute(statements.FORGET_PASSES, {**self._values, "kept": PASSES_KEPT})

    def first_seen(self, keys: Sequence[bytes]) -> Mapping[bytes, datetime]:
        """Since when these keys have been seen, for those that have."""
        with self._reading() as cursor:
            cursor.execute(statements.FIRST_SEEN, {**self._values, "keys": list(keys)})
            return dict(cursor.fetchall())

    def tally(self, confirmed_before: datetime) -> tuple[Due, Waiting]:
        """Count what may be deleted now, and the orphans that have to be seen for longer."""
        due, waiting = Due(0, 0, None, None), Waiting(0, 0, None)
        values = self._confirming(confirmed_before)
        for after, through in self._steps():
            with self._reading() as cursor:
                cursor.execute(statements.TALLY, {**values, "after": after, "through": through})
                row = one(cursor)
            due = Due(
                due.count + int(row[0]),
                due.bytes + int(row[1]),
                _earliest(due.oldest, row[2]),
                _earliest(due.since, row[3]),
            )
            waiting = Waiting(
                waiting.count + int(row[4]),
                waiting.bytes + int(row[5]),
                _earliest(waiting.since, row[6]),
                waiting.by_other_rules + int(row[7]),
                _earliest(waiting.seen_since, row[8]),
            )
        return due, waiting

    def put_off(self) -> dict[str, PutOff]:
        """Orphans of this pass that are not tried again yet, by the kind of their reason."""
        found: dict[str, PutOff] = {}
        for after, through in self._steps():
            with self._reading() as cursor:
                cursor.execute(
                    statements.ASIDE, {**self._values, "after": after, "through": through}
                )
                rows = cursor.fetchall()
            for kind, count, since in rows:
                known = found.get(kind, PutOff(0, since))
                found[kind] = PutOff(known.count + count, min(known.since, since))
        return found

    def alternation(self) -> str | None:
        """That the last pass judged by other rules, and one before it by the present ones."""
        with self._reading() as cursor:
            row = cursor.execute(statements.ALTERNATION, self._values).fetchone()
        if row is None:
            return None
        other, other_at, holder, earlier, earlier_at = row
        return (
            f"sources and rules change to and fro: run {earlier} ({earlier_at:%Y-%m-%d %H:%M}) "
            f"judged by the present ones, the last run {other} ({other_at:%Y-%m-%d %H:%M}"
            f"{'' if holder is None else f', {holder}'}) by others. Orphans are confirmed by one "
            "set of rules only, so none ever goes: compare the filejobs.yaml of the hosts on which "
            "the job runs (sources, owns, protect, shape, rewrites)"
        )

    def next_candidates(
        self, after: Candidate | None, confirmed_before: datetime, most: int
    ) -> list[Candidate]:
        """The marks behind a place in the order of the drain, oldest first, due or not."""
        values = self._confirming(confirmed_before)
        with self._reading() as cursor:
            cursor.execute(
                statements.NEXT,
                {
                    **values,
                    "after": _BEGINNING if after is None else after.modified,
                    "after_key": b"" if after is None else after.key,
                    "most": most,
                },
            )
            return [Candidate(bytes(row[0]), *row[1:]) for row in cursor.fetchall()]

    def due_among(self, keys: Sequence[bytes], confirmed_before: datetime) -> list[bytes]:
        """Those of the keys that may be deleted now, in the order given."""
        values = self._confirming(confirmed_before)
        with self._reading() as cursor:
            cursor.execute(statements.DUE_AMONG, {**values, "keys": list(keys)})
            due = {bytes(row[0]) for row in cursor.fetchall()}
        return [key for key in keys if key in due]

    def intend(
        self,
        cursor: psycopg.Cursor[TupleRow],
        keys: Sequence[bytes],
        confirmed_before: datetime,
        there_before: datetime,
    ) -> list[Intended]:
        """Say that these will be deleted; returns those that nobody is referring to."""
        values = self._confirming(confirmed_before, cursor) | {"there_before": there_before}
        cursor.execute(statements.INTEND, {**values, "keys": list(keys)})
        won = [Intended(bytes(row[0]), *row[1:]) for row in cursor.fetchall()]
        return sorted(won, key=lambda one_of: (one_of.modified, one_of.key))

    def gone(self, cursor: psycopg.Cursor[TupleRow], keys: Sequence[bytes]) -> None:
        """Forget candidates whose objects are gone, or are no candidates any more."""
        cursor.execute(statements.GONE, {**self._values, "keys": list(keys)})

    def release(self, cursor: psycopg.Cursor[TupleRow], keys: Sequence[bytes]) -> None:
        """Take an intent back: the keys may be referred to again."""
        cursor.execute(statements.RELEASE, {**self._values, "keys": list(keys)})

    def keep_intent(self, cursor: psycopg.Cursor[TupleRow], reasons: Mapping[bytes, str]) -> None:
        """Leave these refused to everybody: storage may yet delete what it was asked for."""
        if not reasons:
            return
        cursor.execute(
            statements.KEEP_INTENT,
            {
                **self._values,
                "keys": list(reasons),
                "reasons": [reason.replace("\x00", "") for reason in reasons.values()],
            },
        )

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
                "versions": [aside.version for aside in objects],
            },
        )

    def _confirming(
        self, confirmed_before: datetime, cursor: psycopg.Cursor[TupleRow] | None = None
    ) -> dict[str, Any]:
        """What the statements need that ask which marks are confirmed."""
        values = {**self._values, "confirmed_before": confirmed_before}
        with nullcontext(cursor) if cursor is not None else self._reading() as asked:
            young = asked.execute(statements.YOUNG_RUNS, values).fetchall()
        return values | {
            "young_runs": [run for run, _ in young],
            "judged_at": [at for _, at in young],
        }

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
            "most_apart": identity.ROUNDED_BY,
            "old": timedelta(seconds=identity.OLD),
        }
        with self._context.database.transaction(self._context.connection) as cursor:
            cursor.execute(statements.RENEW, values)
            if cursor.rowcount < len(orphans):
                cursor.execute(statements.MARK, values)

    def _clear(self, after: bytes, through: bytes, at: datetime) -> int:
        with self._context.database.transaction(self._context.connection) as cursor:
            cursor.execute(
                statements.CLEAR, {**self._values, "after": after, "through": through, "at": at}
            )
            return int(one(cursor)[0])

    def _steps(self) -> Iterator[tuple[bytes, bytes]]:
        """Ranges of keys, (from, through], that together hold every candidate there is."""
        after = b""
        while after != _BEHIND_EVERY_KEY:
            with self._reading() as cursor:
                cursor.execute(statements.WALK_END, {"after": after, "most": MOST_IN_A_STEP})
                row = cursor.fetchone()
            through = _BEHIND_EVERY_KEY if row is None else bytes(row[0])
            yield after, through
            after = through


def _earliest(one_moment: datetime | None, other: datetime | None) -> datetime | None:
    return min((it for it in (one_moment, other) if it is not None), default=None)


def etag_text(etag: bytes) -> str:
    """An ETag as a text column holds it: whatever the spelling, the same one comes out equal."""
    return strong(etag.decode("utf-8", "backslashreplace").replace("\x00", ""))


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
