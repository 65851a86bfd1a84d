"""Our own rows of progress, which nobody needs once the record stands and is old."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from filejobs_dagster.audit.append import append
from filejobs_dagster.jobs.run_history.settings import JOB
from filejobs_dagster.jobs.run_history.statements import OLD_PROGRESS, REMOVE_PROGRESS

if TYPE_CHECKING:
    from filejobs_dagster.jobs.context import RunContext
    from filejobs_dagster.jobs.run_history.history import History
    from filejobs_dagster.jobs.run_history.settings import Request
    from filejobs_dagster.jobs.run_history.totals import Totals

PAGE = 1000

_BEFORE_ALL = datetime(1, 1, 2, tzinfo=timezone.utc)


class ProgressRows:
    """The pass over `job_progress`."""

    def __init__(
        self, context: RunContext, request: Request, history: History, totals: Totals
    ) -> None:
        self._context = context
        self._request = request
        self._history = history
        self._totals = totals
        self._place: tuple[datetime, str] = (_BEFORE_ALL, "")

    def prune(self, ends_at: float) -> None:
        """Remove pages until none is left, the limit is reached or the time (monotonic) is over."""
        while self._totals.stopped is None:
            page = self._page()
            if not page:
                return
            if time.monotonic() >= ends_at:
                self._totals.stopped = "max_runtime"
            elif self._totals.progress_rows >= self._request.limit:
                self._totals.stopped = "limit"
            else:
                self._take(page)

    def _page(self) -> list[str]:
        context = self._context
        closed_at, run_id = self._place
        with context.database.transaction(context.connection, read_only=True) as cursor:
            cursor.execute(
                OLD_PROGRESS,
                {
                    "installation": context.identity.installation,
                    "cutoff": self._totals.cutoff,
                    "closed_at": closed_at,
                    "run_id": run_id,
                    "limit": min(PAGE, max(1, self._request.limit - self._totals.progress_rows)),
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
            self._totals.progress_rows += len(going)
            return
        self._context.prove_alive()
        context, totals = self._context, self._totals
        with context.database.transaction(context.connection) as cursor:
            cursor.execute(
                REMOVE_PROGRESS,
                {
                    "run_ids": going,
                    "installation": context.identity.installation,
                    "cutoff": totals.cutoff,
                },
            )
            removed = cursor.rowcount
            totals.progress_rows += removed
            context.progress.advance(
                cursor,
                scanned=totals.scanned,
                acted=totals.acted,
                detail=totals.as_detail(self._request),
            )
            append(
                cursor,
                [
                    {
                        "kind": f"{JOB}.progress.removed",
                        "job": JOB,
                        "run_id": context.identity.run_id,
                        "cutoff": totals.cutoff.isoformat(),
                        "rows": removed,
                    }
                ],
            )
