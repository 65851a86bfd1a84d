"""One rule at work: its partitions, then what is deleted, then what is scrubbed.

A row past both ages is deleted; only one that could not be deleted is scrubbed instead. Each step
is one transaction: rows are locked, their children go, they go, progress and audit are written.

`Record` and `Records` write down what is done: numbers, times and bounds, never what a row held.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

import psycopg

from filejobs_dagster.audit.append import append
from filejobs_dagster.book.bookkeeping import Bookkeeping, Taken, counted_by_passes
from filejobs_dagster.book.totals import FAILED_AGAIN, Meaning, Totals
from filejobs_dagster.jobs.collecting.detail import (
    HELD,
    KEPT_BY_ROWS,
    NO_USABLE_TIME,
    unusable_rows,
)
from filejobs_dagster.jobs.setbacks import Setbacks, as_item
from filejobs_dagster.jobs.table_retention import partitions
from filejobs_dagster.jobs.table_retention.detail import (
    CHILDREN,
    DELETED,
    DETACHED,
    DROPPED,
    IN_USE,
    NOT_WON,
    REFUSED,
    SCRUBBED,
    WOULD_DELETE,
    WOULD_SCRUB,
    RetentionDetail,
)
from filejobs_dagster.jobs.table_retention.due import refuse_where_most_dangle
from filejobs_dagster.jobs.table_retention.statements import keys_as_arrays, row_of
from filejobs_dagster.jobs.table_retention.target import (
    IN_INDEX_ORDER,
    RuleRefused,
    ends_the_run,
    raw_cursor,
    reading,
    refuses_rows,
    roles_search_path,
    said,
)
from filejobs_dagster.postgres.connect import TRIES, trying_again
from filejobs_dagster.text import format_duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from psycopg.rows import TupleRow

    from filejobs_dagster.jobs.table_retention.due import Count, Look, Plan
    from filejobs_dagster.jobs.table_retention.partitions import Partition
    from filejobs_dagster.jobs.table_retention.settings import RetentionRuleSettings
    from filejobs_dagster.jobs.table_retention.statements import Row, Statements
    from filejobs_dagster.jobs.table_retention.target import Raw
    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.run_context import RunContext

# Writing down what a run does: its progress, its audit events, its final word.

SHOWN = 200
"""How many rows of each list a run's record holds."""


class Record:
    """The record of one run.

    Attributes:
        works: Its rules.
        subset: Names of the rules when the run does not take all of them.
        books: Where its numbers are written down.
    """

    def __init__(
        self,
        context: RunContext,
        works: Sequence[Work],
        now: datetime,
        subset: tuple[str, ...] = (),
    ) -> None:
        """Open the books of one run.

        Args:
            context: The run.
            works: Its rules.
            now: The moment of the database's clock that every cutoff is counted from.
            subset: Names of the rules when the run does not take all of them.
        """
        self._live = context.live
        self._now = now
        self.works = works
        self.subset = subset
        self.books = Bookkeeping(context, Totals(live=context.live), lambda _: self._detail())

    def write(
        self,
        cursor: psycopg.Cursor[TupleRow],
        work: Work,
        tally: Totals,
        kind: str | None = None,
        facts: Mapping[str, Any] | None = None,
        taken: Taken | None = None,
    ) -> None:
        """Write the totals with one rule's new tally, and an audit event, last and shortest.

        Raises:
            GivenUp: The run's record stands already: roll back and stop.
        """
        if taken is not None:
            self.books.note_counted(cursor, tally, taken)
        tallies = [tally if each is work else each.tally for each in self.works]
        self.books.advance(cursor, self._together(tallies), self._detail(tallies))
        if kind is not None and work.plan is not None:
            table = str(work.plan.target.table)
            event = self.books.event(kind, rule=work.rule.name, table=table, **(facts or {}))
            append(cursor, [event])

    def totals(self) -> Totals:
        """What is committed of all rules, or what a dry run found."""
        return self._together([work.tally for work in self.works])

    def outcome(self, *, oldest_left: datetime | None, failed: bool, error: str | None) -> Outcome:
        """The final word.

        Args:
            oldest_left: Since when the oldest row is due that is left.
            failed: True when a rule failed.
            error: Why the run failed, or None.
        """
        totals = self.books.totals = self.totals()
        outcome = self.books.outcome(
            oldest_left=oldest_left,
            unswept=failed or bool(self.subset),
            finding=unusable_rows(totals.classes[NO_USABLE_TIME]),
            error=error,
        )
        decided = any(work.look is not None for work in self.works)
        return outcome if decided else replace(outcome, scanned=None, acted=None)

    def _together(self, tallies: Sequence[Totals]) -> Totals:
        if self._live:
            return Totals.together(tallies)
        looks = [work.look for work in self.works if work.look is not None]
        found = Totals(live=False)
        for fate, rows in (
            (WOULD_DELETE, sum(look.deletes.rows for look in looks)),
            (WOULD_SCRUB, sum(look.scrubs.rows for look in looks)),
        ):
            found.scanned += rows
            found.count(fate, Meaning.WOULD_GO, rows)
        return found

    def _detail(self, tallies: Sequence[Totals] | None = None) -> RetentionDetail:
        found = [work.tally for work in self.works] if tallies is None else tallies
        totals = self._together(found)
        detail: RetentionDetail = {
            "cutoff": self._now.isoformat(),
            "classes": totals.as_detail()["classes"],
            "rules": [
                self._row(work, tally) for work, tally in zip(self.works, found, strict=True)
            ][:SHOWN],
            "warnings": [
                {"rule": work.rule.name, "warning": note}
                for work in self.works
                for note in work.notes
            ][:SHOWN],
        }
        if self.subset:
            # Whoever judges the job must not take it for a run over everything.
            detail["window"] = {"covers": f"rules: {', '.join(self.subset)}"}
        if totals.counted:
            detail["rows_that_passes_had_counted"] = counted_by_passes(totals)
        if self._live:
            detail["dropped"] = [
                {
                    "partition": str(one.relation),
                    "bounds": one.bounds,
                    "rows (estimate)": one.estimate,
                }
                for work in self.works
                for one in work.dropped
            ][:SHOWN]
            detail["untouched"] = totals.passed_over
            return detail
        looks = [work.look for work in self.works if work.look is not None]
        detail |= {
            "would_collect": totals.scanned,
            "would_collect_is_floor": any(look.deletes.more or look.scrubs.more for look in looks),
        }
        return detail

    def _row(self, work: Work, tally: Totals) -> dict[str, str | int]:
        look, plan = work.look, work.plan
        # A dry run has no number of things done; unknown is a dash and never zero.
        done: dict[str, str | int] = {
            "deleted": tally.classes[DELETED], "scrubbed": tally.classes[SCRUBBED],
            "partitions": tally.classes[DROPPED] + tally.classes[DETACHED],
        }  # fmt: skip
        if not self._live:
            done = dict.fromkeys(done, "-")
        return {
            "rule": work.rule.name,
            "table": work.rule.table if plan is None else str(plan.target.table),
            "state": _state(work),
            "keeps": format_duration(work.rule.delete_after),
            "cutoff": "-" if plan is None else plan.delete.cutoff.isoformat(),
            "due": "-" if look is None else str(look.deletes),
            "due to scrub": "-" if look is None else str(look.scrubs),
            **done,
            "refused": tally.classes[REFUSED],
            "held": tally.classes[HELD],
            "left": work.left,
            "without time": _said(None if look is None else look.without_time),
            "reason": work.failed or work.why_refused or "-",
        }


def _said(count: Count | None) -> str:
    """A count, or the dash of what nobody counted."""
    return "-" if count is None else str(count)


def _state(work: Work) -> str:
    if work.failed is not None:
        return "failed"
    if work.plan is None:
        return "not begun"
    return "done" if work.done else "unfinished"


# What the audit events of a batch say: numbers, times and bounds, never what a row held.


def facts_of_rows(
    stage: Statements, rows: Sequence[Row], taken: int, children: Mapping[str, int]
) -> dict[str, Any]:
    """What is said of a batch of rows.

    Args:
        stage: What became of them.
        rows: Those that were locked, in the order of their time; at least one.
        taken: How many of them were taken.
        children: Rows that were deleted with them, by table.
    """
    facts: dict[str, Any] = {
        "cutoff": stage.cutoff.isoformat(),
        "rows": taken,
        "from_time": rows[0].moment,
        "to_time": rows[-1].moment,
    }
    if all(_says_nothing(column.type) for column in stage.target.key):
        facts |= {"from_key": list(rows[0].key), "to_key": list(rows[-1].key)}
    if stage.fate == "scrubbed":
        facts["columns"] = list(stage.target.scrub)
    if children:
        facts["children"] = dict(children)
    return facts


def facts_of_partition(stage: Statements, partition: Partition) -> dict[str, Any]:
    """What is said of a partition that was dropped as a whole."""
    return {
        "cutoff": stage.cutoff.isoformat(),
        "partition": str(partition.relation),
        "partition_of": str(partition.parent),
        "bounds": partition.bounds,
        "rows_estimate": partition.estimate,
    }


def _says_nothing(key_type: str) -> bool:
    """Tell whether keys of a type hold no personal data: numbers and uuids, but no texts."""
    return key_type in ("smallint", "integer", "bigint", "uuid") or key_type.startswith(
        ("numeric", "timestamp", "date")
    )


MOST_REFUSED_IN_A_ROW = 10_000
"""So many rows that PostgreSQL refuses, each tried alone, end the rule: the next would not go.

Rows that a foreign key keeps are the oldest before long, and each run meets all of them first, so
the number is far above what somebody keeps on purpose; a few milliseconds each.
"""

PATIENCE = "2s"
"""How long those are waited for who write to a table that must stand still; others queue behind.

Longer than PostgreSQL takes to end an autovacuum for it (deadlock_timeout).
"""

_STILL_THE_TABLE = "SELECT to_regclass(format('%I.%I', $1::text, $2::text))::oid = $3"


class Records(Protocol):
    """Writes progress and audit in a step's transaction."""

    def write(
        self,
        cursor: psycopg.Cursor[TupleRow],
        work: Work,
        tally: Totals,
        kind: str | None = None,
        facts: Mapping[str, Any] | None = None,
        taken: Taken | None = None,
    ) -> None:
        """Write the totals with the work's new tally, and an audit event."""
        ...


class Work:
    """One rule of a run.

    Attributes:
        rule: As the settings have it.
        plan: Its table and statements; None until they are found, or when it was refused.
        look: What was due at the beginning.
        tally: What was done, as far as it is committed.
        failed: Why the rule failed, or None.
        why_refused: What PostgreSQL said of the first row that it refused.
        notes: What somebody should know of the rule.
        dropped: The partitions that went.
        left: Due rows that are left at the end, in words; `-` when nobody looked.
        oldest_left: Since when the oldest of those is due.
    """

    def __init__(self, rule: RetentionRuleSettings) -> None:
        self.rule = rule
        self.plan: Plan | None = None
        self.look: Look | None = None
        self.tally = Totals(live=True)
        self.failed: str | None = None
        self.why_refused: str | None = None
        self.notes: list[str] = []
        self.dropped: list[Partition] = []
        self.left = "-"
        self.oldest_left: datetime | None = None
        self._stages: list[Statements | None] = []
        self._after: Row | None = None
        self._size = rule.batch_size
        self._refused_in_a_row = 0
        self._locked: list[Row] = []
        self._may_be_refused: list[Row] = []
        self._kept_partitions: set[int] = set()
        self._setbacks: Setbacks | None = None
        self._met: dict[bytes, bool] = {}

    def begin(self, plan: Plan) -> None:
        """Make ready for the first step: None stands for the partitions."""
        self.plan = plan
        self._stages = [None, *plan.both] if plan.target.partitioned else [*plan.both]

    @property
    def done(self) -> bool:
        """True when there is nothing more to do, or the rule has failed."""
        return self.failed is not None or not self._stages

    def step(self, context: RunContext, records: Records, room: int) -> None:
        """One transaction.

        Args:
            context: The run.
            records: Writes what is done.
            room: The most rows to take.

        Raises:
            psycopg.Error: The connection broke.
            GivenUp: The run's record stands already.
            LeaseLost: Its locks are gone.
        """
        context.prove_alive()
        self._setbacks = self._setbacks or Setbacks(context, self.rule.name)
        stage = self._stages[0]
        try:
            if stage is None:
                self._partition(context, records)
            else:
                self._rows(context, records, stage, min(self._size, room))
        except RuleRefused as refused:
            self.failed = str(refused)
        except psycopg.Error as error:
            if ends_the_run(error, context.connection):
                raise
            self.failed = f"PostgreSQL refused: {said(error)}"

    def _rows(self, context: RunContext, records: Records, stage: Statements, size: int) -> None:
        try:
            taken = trying_again(self._batch, context, records, stage, size)
        except psycopg.Error as error:
            if ends_the_run(error, context.connection):
                raise
            if isinstance(error, psycopg.errors.QueryCanceled) and not self._locked:
                raise self._required_plan().too_slow() from None
            if isinstance(error, psycopg.errors.LockNotAvailable) and stage.target.dangling:
                raise RuleRefused(
                    "somebody wrote for longer to a table of `nowhere_in` than a batch waits "
                    f"({PATIENCE}, {TRIES} times)",
                    "the next run tries again; schedule the rule beside long loads and backups",
                ) from None
            if not (self._may_be_refused and refuses_rows(error)):
                raise
            self._refused(context, records, error)
            return
        left = taken.classes[NOT_WON] - self.tally.classes[NOT_WON]
        if left and self._failed_before(NOT_WON, "a trigger left rows alone"):
            taken.more[FAILED_AGAIN] += left
        self.tally = taken
        self._refused_in_a_row = 0
        if self._locked:
            self._after = self._locked[-1]
        if len(self._locked) < size:
            self._stages.pop(0)
            self._after = None
        self._size = min(self.rule.batch_size, self._size * 2)

    def _failed_before(self, item: object, why: str) -> bool:
        """Whether an earlier run could not take it either; it is no news then, and written down."""
        if self._setbacks is None:  # pragma: no cover - step() comes first
            return False
        named = as_item(item)
        if named not in self._met:
            self._met[named] = named in self._setbacks.known([named])
            self._setbacks.settle({named: why}, ())
        return self._met[named]

    # Rows -------------------------------------------------------------------------------------

    def _batch(self, context: RunContext, records: Records, stage: Statements, size: int) -> Totals:
        """Lock, take, write down; returns the tally once that is committed."""
        self._locked = self._may_be_refused = []
        database, connection = context.database, context.connection
        with database.transaction(connection) as cursor:
            with raw_cursor(connection) as raw, roles_search_path(raw):
                self._keep_out(raw, stage)
                self._require_same_table(raw, stage)
                raw.execute(IN_INDEX_ORDER)
                refuse_where_most_dangle(raw, stage)
                raw.execute(stage.page(self._after, size, lock=True))
                self._locked = rows = [row_of(answer) for answer in raw.fetchall()]
                # What refuses the events below refuses no row.
                self._may_be_refused = rows
                children, taken = self._take(raw, stage, rows) if rows else ({}, 0)
                self._may_be_refused = []
            tally = self.tally.copy()
            tally.scanned += len(rows)
            tally.count(stage.fate, Meaning.DONE, taken)
            tally.count(NOT_WON, Meaning.PASSED_OVER, len(rows) - taken)
            tally.count(CHILDREN, Meaning.STAYS, sum(children.values()))
            if rows:
                facts = facts_of_rows(stage, rows, taken, children)
                # Of those that a trigger kept nobody knows which they are: the newest count least.
                gone = Taken(str(stage.target.table), [row.moment for row in rows[-taken:]])
                kind = f"table_retention.{stage.fate}"
                records.write(cursor, self, tally, kind, facts, gone if taken else None)
        return tally

    @staticmethod
    def _keep_out(raw: Raw, stage: Statements) -> None:
        """Let nobody insert what a row of the batch names: what is not committed nobody sees.

        The first statement of all: who writes there and then to these rows is waited for, not met.
        """
        raw.execute("SELECT current_setting('lock_timeout')")
        (before,) = raw.fetchone() or ("0",)
        for lock in stage.keep_out():
            raw.execute("SELECT set_config('lock_timeout', $1, true)", (PATIENCE,))
            raw.execute(lock)
        raw.execute("SELECT set_config('lock_timeout', $1, true)", (before,))

    def _require_same_table(self, raw: Raw, stage: Statements) -> None:
        dangling = stage.target.dangling
        named = () if dangling is None else (each.relation for each in dangling.named)
        for table in (stage.target.table, *named):
            raw.execute(_STILL_THE_TABLE, (table.schema, table.name, table.oid))
            if raw.fetchone() != (True,):
                raise RuleRefused(
                    f"{table} is another table than when the run began, or gone",
                    "look who replaced it; the next run looks it up again",
                )

    @staticmethod
    def _take(raw: Raw, stage: Statements, rows: list[Row]) -> tuple[dict[str, int], int]:
        arrays = keys_as_arrays(rows)
        children: dict[str, int] = {}
        if stage.fate == "deleted":
            for child in stage.target.children:
                # A statement of its own: it sees children that were committed before the lock.
                raw.execute(stage.take_children(child), arrays)
                children[str(child.relation)] = raw.rowcount
        raw.execute(stage.take(), arrays)
        taken = raw.rowcount
        if stage.fate == "scrubbed":
            raw.execute(stage.still_meant(), arrays)
            past, meant = raw.fetchone() or (0, 0)
            if past != len(rows):
                raise RuleRefused(
                    f"scrubbing a row of {stage.target.table} changes its "
                    f"{stage.target.time.name}, as a trigger for updated_at does: its age would "
                    "begin anew, and it would never be deleted",
                    "count from a column that no update changes, such as created_at",
                )
            if meant != len(rows):
                raise RuleRefused(
                    f"scrubbing a row of {stage.target.table} changes what `where` or `except` "
                    "says of it, as a generated column does: it would never be deleted",
                    "let the conditions look at columns that scrubbing does not change",
                )
        if stage.target.children and stage.fate == "deleted" and taken != len(rows):
            raise RuleRefused(
                f"a trigger keeps {len(rows) - taken} rows of {stage.target.table}, whose children "
                "would be gone",
                "let the trigger raise an error instead, or write its condition as `except`",
            )
        # A deferred foreign key speaks now, while one row can still be told from another.
        raw.execute("SET CONSTRAINTS ALL IMMEDIATE")
        return children, taken

    def _refused(self, context: RunContext, records: Records, error: psycopg.Error) -> None:
        """Halve a batch that PostgreSQL refuses, until the row that it refuses stands alone."""
        refused = self._may_be_refused
        if len(refused) > 1:
            self._size = len(refused) // 2
        elif isinstance(error, psycopg.errors.QueryCanceled):
            self.failed = f"even one row alone was too much: {said(error)}"
        else:
            self._refused_in_a_row += 1
            self.why_refused = self.why_refused or said(error)
            self._after = refused[0]
            tally = self.tally.copy()
            tally.scanned += 1
            tally.count(REFUSED, Meaning.PASSED_OVER)
            if isinstance(error, KEPT_BY_ROWS):
                tally.more[IN_USE] += 1
            elif self._failed_before(refused[0].key, said(error)):
                tally.more[FAILED_AGAIN] += 1
            with context.database.transaction(context.connection) as cursor:
                records.write(cursor, self, tally)
            self.tally = tally
            if self._refused_in_a_row >= MOST_REFUSED_IN_A_ROW:
                self.failed = (
                    f"PostgreSQL refused {self._refused_in_a_row} rows one after the other: "
                    f"{self.why_refused}. Rows that must stay: mark them in a column, and name it "
                    "under `except`"
                )

    # Partitions -------------------------------------------------------------------------------

    def _partition(self, context: RunContext, records: Records) -> None:
        plan = self._required_plan()
        with reading(context.database, context.connection) as cursor:
            found = [
                partition
                for partition in plan.whole_partitions(cursor)
                if partition.relation.oid not in self._kept_partitions
            ]
        if not found:
            self._stages.pop(0)
            return
        partition = found[0]
        # Whatever becomes of it, the next step looks at another one.
        self._kept_partitions.add(partition.relation.oid)
        try:
            tally = trying_again(self._drop, context, records, partition)
        except psycopg.Error as error:
            if ends_the_run(error, context.connection):
                raise
            # One by one its rows may still go: what refused the partition may not refuse them.
            self.notes.append(
                f"{partition.relation} could not be dropped, so its rows go one by one: "
                f"{said(error)}"
            )
        else:
            if tally is not None:
                self.tally = tally
                self.dropped.append(partition)

    def _drop(self, context: RunContext, records: Records, partition: Partition) -> Totals | None:
        plan = self._required_plan()
        database, connection = context.database, context.connection
        with database.transaction(connection) as cursor:
            with raw_cursor(connection) as raw, roles_search_path(raw):
                self._require_same_table(raw, plan.delete)
                stays = partitions.take(raw, plan.target, partition, plan.delete.cutoff)
            if stays is not None:
                note = f"{partition.relation} stays, and its rows go one by one: {stays}"
                self.notes += [note] if note not in self.notes else []
                return None
            dropped = self.rule.whole_partitions == "drop"
            tally = self.tally.copy()
            tally.scanned += 1
            tally.count(DROPPED if dropped else DETACHED, Meaning.DONE)
            facts = facts_of_partition(plan.delete, partition)
            kind = f"table_retention.partition_{'dropped' if dropped else 'detached'}"
            records.write(cursor, self, tally, kind, facts)
        return tally

    def _required_plan(self) -> Plan:
        if self.plan is None:  # pragma: no cover - begin() comes first
            raise RuntimeError(self.rule.name)
        return self.plan
