"""A rule in SQL: due rows are deleted or changed, in batches, each claim one transaction."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from filejobs_dagster.book.bookkeeping import Bookkeeping, nothing_worked
from filejobs_dagster.book.totals import Meaning, Totals
from filejobs_dagster.jobs.collecting.collection import Collection as AnyCollection
from filejobs_dagster.jobs.collecting.collection import count_not_won
from filejobs_dagster.jobs.collecting.detail import REFUSED_ANEW, WOULD_COLLECT
from filejobs_dagster.jobs.upload_reservations.collection import Collection
from filejobs_dagster.jobs.upload_reservations.opening import opened_tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from filejobs_dagster.jobs.own.settings import OwnRuleSettings
    from filejobs_dagster.jobs.upload_reservations.file_table import ClaimUnconfirmed, Reservation
    from filejobs_dagster.jobs.upload_reservations.operator_table import OperatorTable
    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.run_context import RunContext

DELETED, CHANGED = "deleted", "changed"


def take_rows(context: RunContext, request: OwnRuleSettings) -> Outcome:
    """Take the due rows of a rule, or in a dry run say which would go.

    Args:
        context: The run.
        request: The rule and its limits.

    Returns:
        The outcome: failed when PostgreSQL refused every row.

    Raises:
        SourceRefused: The table is another one than the rule says. Nothing was claimed.
        DatabaseUnavailable: The rule's own database cannot be reached.
    """
    wanted = [(request.rule, timedelta(0))]
    with opened_tables(wanted, context.database, lambda: context.connection) as (source,):
        return Rows(context, request, source).run()


class Rows(Collection):
    """One run at work, over rows that name no object: once they are claimed, all is done."""

    rows = "rows"

    def __init__(
        self, context: RunContext, request: OwnRuleSettings, source: OperatorTable
    ) -> None:
        """Prepare; nothing is sent yet.

        Args:
            context: The run.
            request: The rule and its limits.
            source: Its table.
        """
        rule = request.rule
        self._grace = request.older_than
        self._fate = DELETED if rule.set is None else CHANGED
        self._source = source
        self._sources = (self._source,)
        books = Bookkeeping(context, Totals(live=context.live, measured=False), self._detail)
        # No bucket, and nothing to remove from one: what asks for either is overridden here.
        nothing = cast("Any", None)
        AnyCollection.__init__(self, context, request, nothing, books, nothing, place=rule.name)

    def _check_bucket(self) -> None:
        """There is none."""

    def _prepare(self) -> None:
        """There is nothing to prepare."""

    def _kept_for_its_name(self, row: Reservation) -> None:
        """It has no name in a bucket."""

    def _made_from(self, rows: Sequence[Reservation], beside: Sequence[str]) -> None:
        """No object was made from theirs."""

    def _objects_of(self, won: Sequence[Reservation]) -> list[str]:
        """No object goes with a row."""
        del won
        return []

    def _report_batch(self, batch: Sequence[Reservation], *_: Any) -> None:
        self._books.batch += 1
        self._books.totals.claimed += len(batch)
        for row in batch:
            self._books.totals.note(WOULD_COLLECT, str(row.id), Meaning.WOULD_GO)
        self._books.commit()

    def _count_claim(self, totals: Totals, won: int, wanted: int) -> None:
        count_not_won(totals, wanted - won)
        if not self._source.elsewhere:
            totals.count(self._fate, Meaning.DONE, won)

    def _take_bytes(self, won: Sequence[Reservation]) -> None:
        """What the claim has written down, now that it is committed."""
        self._books.totals.count(self._fate, Meaning.DONE, len(won))
        if self._source.elsewhere:
            (event,) = self._events_of(won)
            self._books.commit_result(event)

    def _leave(self, unconfirmed: ClaimUnconfirmed) -> None:
        """Nothing is left beside the rows, and their intent stands."""

    def _intents_of(self, won: Sequence[Reservation]) -> Iterator[dict[str, Any]]:
        for event in self._events_of(won):
            yield {**event, "kind": "rows.intent", "to_be": self._fate}

    def _events_of(self, won: Sequence[Reservation]) -> Iterator[dict[str, Any]]:
        """One event a batch: counts, and from when to when rows were due; never their values."""
        if won:
            yield self._books.event_of_batch(
                f"rows.{self._fate}",
                source=self._source.name,
                rows=len(won),
                due_from=min(row.due for row in won).isoformat(),
                due_to=max(row.due for row in won).isoformat(),
                also_deleted=self._source.also_deleted() or None,
            )

    def _detail(self, totals: Totals) -> Mapping[str, Any]:
        counted = {"claimed": totals.claimed}
        if not totals.live:
            counted = {"would_collect": totals.classes[WOULD_COLLECT]}
        shown = totals.as_detail()
        return {
            "classes": shown["classes"],
            "samples": shown["samples"],
            "untouched": totals.passed_over,
            **counted,
        }

    def _nothing_worked(self) -> str | None:
        totals = self._books.totals
        return nothing_worked(
            totals,
            worked=totals.acted,
            failed=totals.more[REFUSED_ANEW] if totals.live else 0,
            what=f"Of {totals.scanned:,} rows PostgreSQL let none go",
            advice="the constraints and triggers that refuse the claim",
        )
