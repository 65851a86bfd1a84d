"""Writing down what a run does: its progress, its audit events, its final word."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from filejobs_dagster.audit.append import append
from filejobs_dagster.book.bookkeeping import Bookkeeping, counted_by_passes
from filejobs_dagster.book.totals import Meaning, Totals
from filejobs_dagster.jobs.collecting.detail import HELD, NO_USABLE_TIME, unusable_rows
from filejobs_dagster.jobs.table_retention.detail import (
    DELETED,
    DROPPED,
    REFUSED,
    SCRUBBED,
    WOULD_DELETE,
    WOULD_SCRUB,
    RetentionDetail,
)
from filejobs_dagster.settings import format_duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.book.bookkeeping import Taken
    from filejobs_dagster.jobs.context import RunContext
    from filejobs_dagster.jobs.table_retention.look import Count
    from filejobs_dagster.jobs.table_retention.work import Work
    from filejobs_dagster.ledger.outcome import Outcome

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
            "partitions": tally.classes[DROPPED],
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
