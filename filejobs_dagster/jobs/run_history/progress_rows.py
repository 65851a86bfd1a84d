"""Our own rows of progress, which nobody needs once the record stands and is old."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from filejobs_dagster.book.bookkeeping import LIMIT, MAX_RUNTIME
from filejobs_dagster.jobs.run_history.detail import PROGRESS_ROWS
from filejobs_dagster.jobs.run_history.settings import JOB
from filejobs_dagster.jobs.run_history.statements import OLD_PROGRESS, REMOVE_PROGRESS

if TYPE_CHECKING:
    from filejobs_dagster.book.bookkeeping import Bookkeeping
    from filejobs_dagster.jobs.context import RunContext
    from filejobs_dagster.jobs.run_history.history import History
    from filejobs_dagster.jobs.run_history.settings import Request

PAGE = 1000

_BEFORE_ALL = datetime(1, 1, 2, tzinfo=timezone.utc)


class ProgressRows:
    """The pass over `job_progress`."""

    def __init__(
        self,
        context: RunContext,
        request: Request,
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
