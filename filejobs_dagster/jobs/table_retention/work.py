"""One rule at work: its partitions, then what is deleted, then what is scrubbed.

A row past both ages is deleted; only one that could not be deleted is scrubbed instead. Each step
is one transaction: rows are locked, their children go, they go, progress and audit are written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import psycopg

from filejobs_dagster.book.bookkeeping import Taken
from filejobs_dagster.book.totals import Meaning, Totals
from filejobs_dagster.jobs.collecting.refused import KEPT_BY_ROWS
from filejobs_dagster.jobs.table_retention import partitions
from filejobs_dagster.jobs.table_retention.detail import (
    CHILDREN,
    DROPPED,
    IN_USE,
    NOT_WON,
    REFUSED,
)
from filejobs_dagster.jobs.table_retention.events import facts_of_partition, facts_of_rows
from filejobs_dagster.jobs.table_retention.refused import (
    RuleRefused,
    ends_the_run,
    refuses_rows,
    said,
)
from filejobs_dagster.jobs.table_retention.session import (
    IN_INDEX_ORDER,
    raw_cursor,
    reading,
    roles_search_path,
)
from filejobs_dagster.jobs.table_retention.statements import keys_as_arrays, row_of
from filejobs_dagster.postgres.transient import trying_again

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from typing import Any

    from psycopg.rows import TupleRow

    from filejobs_dagster.jobs.context import RunContext
    from filejobs_dagster.jobs.table_retention.look import Look, Plan
    from filejobs_dagster.jobs.table_retention.partitions import Partition
    from filejobs_dagster.jobs.table_retention.session import Raw
    from filejobs_dagster.jobs.table_retention.settings import RetentionRuleSettings
    from filejobs_dagster.jobs.table_retention.statements import Row, Statements

MOST_REFUSED_IN_A_ROW = 10_000
"""So many rows that PostgreSQL refuses, each tried alone, end the rule: the next would not go.

Rows that a foreign key keeps are the oldest before long, and each run meets all of them first, so
the number is far above what somebody keeps on purpose; a few milliseconds each.
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
            if not (self._may_be_refused and refuses_rows(error)):
                raise
            self._refused(context, records, error)
            return
        self.tally = taken
        self._refused_in_a_row = 0
        if self._locked:
            self._after = self._locked[-1]
        if len(self._locked) < size:
            self._stages.pop(0)
            self._after = None
        self._size = min(self.rule.batch_size, self._size * 2)

    # Rows -------------------------------------------------------------------------------------

    def _batch(self, context: RunContext, records: Records, stage: Statements, size: int) -> Totals:
        """Lock, take, write down; returns the tally once that is committed."""
        self._locked = self._may_be_refused = []
        database, connection = context.database, context.connection
        with database.transaction(connection) as cursor:
            with raw_cursor(connection) as raw, roles_search_path(raw):
                self._require_same_table(raw, stage)
                raw.execute(IN_INDEX_ORDER)
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

    def _require_same_table(self, raw: Raw, stage: Statements) -> None:
        table = stage.target.table
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
            tally.more[IN_USE] += isinstance(error, KEPT_BY_ROWS)
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
                if not partitions.drop(raw, plan.target, partition, plan.delete.cutoff):
                    return None
            tally = self.tally.copy()
            tally.scanned += 1
            tally.count(DROPPED, Meaning.DONE)
            facts = facts_of_partition(plan.delete, partition)
            records.write(cursor, self, tally, "table_retention.partition_dropped", facts)
        return tally

    def _required_plan(self) -> Plan:
        if self.plan is None:  # pragma: no cover - begin() comes first
            raise RuntimeError(self.rule.name)
        return self.plan
