"""The passes over Dagster's runs and over our rows of their progress.

What it asks our own database is here: which records stand, and which rows of progress nobody needs.
"""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from filejobs_dagster.book.bookkeeping import LIMIT, MAX_RUNTIME, Bookkeeping
from filejobs_dagster.book.totals import Meaning, Totals
from filejobs_dagster.jobs.run_history import detail as fates
from filejobs_dagster.jobs.run_history.detail import PROGRESS_ROWS
from filejobs_dagster.jobs.run_history.settings import JOB
from filejobs_dagster.ledger.outcome import Outcome
from filejobs_dagster.run_context import JobFailed
from filejobs_dagster.text import sanitize

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from filejobs_dagster.jobs.run_history.settings import History, OldRun, RunHistoryRun
    from filejobs_dagster.run_context import RunContext

# What run_history asks our own database.

RECORDED = """
SELECT run_id, finished_at
  FROM job_run
 WHERE run_id = ANY(%(run_ids)s)
   AND installation = %(installation)s
"""

# Both are set in one transaction, but only the record is for ever: it alone makes the row needless.
OLD_PROGRESS = """
SELECT progress.run_id, progress.closed_at
  FROM job_progress AS progress
 WHERE progress.installation = %(installation)s
   AND progress.closed_at < %(cutoff)s
   AND (progress.closed_at, progress.run_id) > (%(closed_at)s, %(run_id)s)
   AND EXISTS (SELECT FROM job_run WHERE job_run.run_id = progress.run_id)
 ORDER BY progress.closed_at, progress.run_id
 LIMIT %(limit)s
"""

REMOVE_PROGRESS = """
DELETE FROM job_progress AS progress
 WHERE progress.run_id = ANY(%(run_ids)s)
   AND progress.installation = %(installation)s
   AND progress.closed_at < %(cutoff)s
   AND EXISTS (SELECT FROM job_run WHERE job_run.run_id = progress.run_id)
"""


# Our own rows of progress, which nobody needs once the record stands and is old.

PAGE = 1000

_BEFORE_ALL = datetime(1, 1, 2, tzinfo=timezone.utc)


class ProgressRows:
    """The pass over `job_progress`."""

    def __init__(
        self,
        context: RunContext,
        request: RunHistoryRun,
        history: History,
        books: Bookkeeping,
        cutoff: datetime,
    ) -> None:
        self._context = context
        self._request = request
        self._history = history
        self._books = books
        self._cutoff = cutoff
        self._place: tuple[datetime, str] = (_BEFORE_ALL, "")

    def prune(self, ends_at: float) -> None:
        """Remove pages until none is left, the limit is reached or the time (monotonic) is over."""
        while self._books.stopped is None:
            page = self._page()
            if not page:
                return
            if time.monotonic() >= ends_at:
                self._books.stopped = MAX_RUNTIME
            elif self._books.totals.more[PROGRESS_ROWS] >= self._request.limit:
                self._books.stopped = LIMIT
            else:
                self._take(page)

    def _page(self) -> list[str]:
        context = self._context
        closed_at, run_id = self._place
        done = self._books.totals.more[PROGRESS_ROWS]
        with context.database.transaction(context.connection, read_only=True) as cursor:
            cursor.execute(
                OLD_PROGRESS,
                {
                    "installation": context.identity.installation,
                    "cutoff": self._cutoff,
                    "closed_at": closed_at,
                    "run_id": run_id,
                    "limit": min(PAGE, max(1, self._request.limit - done)),
                },
            )
            rows = cursor.fetchall()
        if rows:
            self._place = (rows[-1][1], rows[-1][0])
        return [row[0] for row in rows]

    def _take(self, page: list[str]) -> None:
        # The row says to whoever ends runs in Dagster that this one is over.
        needed = self._history.not_over(page)
        going = [run_id for run_id in page if run_id not in needed]
        if not self._context.live:
            self._books.totals.more[PROGRESS_ROWS] += len(going)
            return
        self._context.prove_alive()
        context = self._context
        with context.database.transaction(context.connection) as cursor:
            cursor.execute(
                REMOVE_PROGRESS,
                {
                    "run_ids": going,
                    "installation": context.identity.installation,
                    "cutoff": self._cutoff,
                },
            )
            removed = cursor.rowcount
            self._books.totals.more[PROGRESS_ROWS] += removed
            event = self._books.event(
                f"{JOB}.progress.removed", cutoff=self._cutoff.isoformat(), rows=removed
            )
            self._books.write(cursor, event)


NOT_LASTING = (
    "Dagster keeps this run in a storage that goes with the process (no DAGSTER_HOME), so there is "
    "no history to prune. Nothing was looked at."
)


class Pruning:
    """A run at work."""

    def __init__(self, context: RunContext, request: RunHistoryRun, history: History) -> None:
        self._context = context
        self._request = request
        self._history = history
        self._ends_at = time.monotonic() + request.max_runtime.total_seconds()
        self._cutoff = context.now() - request.keep
        self._books = Bookkeeping(context, Totals(live=context.live), fates.detail_of)
        self._books.facts |= {
            "cutoff": self._cutoff.isoformat(),
            "keep_seconds": round(request.keep.total_seconds()),
        }

    def run(self) -> Outcome:
        """Prune runs, then rows of progress."""
        if not self._history.lasting:
            self._context.log.warning("%s", NOT_LASTING)
            return Outcome(detail={"explained": NOT_LASTING, "truncated": False, "swept": False})
        for page in self._history.over(self._cutoff):
            self._take(page)
            if self._books.stopped is not None:
                break
        rows = ProgressRows(self._context, self._request, self._history, self._books, self._cutoff)
        rows.prune(self._ends_at)
        ended = self._books.totals.oldest_left
        return self._books.outcome(
            oldest_left=None if ended is None else ended + self._request.keep
        )

    def _take(self, page: Sequence[OldRun]) -> None:
        due = list(self._due(page))
        size = self._request.batch_size
        for start in range(0, len(due), size):
            room = self._request.limit - self._books.totals.claimed
            batch = due[start : start + min(size, max(room, 0))]
            if not self._may_go_on(room):
                self._books.totals.leave(min(run.ended_at for run in due[start:]))
                return
            self._remove(batch)
            if len(batch) < len(due[start : start + size]):
                self._books.stopped = LIMIT
                self._books.totals.leave(min(run.ended_at for run in due[start + len(batch) :]))
                return
        self._books.commit()

    def _may_go_on(self, room: int) -> bool:
        if room <= 0:
            self._books.stopped = LIMIT
        elif time.monotonic() >= self._ends_at:
            self._books.stopped = MAX_RUNTIME
        return self._books.stopped is None

    def _due(self, page: Sequence[OldRun]) -> Iterator[OldRun]:
        """Those of a page that go; the others are counted under what keeps them."""
        run_ids = [run.run_id for run in page]
        recorded = self._recorded(run_ids)
        leaned_on = self._history.leaned_on(run_ids, self._cutoff)
        backfills = self._history.open_backfills({run.backfill for run in page if run.backfill})
        for run in page:
            kept_as = self._kept_as(run, recorded.get(run.run_id), leaned_on, backfills)
            if kept_as is None:
                yield run
            else:
                self._note(kept_as, run, Meaning.STAYS)

    def _kept_as(
        self,
        run: OldRun,
        recorded_end: datetime | None,
        leaned_on: set[str],
        open_backfills: set[str],
    ) -> str | None:
        """Why a run is kept; None when nothing keeps it."""
        cutoff = self._cutoff
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
            self._count(fates.WOULD_BE_PRUNED, Meaning.WOULD_GO, len(batch))
            return
        self._books.batch += 1
        self._context.prove_alive()
        self._write_event("intent", runs=[run.run_id for run in batch])
        reasons = self._history.remove_all([run.run_id for run in batch])
        failed = {run_id: sanitize(reason) for run_id, reason in reasons.items()}
        for run in batch:
            if run.run_id in failed:
                self._books.totals.leave(run.ended_at)
                self._note(fates.NOT_REMOVED, run, Meaning.LEFT, failed[run.run_id])
        self._count(fates.PRUNED, Meaning.DONE, len(batch) - len(failed))
        self._write_event("result", removed=len(batch) - len(failed), failed=failed)
        self._books.commit()
        self._context.log.info("removed %s runs", f"{self._books.totals.acted:,}")
        if len(failed) == len(batch):
            first = next(iter(failed.values()))
            raise JobFailed(
                f"Not one of {len(batch):,} runs could be removed: {first}\n"
                "What is left of them is found again by the next run."
            )

    def _write_event(self, what: str, **facts: object) -> None:
        cutoff = self._cutoff.isoformat()
        event = self._books.event_of_batch(f"{JOB}.prune.{what}", cutoff=cutoff, **facts)
        self._books.write_events([event])

    def _note(self, fate: str, run: OldRun, means: Meaning, why: str | None = None) -> None:
        self._books.totals.scanned += 1
        shown = f"{run.run_id} ({run.job}, {run.ended_at:%Y-%m-%d})"
        self._books.totals.note(fate, shown, means, why=why)

    def _count(self, fate: str, means: Meaning, many: int) -> None:
        """Count runs that go, or would: they use up the limit, and nobody needs to see them."""
        self._books.totals.scanned += many
        self._books.totals.claimed += many
        self._books.totals.count(fate, means, many)
