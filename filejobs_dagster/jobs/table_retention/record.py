"""Writing down what a run does: its progress, its audit events, its final word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from filejobs_dagster.audit.append import append
from filejobs_dagster.jobs.collecting.totals import HELD, NO_USABLE_TIME
from filejobs_dagster.jobs.table_retention.settings import JOB
from filejobs_dagster.settings import format_duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.jobs.context import RunContext
    from filejobs_dagster.jobs.table_retention.look import Count
    from filejobs_dagster.jobs.table_retention.tally import Tally
    from filejobs_dagster.jobs.table_retention.work import Work

SHOWN = 200
"""How many rows of each list a run's record holds."""

DELETED, SCRUBBED, DROPPED = "deleted", "scrubbed", "partitions dropped"
PENDING = "partitions pending detach"
CHILDREN, REFUSED, NOT_WON = "children deleted", "refused by PostgreSQL", "left by a trigger"
WOULD_DELETE, WOULD_SCRUB = "would delete", "would scrub"


@dataclass
class Record:
    """The record of one run.

    Attributes:
        context: The run.
        works: Its rules.
        now: The moment of the database's clock that every cutoff is counted from.
        subset: Names of the rules when the run does not take all of them.
        stopped: Why the run ended before everything was done, or None.
    """

    context: RunContext
    works: Sequence[Work]
    now: datetime
    subset: tuple[str, ...] = ()
    stopped: str | None = None

    def write(
        self,
        cursor: psycopg.Cursor[TupleRow],
        work: Work,
        tally: Tally,
        kind: str | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        """Write the totals with one rule's new tally, and an audit event, last and shortest.

        Raises:
            GivenUp: The run's record stands already: roll back and stop.
        """
        tallies = [tally if each is work else each.tally for each in self.works]
        self.context.progress.advance(
            cursor,
            scanned=sum(each.scanned for each in tallies),
            acted=sum(each.acted for each in tallies),
            detail=self.detail(tallies),
        )
        if kind is not None and work.plan is not None:
            append(cursor, [{
                "kind": kind,
                "job": JOB,
                "run_id": self.context.identity.run_id,
                "rule": work.rule.name,
                "table": str(work.plan.target.table),
                **(facts or {}),
            }])  # fmt: skip

    @property
    def tallies(self) -> list[Tally]:
        """What is committed, rule by rule."""
        return [work.tally for work in self.works]

    @property
    def acted(self) -> int:
        """Items taken so far."""
        return sum(tally.acted for tally in self.tallies)

    def detail(self, tallies: Sequence[Tally] | None = None) -> dict[str, Any]:
        """The run as `job_run.detail` holds it."""
        live, found = self.context.live, self.tallies if tallies is None else tallies
        detail: dict[str, Any] = {
            "cutoff": self.now.isoformat(),
            "classes": {name: many for name, many in self._classes(found).items() if many},
            "rules": [
                self._row(work, tally) for work, tally in zip(self.works, found, strict=True)
            ][:SHOWN],
            "warnings": [
                {"rule": work.rule.name, "warning": note}
                for work in self.works
                for note in work.notes
            ][:SHOWN],
            "truncated": self.stopped is not None,
            "stopped_reason": self.stopped,
        }
        if self.subset:
            # Whoever judges the job must not take it for a run over everything.
            detail["window"] = {"covers": f"rules: {', '.join(self.subset)}"}
        if live:
            detail["dropped"] = [
                {
                    "partition": str(one.relation),
                    "bounds": one.bounds,
                    "rows (estimate)": one.estimate,
                }
                for work in self.works
                for one in work.dropped
            ][:SHOWN]
            detail["untouched"] = sum(tally.passed_over for tally in found)
            return detail
        looks = [work.look for work in self.works if work.look is not None]
        return detail | {
            "would_collect": sum(look.deletes.rows + look.scrubs.rows for look in looks),
            "would_collect_is_floor": any(look.deletes.more or look.scrubs.more for look in looks),
        }

    def _classes(self, tallies: Sequence[Tally]) -> dict[str, int]:
        if not self.context.live:
            looks = [work.look for work in self.works if work.look is not None]
            return {
                WOULD_DELETE: sum(look.deletes.rows for look in looks),
                WOULD_SCRUB: sum(look.scrubs.rows for look in looks),
            }
        return {
            DELETED: sum(tally.deleted for tally in tallies),
            SCRUBBED: sum(tally.scrubbed for tally in tallies),
            DROPPED: sum(tally.partitions for tally in tallies),
            CHILDREN: sum(tally.children for tally in tallies),
            REFUSED: sum(tally.refused for tally in tallies),
            NOT_WON: sum(tally.not_won for tally in tallies),
            HELD: sum(tally.held for tally in tallies),
            PENDING: sum(tally.pending for tally in tallies),
            NO_USABLE_TIME: sum(tally.before_all_time for tally in tallies),
        }

    def _row(self, work: Work, tally: Tally) -> dict[str, str | int]:
        look, plan = work.look, work.plan
        # A dry run has no number of things done; unknown is a dash and never zero.
        done: dict[str, str | int] = {
            "deleted": tally.deleted, "scrubbed": tally.scrubbed, "partitions": tally.partitions,
        }  # fmt: skip
        if not self.context.live:
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
            "refused": tally.refused,
            "held": tally.held,
            "left": work.left,
            "without time": _said(None if look is None else look.without_time),
            "reason": work.failed or work.why_refused or "-",
        }

    def final(self, *, swept: bool, oldest_left: datetime | None) -> dict[str, Any]:
        """The detail of the final word."""
        return self.detail() | {
            "swept": swept,
            "oldest_left": None if oldest_left is None else oldest_left.isoformat(),
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
