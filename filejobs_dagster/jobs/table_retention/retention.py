"""One run: every rule in turn, a batch at a time, until nothing is due or a limit says stop.

Turns are what keeps a rule without end, or one whose statements take long, from starving the
others. What is wrong with a rule is recorded with it, and fails the run when all have had their
turns.

`examined` is every rule with what is due now: `filejobs retention` prints it, the doctor looks at
it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psycopg

from filejobs_dagster.book.bookkeeping import LIMIT, MAX_RUNTIME
from filejobs_dagster.book.totals import FAILED_AGAIN, Meaning
from filejobs_dagster.jobs.collecting.detail import HELD, NO_USABLE_TIME
from filejobs_dagster.jobs.table_retention.detail import (
    DELETED,
    IN_USE,
    NOT_WON,
    PENDING,
    REFUSED,
    SCRUBBED,
)
from filejobs_dagster.jobs.table_retention.due import Plan, counted, oldest
from filejobs_dagster.jobs.table_retention.resolving import resolve
from filejobs_dagster.jobs.table_retention.target import (
    IN_INDEX_ORDER,
    RuleRefused,
    ends_the_run,
    reading,
    said,
)
from filejobs_dagster.jobs.table_retention.work import Record, Work
from filejobs_dagster.postgres.connect import database_now
from filejobs_dagster.run_context import JobFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from filejobs_dagster.jobs.table_retention.due import Look, Missing
    from filejobs_dagster.jobs.table_retention.settings import (
        RetentionRuleSettings,
        TableRetentionRun,
    )
    from filejobs_dagster.jobs.table_retention.target import Raw
    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.postgres.connect import Connection, Database
    from filejobs_dagster.run_context import RunContext

MOST_COUNTED = 10_000
"""Rows that are due, or left, are counted up to here, for each rule."""

TOLD = 10
"""How many failed rules a run's error names."""


class Retention:
    """One run at work."""

    def __init__(self, context: RunContext, request: TableRetentionRun) -> None:
        self._context = context
        self._request = request
        self._ends_at = time.monotonic() + request.max_runtime.total_seconds()
        self._works = [Work(rule) for rule in chosen(request)]
        self._now = context.now()
        subset = request.only if len(self._works) < len(request.rules) else ()
        self._record = Record(context, self._works, self._now, subset=subset)

    def run(self) -> Outcome:
        """Everything, from the first look to the outcome."""
        for work in self._works:
            if self._time_is_over():
                break
            self._asking(work, self._begin)
        if self._context.live:
            self._take_turns()
            for work in self._works:
                if work.plan is not None:
                    self._asking(work, self._look_at_rest)
        return self._outcome()

    # The beginning ----------------------------------------------------------------------------

    def _asking(self, work: Work, ask: Callable[[Raw, Work], None]) -> None:
        """Ask something in a transaction of its own; what goes wrong is the rule's alone."""
        try:
            with reading(self._context.database, self._context.connection) as cursor:
                ask(cursor, work)
        except RuleRefused as refused:
            work.failed = work.failed or str(refused)
        except psycopg.Error as error:
            if ends_the_run(error, self._context.connection):
                raise
            if isinstance(error, psycopg.errors.QueryCanceled) and work.plan is not None:
                work.failed = work.failed or str(work.plan.too_slow())
            work.failed = work.failed or f"PostgreSQL refused: {said(error)}"

    def _begin(self, cursor: Raw, work: Work) -> None:
        plan = Plan.of(resolve(cursor, work.rule), self._now)
        work.begin(plan)
        unprivileged = plan.target.privileges()
        if unprivileged is not None and self._context.live:
            raise unprivileged
        missing = plan.missing_indexes(cursor)
        if missing and self._context.live:
            raise missing[0].refusal()
        refusals = [one.refusal() for one in missing]
        if unprivileged is not None:
            refusals.insert(0, unprivileged)
        work.notes += [f"a live run refuses it: {one}" for one in refusals]
        work.look = plan.look(cursor, MOST_COUNTED)
        work.notes += plan.warnings(work.look)
        self._say(work, f"{work.look.deletes} due, {work.look.scrubs} due to scrub")

    # Turns ------------------------------------------------------------------------------------

    def _take_turns(self) -> None:
        waiting = [work for work in self._works if work.plan is not None and not work.done]
        while waiting:
            for work in list(waiting):
                room = self._request.limit - self._record.totals().acted
                if room <= 0 or self._time_is_over():
                    self._record.books.stopped = LIMIT if room <= 0 else MAX_RUNTIME
                    return
                work.step(self._context, self._record, room)
                if work.done:
                    waiting.remove(work)
                went = work.tally.classes
                self._say(work, f"deleted {went[DELETED]:,}, scrubbed {went[SCRUBBED]:,}")

    def _time_is_over(self) -> bool:
        over = time.monotonic() >= self._ends_at
        if over:
            self._record.books.stopped = MAX_RUNTIME
        return over

    def _say(self, work: Work, what: str) -> None:
        self._context.log.info("rule %s: %s", work.rule.name, what)

    # The end ----------------------------------------------------------------------------------

    def _look_at_rest(self, cursor: Raw, work: Work) -> None:
        """Count what is left, and since when the oldest of it is due."""
        plan = work.plan
        if plan is None:  # pragma: no cover - asked of works with a plan
            return
        cursor.execute(IN_INDEX_ORDER)
        counts = [counted(cursor, each.count(MOST_COUNTED + 1), MOST_COUNTED) for each in plan.both]
        work.left = ", ".join(
            f"{count} {word}" for count, word in zip(counts, ("due", "due to scrub"), strict=False)
        )
        if work.done and work.failed is None:
            due = sum(count.rows for count in counts)
            held = max(0, due - work.tally.passed_over)
            never = counted(cursor, plan.delete.before_all_time(MOST_COUNTED), MOST_COUNTED).rows
            for fate, many in (
                (HELD, held),
                (NO_USABLE_TIME, never),
                (PENDING, len(plan.target.pending)),
            ):
                work.tally.count(fate, Meaning.PASSED_OVER, many)
        left = [
            moment + (self._now - each.cutoff)
            for each in plan.both
            if (moment := oldest(cursor, each)) is not None
        ]
        work.oldest_left = min(left, default=None)

    def _outcome(self) -> Outcome:
        record, works = self._record, self._works
        if record.books.stopped is not None and not any(work.plan or work.failed for work in works):
            raise JobFailed(
                f"The run's time ({self._request.max_runtime}) was over before it had looked at "
                "one rule. Give it more max_runtime."
            )
        failed = [work for work in works if work.failed is not None]
        oldest_left = min((work.oldest_left for work in works if work.oldest_left), default=None)
        return record.outcome(
            oldest_left=oldest_left,
            failed=bool(failed),
            error=_error(works, failed) or self._nothing_worked(),
        )

    def _nothing_worked(self) -> str | None:
        """A run in which every item failed has failed.

        Rows that others name or hold are none, and what failed before is no news: the same rows
        would make a run fail or not by what else happens to be due.
        """
        totals = self._record.totals()
        known = sum(work.tally.more[IN_USE] + work.tally.more[FAILED_AGAIN] for work in self._works)
        if totals.acted or totals.classes[REFUSED] + totals.classes[NOT_WON] <= known:
            return None
        reasons = [work.why_refused for work in self._works if work.why_refused is not None]
        why = reasons[0] if reasons else "a trigger left them alone"
        return (
            f"Of {totals.scanned:,} due rows none could be taken: {why}. Look at the foreign keys "
            "and triggers of the tables."
        )


def chosen(request: TableRetentionRun) -> list[RetentionRuleSettings]:
    """The rules that a run takes.

    Raises:
        JobFailed: One that it names is not in the settings.
    """
    unknown = sorted(set(request.only) - {rule.name for rule in request.rules})
    if unknown:
        known = ", ".join(rule.name for rule in request.rules)
        raise JobFailed(f"No rule is called {', '.join(unknown)}. The settings have: {known}.")
    return [rule for rule in request.rules if not request.only or rule.name in request.only]


def _error(works: list[Work], failed: list[Work]) -> str | None:
    if not failed:
        return None
    lines = [f"{work.rule.name}: {work.failed}" for work in failed[:TOLD]]
    if len(failed) > TOLD:
        lines.append(f"and {len(failed) - TOLD:,} more, see `rules` in the record")
    verb = "was" if len(failed) == 1 else "were"
    return "\n".join([f"{len(failed)} of {len(works)} rules {verb} not carried out.", *lines])


# Every rule with what is due now: what `filejobs retention` prints and `doctor` examines.


@dataclass(frozen=True)
class Examined:
    """One rule, looked at without a change.

    Attributes:
        rule: As the settings have it.
        plan: Its table and statements, or None when it is refused.
        look: What is due, or None when it could not be counted.
        missing: Indexes that it lacks: a live run refuses it.
        warnings: What somebody should know.
        refused: Why it cannot be carried out, or None.
        advice: What to do about that.
    """

    rule: RetentionRuleSettings
    plan: Plan | None = None
    look: Look | None = None
    missing: tuple[Missing, ...] = ()
    warnings: tuple[str, ...] = ()
    refused: str | None = None
    advice: str = ""


def examined(
    rules: Sequence[RetentionRuleSettings], database: Database, connection: Connection, most: int
) -> Iterator[Examined]:
    """Look at each rule, in a transaction of its own that only reads.

    Args:
        rules: Of the settings.
        database: Where the tables are.
        connection: An open connection to it.
        most: Due rows are counted up to here.

    Raises:
        psycopg.Error: The connection broke.
    """
    for rule in rules:
        try:
            yield _examined(rule, database, connection, most)
        except RuleRefused as refused:
            yield Examined(rule, refused=refused.found, advice=refused.advice)
        except psycopg.Error as error:
            if ends_the_run(error, connection):
                raise
            yield Examined(
                rule,
                refused=f"PostgreSQL refused: {said(error)}",
                advice="mend the rule's conditions, or give the table the index that it lacks",
            )


def _examined(
    rule: RetentionRuleSettings, database: Database, connection: Connection, most: int
) -> Examined:
    with reading(database, connection) as cursor:
        plan = Plan.of(resolve(cursor, rule), database_now(cursor))
        missing = tuple(plan.missing_indexes(cursor))
    try:
        with reading(database, connection) as cursor:
            look = plan.look(cursor, most)
    except psycopg.errors.QueryCanceled as error:
        if not missing:
            raise plan.too_slow() from None
        # What is wrong is known: counting without an index takes too long.
        return Examined(rule, plan, missing=missing, warnings=(f"not counted: {said(error)}",))
    return Examined(rule, plan, look, missing, tuple(plan.warnings(look)))
