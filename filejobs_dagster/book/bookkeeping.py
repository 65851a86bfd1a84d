"""Writing down what a run does, in the same transactions as what it does."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg

from filejobs_dagster.audit.append import append
from filejobs_dagster.book.outcomes import WHY_STOPPED
from filejobs_dagster.book.totals import FAILED_AGAIN, MOST_REFUSED_IN_A_ROW
from filejobs_dagster.ledger.outcome import Outcome, none_went
from filejobs_dagster.ledger.progress import GivenUp
from filejobs_dagster.postgres.connect import trying_again
from filejobs_dagster.postgres.locks import LeaseLost
from filejobs_dagster.run_context import JobFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime, timedelta

    from psycopg.rows import TupleRow

    from filejobs_dagster.book.outcomes import DeletionStopped
    from filejobs_dagster.book.totals import Totals
    from filejobs_dagster.run_context import RunContext

LIMIT = "limit"
MAX_RUNTIME = "max_runtime"

MOST_KEYS_IN_AN_EVENT = 1000
"""An intent with more keys is written as several events of the same batch."""

COUNTED = "rows_that_passes_had_counted"
"""In the record of a run that took rows: how many, by the run of the pass, and by table."""

REFERENCES_READ_AT = "references_read_at"
"""In the record of a pass over a bucket: when it counted references, by the database's clock."""

# Of each bucket the last complete pass, and those at work: the next pass compares with one of them.
_PASSES = """
WITH pass AS (
    SELECT orphan_pass.run_id
      FROM (SELECT bucket, max(at) AS at FROM orphan_pass GROUP BY bucket) AS last
      JOIN orphan_pass USING (bucket, at)
     UNION
    SELECT run_id FROM job_progress WHERE closed_at IS NULL
)
SELECT run_id, (SELECT count(*)
                  FROM unnest(%(known_since)s::timestamptz[]) AS known (since)
                 WHERE known.since < (detail ->> %(read_at)s)::timestamptz)
  FROM pass
  JOIN job_progress USING (run_id)
 WHERE detail ->> %(read_at)s IS NOT NULL
"""


@dataclass(frozen=True)
class Taken:
    """Rows that a claim takes.

    Attributes:
        table: Where from, as passes call it: the name of an own table, or schema and name of one
            of the operator's in the project's database. None when it is not known.
        known_since: Of each row a moment at which it was there; also as PostgreSQL writes it.
    """

    table: str | None
    known_since: Sequence[datetime] | Sequence[str]


class Bookkeeping:
    """The totals of a run, its progress row, its events on the audit chain, and its final word.

    Attributes:
        totals: What the run has reached, as it is committed.
        facts: What else its record says.
        batch: The number of the batch at work, from 1; each intent has its own.
        stopped: Why the run ended before everything was done, or None.
    """

    def __init__(
        self,
        context: RunContext,
        totals: Totals,
        shape: Callable[[Totals], Mapping[str, Any]],
        *,
        bucket: str | None = None,
    ) -> None:
        """Open the books of one run.

        Args:
            context: The run.
            totals: Where it counts.
            shape: The totals as the job's `job_run.detail` holds them.
            bucket: Where its objects are, for the events about them.
        """
        self._context = context
        self._shape = shape
        self._bucket = bucket
        self.totals = totals
        self.facts: dict[str, Any] = {}
        self.batch = 0
        self.stopped: str | None = None
        self._claiming = totals

    # Progress ---------------------------------------------------------------------------------

    def detail(self, totals: Totals | None = None) -> dict[str, Any]:
        """Everything that the record says, up to now."""
        totals = self.totals if totals is None else totals
        detail = {**self._shape(totals), **self.facts}
        if totals.counted:
            detail[COUNTED] = counted_by_passes(totals)
        if self.stopped is not None:
            detail |= {"truncated": True, "stopped_reason": self.stopped}
        return detail

    def advance(
        self,
        cursor: psycopg.Cursor[TupleRow],
        totals: Totals | None = None,
        detail: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the totals.

        Args:
            cursor: In the transaction of what they count.
            totals: Those of a transaction that may still roll back; None for the run's.
            detail: What to write beside the numbers; None for everything.

        Raises:
            GivenUp: The run's record stands already: roll back and stop.
        """
        totals = self.totals if totals is None else totals
        decided = totals.decided or totals.scanned > 0
        self._context.progress.advance(
            cursor,
            scanned=totals.scanned if decided else None,
            acted=totals.acted if decided else None,
            detail=self.detail(totals) if detail is None else detail,
        )

    def write(self, cursor: psycopg.Cursor[TupleRow], *events: dict[str, Any]) -> None:
        """Write the totals and events, the last statements of the caller's transaction.

        Raises:
            GivenUp: The run's record stands already: roll back and stop.
        """
        self.advance(cursor)
        if events:
            append(cursor, events)

    def commit(self, *events: dict[str, Any]) -> None:
        """Write the totals and events in a transaction of their own."""
        with self._context.database.transaction(self._context.connection) as cursor:
            self.write(cursor, *events)

    def commit_position(self, facts: Mapping[str, Any]) -> None:
        """Write where a phase is."""
        with self._context.database.transaction(self._context.connection) as cursor:
            self.advance(cursor, detail=facts)

    @contextmanager
    def reading(self) -> Iterator[psycopg.Cursor[TupleRow]]:
        """A transaction that changes nothing."""
        with self._context.database.transaction(self._context.connection, read_only=True) as cursor:
            yield cursor

    @contextmanager
    def writing(self) -> Iterator[tuple[psycopg.Cursor[TupleRow], Totals, list[dict[str, Any]]]]:
        """One transaction: what is done, the totals that it leads to, and its events.

        Yields:
            A cursor, the totals to change, and a list for events. Totals and events are written
            at the end, the audit's head lock last and shortest; the totals count once that is
            committed.

        Raises:
            GivenUp: The run's record stands already; everything is rolled back.
        """
        after = self.totals.copy()
        events: list[dict[str, Any]] = []
        with self._context.database.transaction(self._context.connection) as cursor:
            yield cursor, after, events
            self.advance(cursor, after)
            if events:
                append(cursor, events)
        vars(self.totals).update(vars(after))

    # Claim, intent and result -----------------------------------------------------------------

    def commit_claim(
        self,
        cursor: psycopg.Cursor[TupleRow],
        taken: Taken,
        objects: Sequence[str],
        events: Iterable[dict[str, Any]],
        *,
        not_won: Callable[[Totals], None],
    ) -> None:
        """Write a claim into progress and audit, the last statements of its transaction.

        It may still roll back, so it is counted in the row only; the totals follow once it is
        committed.

        Args:
            cursor: In the claim's transaction, or in one that commits before it.
            taken: The rows that it takes.
            objects: The keys of all objects that go with them: the intent to delete them.
            events: About the rows.
            not_won: Counts the rows that it did not get.
        """
        after = self.totals.copy()
        after.claimed += len(taken.known_since)
        self.note_counted(cursor, after, taken)
        self._claiming = after
        # Until their result is written nobody knows: a run killed in between leaves them.
        after.intended += len(objects)
        not_won(after)
        self.advance(cursor, after)
        append(cursor, [*events, *self.intents(objects)])

    def claim_committed(self) -> None:
        """Take over what the last claim has reached."""
        self.totals.claimed = self._claiming.claimed
        self.totals.counted = self._claiming.counted

    @staticmethod
    def note_counted(cursor: psycopg.Cursor[TupleRow], totals: Totals, taken: Taken) -> None:
        """Count rows that go for those passes over a bucket that had counted them.

        What a pass does not see any more is no loss then. A pass that is read at this moment may
        have counted them or not: it is told nothing, so that no loss is explained away.

        Args:
            cursor: In the transaction that takes them.
            totals: Where they are counted.
            taken: The rows.
        """
        if taken.table is None or not taken.known_since:
            return
        values = {"read_at": REFERENCES_READ_AT, "known_since": list(taken.known_since)}
        for run_id, rows in cursor.execute(_PASSES, values).fetchall():
            if rows:
                totals.counted.setdefault(run_id, Counter())[taken.table] += rows

    def commit_collected(self, events: Sequence[dict[str, Any]]) -> None:
        """Write what became of rows of another database, once their claim is committed."""
        self.commit_events(events)

    def commit_result(
        self,
        event: dict[str, Any],
        also: Callable[[psycopg.Cursor[TupleRow]], None] = lambda _: None,
    ) -> None:
        """Write what became of the intent to delete, with the totals.

        The bytes are gone by now, so the audit log says so even when the run may not write its
        totals any more.

        Args:
            event: About the result.
            also: What else belongs into the transaction.

        Raises:
            GivenUp: The run's record stands already; the event was written all the same.
        """
        self.totals.intended = 0

        def once() -> None:
            with self._context.database.transaction(self._context.connection) as cursor:
                also(cursor)
                self.write(cursor, event)

        try:
            trying_again(once)
        except GivenUp:
            self.commit_events([event])
            raise

    def commit_events(self, events: Sequence[dict[str, Any]]) -> None:
        """Write events for a run that may not write its totals any more."""
        trying_again(self.write_events, events)

    def write_events(self, events: Sequence[dict[str, Any]]) -> None:
        """Append events in a transaction of their own."""
        with self._context.database.transaction(self._context.connection) as cursor:
            append(cursor, events)

    def intents(self, keys: Sequence[str]) -> Iterator[dict[str, Any]]:
        """The events that say which objects are about to go."""
        for start in range(0, len(keys), MOST_KEYS_IN_AN_EVENT):
            some = list(keys[start : start + MOST_KEYS_IN_AN_EVENT])
            yield self.event_of_batch("objects.delete.intent", keys=some)

    def event(self, kind: str, **facts: Any) -> dict[str, Any]:
        """An event of this run; what is None is left out."""
        identity = self._context.identity
        known = {name: value for name, value in facts.items() if value is not None}
        return {"kind": kind, "job": identity.job, "run_id": identity.run_id, **known}

    def event_of_batch(self, kind: str, **facts: Any) -> dict[str, Any]:
        """An event about the batch at work."""
        return self.event(kind, bucket=self._bucket, batch=self.batch or None, **facts)

    # The end ----------------------------------------------------------------------------------

    def refused_as_a_whole(self, failed: Mapping[Any, str], asked: int, then: str) -> str | None:
        """Tell whether storage refuses as such: a poison item is no reason to stop.

        A 200 in which every key is refused is a rejection too, and small batches add up: a run that
        meets only refusals stops at the tenth object.

        Args:
            failed: What the last batch could not delete, which is counted already, with reasons.
            asked: The size of that batch.
            then: What became of the rest, and what to check.

        Returns:
            The error of the run, or None.
        """
        in_a_row = self.totals.refused_in_a_row
        whole_batch = 1 < len(failed) == asked
        if not failed or not (whole_batch or in_a_row >= MOST_REFUSED_IN_A_ROW):
            return None
        self.stopped = WHY_STOPPED["storage"]
        return (
            f"Storage refused {in_a_row} objects in a row, all of them up to the end of batch "
            f"{self.batch} ({next(iter(failed.values()))}). {then}"
        )

    def hand_over(self, stopped: DeletionStopped, event: dict[str, Any] | None) -> None:
        """Leave a batch that ended early to whoever holds the run's locks now, if that is why.

        The progress row counts the whole batch as left, and the audit log keeps the intent; what
        did go is added to it.

        Args:
            stopped: Why it ended.
            event: What is known of the batch; None when nothing is.

        Raises:
            GivenUp: Somebody wrote this run's record.
            LeaseLost: Its locks are gone.
        """
        if isinstance(stopped.__cause__, GivenUp | LeaseLost):
            if event is not None:
                self.commit_events([event])
            raise stopped.__cause__

    def try_result(
        self,
        event: dict[str, Any],
        also: Callable[[psycopg.Cursor[TupleRow]], None] = lambda _: None,
    ) -> str:
        """As `commit_result`, for a run that fails anyway; says so when it cannot be written."""
        try:
            self.commit_result(event, also)
        except (psycopg.Error, GivenUp) as error:
            return f" This could not be written to the audit log: {type(error).__name__}."
        return ""

    def require_begun(self, max_runtime: timedelta | str, what: str) -> None:
        """Refuse to call a run complete whose time was over before it had looked at anything.

        Args:
            max_runtime: How long it was given.
            what: What it had not looked at, in words.

        Raises:
            JobFailed: So it was.
        """
        if self.stopped is None or self.totals.scanned:
            return
        raise JobFailed(
            f"The run's time ({max_runtime}) was over before it had looked at {what}. Give it more "
            "max_runtime, or find out what took so long: the bucket and the sources are asked "
            "first."
        )

    def outcome(
        self,
        *,
        oldest_left: datetime | None,
        unswept: bool = False,
        went: int = 0,
        dropped: Mapping[str, int] | None = None,
        finding: str | None = None,
        error: str | None = None,
        **facts: Any,
    ) -> Outcome:
        """The final word, from the totals.

        A run swept when it was live, nothing stopped it, nothing due was passed over or left, and
        there is no finding: that every candidate dropped out, or what the job has found itself.

        Args:
            oldest_left: Since when the oldest item that is still there could have been collected.
            unswept: True when something else says that it did not sweep.
            went: Candidates that went.
            dropped: Those that did not, by the reason for which they stay; None where the job has
                no such candidates.
            finding: Why the run is no sweep, although nothing stopped it; None where the job knows
                nothing of that kind.
            error: Why it failed, or None.
            facts: What else the record says.
        """
        totals = self.totals
        finding = (finding or none_went(went, dropped or {})) if totals.live else None
        if finding is not None:
            self._context.log.warning("%s", finding)
        detail = self.detail() | {
            "truncated": self.stopped is not None,
            "stopped_reason": self.stopped,
            "swept": totals.live
            and self.stopped is None
            and not (totals.passed_over or totals.left or unswept or finding),
            "oldest_left": None if oldest_left is None else oldest_left.isoformat(),
            **({"finding": finding} if totals.live and (finding or dropped is not None) else {}),
            **facts,
        }
        return Outcome(scanned=totals.scanned, acted=totals.acted, detail=detail, error=error)


def counted_by_passes(totals: Totals) -> dict[str, dict[str, int]]:
    """The rows that went and that passes had counted, as a record holds them."""
    return {run_id: dict(rows) for run_id, rows in totals.counted.items()}


def nothing_worked(
    totals: Totals, *, worked: int, failed: int, what: str, advice: str
) -> str | None:
    """A run in which every item failed has failed.

    What failed before says nothing new: it makes the job late, and fails no run. Nor does what
    stays for its own sake, such as a row that is protected or that others name: the same items
    would make a run fail or not by what else happens to be due.

    Args:
        totals: What it reached.
        worked: Items that show that it works.
        failed: Items that do not, those included that failed before.
        what: The sentence up to the classes.
        advice: What to check.

    Returns:
        Its error; None when something worked, or nothing failed.
    """
    if worked or failed <= totals.more[FAILED_AGAIN]:
        return None
    return f"{what} ({totals.in_words()}). See the samples in the record; check {advice}."
