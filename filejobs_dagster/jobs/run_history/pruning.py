"""The passes over Dagster's runs and over our rows of their progress."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from filejobs_dagster.audit.append import append
from filejobs_dagster.jobs.context import JobFailed
from filejobs_dagster.jobs.run_history import totals as fates
from filejobs_dagster.jobs.run_history.progress_rows import ProgressRows
from filejobs_dagster.jobs.run_history.settings import JOB
from filejobs_dagster.jobs.run_history.statements import RECORDED
from filejobs_dagster.jobs.run_history.totals import Totals
from filejobs_dagster.ledger.outcome import Outcome
from filejobs_dagster.ledger.sanitize import sanitize

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from filejobs_dagster.jobs.context import RunContext
    from filejobs_dagster.jobs.run_history.history import History, OldRun
    from filejobs_dagster.jobs.run_history.settings import Request

NOT_LASTING = (
    "Dagster keeps this run in a storage that goes with the process (no DAGSTER_HOME), so there is "
    "no history to prune. Nothing was looked at."
)


class Pruning:
    """A run at work."""

    def __init__(self, context: RunContext, request: Request, history: History) -> None:
        self._context = context
        self._request = request
        self._history = history
        self._ends_at = time.monotonic() + request.max_runtime.total_seconds()
        self._totals = Totals(context.live, context.now() - request.keep)
        self._batch = 0

    def run(self) -> Outcome:
        """Prune runs, then rows of progress."""
        if not self._history.lasting:
            self._context.log.warning("%s", NOT_LASTING)
            return Outcome(detail={"explained": NOT_LASTING, "truncated": False, "swept": False})
        totals = self._totals
        for page in self._history.over(totals.cutoff):
            self._take(page)
            if totals.stopped is not None:
                break
        rows = ProgressRows(self._context, self._request, self._history, totals)
        rows.prune(self._ends_at)
        return Outcome(totals.scanned, totals.acted, totals.as_detail(self._request))

    def _take(self, page: Sequence[OldRun]) -> None:
        due = list(self._due(page))
        size = self._request.batch_size
        for start in range(0, len(due), size):
            room = self._request.limit - self._totals.classes[fates.PRUNED]
            batch = due[start : start + min(size, max(room, 0))]
            if not self._may_go_on(room):
                self._totals.leave(min(run.ended_at for run in due[start:]))
                return
            self._remove(batch)
            if len(batch) < len(due[start : start + size]):
                self._totals.stopped = "limit"
                self._totals.leave(min(run.ended_at for run in due[start + len(batch) :]))
                return
        self._commit()

    def _may_go_on(self, room: int) -> bool:
        if room <= 0:
            self._totals.stopped = "limit"
        elif time.monotonic() >= self._ends_at:
            self._totals.stopped = "max_runtime"
        return self._totals.stopped is None

    def _due(self, page: Sequence[OldRun]) -> Iterator[OldRun]:
        """Those of a page that go; the others are counted under what keeps them."""
        run_ids = [run.run_id for run in page]
        recorded = self._recorded(run_ids)
        leaned_on = self._history.leaned_on(run_ids, self._totals.cutoff)
        backfills = self._history.open_backfills({run.backfill for run in page if run.backfill})
        for run in page:
            kept_as = self._kept_as(run, recorded.get(run.run_id), leaned_on, backfills)
            if kept_as is None:
                yield run
            else:
                self._totals.count(kept_as, run)

    def _kept_as(
        self,
        run: OldRun,
        recorded_end: datetime | None,
        leaned_on: set[str],
        open_backfills: set[str],
    ) -> str | None:
        """Why a run is kept; None when nothing keeps it."""
        cutoff = self._totals.cutoff
        if run.run_id == self._context.identity.run_id:
            return fates.ITSELF
        if recorded_end is None:
            return fates.NOT_RECORDED
        if recorded_end >= cutoff or run.ended_at >= cutoff:
            return fates.RECORD_TOO_YOUNG
        if run.backfill in open_backfills:
            return fates.BACKFILL_OPEN
        if run.run_id in leaned_on:
            return fates.LEANED_ON
        return fates.AWAITS_RETRY if run.awaits_retry else None

    def _recorded(self, run_ids: list[str]) -> dict[str, datetime]:
        """When each of the runs ended, as its record says; a run without one is left out."""
        context = self._context
        with context.database.transaction(context.connection, read_only=True) as cursor:
            cursor.execute(
                RECORDED, {"run_ids": run_ids, "installation": context.identity.installation}
            )
            return dict(cursor.fetchall())

    def _remove(self, batch: Sequence[OldRun]) -> None:
        if not self._context.live:
            for run in batch:
                self._totals.count(fates.PRUNED, run)
            return
        self._batch += 1
        self._context.prove_alive()
        self._write_event("intent", runs=[run.run_id for run in batch])
        reasons = self._history.remove_all([run.run_id for run in batch])
        failed = {run_id: sanitize(reason) for run_id, reason in reasons.items()}
        for run in batch:
            if run.run_id in failed:
                self._totals.leave(run.ended_at)
                self._totals.count(fates.NOT_REMOVED, run, failed[run.run_id])
            else:
                self._totals.count(fates.PRUNED, run)
        self._write_event("result", removed=len(batch) - len(failed), failed=failed)
        self._commit()
        self._context.log.info("removed %s runs", f"{self._totals.acted:,}")
        if len(failed) == len(batch):
            first = next(iter(failed.values()))
            raise JobFailed(
                f"Not one of {len(batch):,} runs could be removed: {first}\n"
                "What is left of them is found again by the next run."
            )

    def _write_event(self, what: str, **facts: object) -> None:
        context = self._context
        event = {
            "kind": f"{JOB}.prune.{what}",
            "job": JOB,
            "run_id": context.identity.run_id,
            "batch": self._batch,
            "cutoff": self._totals.cutoff.isoformat(),
            **facts,
        }
        with context.database.transaction(context.connection) as cursor:
            append(cursor, [event])

    def _commit(self) -> None:
        context, totals = self._context, self._totals
        with context.database.transaction(context.connection) as cursor:
            context.progress.advance(
                cursor,
                scanned=totals.scanned,
                acted=totals.acted,
                detail=totals.as_detail(self._request),
            )
