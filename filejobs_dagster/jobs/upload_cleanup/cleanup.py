"""One run: abandoned claims, due rows in batches, what is uncertain, and what is left."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from filejobs_dagster.book.bookkeeping import LIMIT, MAX_RUNTIME, Bookkeeping, nothing_worked
from filejobs_dagster.book.outcomes import StorageRejected
from filejobs_dagster.book.totals import KEPT, Meaning, Totals
from filejobs_dagster.jobs.collecting.detail import HELD
from filejobs_dagster.jobs.setbacks import WAITS, Setbacks, as_item
from filejobs_dagster.jobs.upload_cleanup.claims import (
    Span,
    any_due,
    candidates,
    claim,
    oldest_left,
    paused,
    take_over,
)
from filejobs_dagster.jobs.upload_cleanup.detail import (
    AMBIGUOUS,
    CLEANED,
    RETAINED,
    SUPERSEDED,
    WOULD_COLLECT,
    detail_of,
    dropped,
)
from filejobs_dagster.jobs.upload_cleanup.looking import Findings, look
from filejobs_dagster.jobs.upload_cleanup.reconciliation import Reconciliation
from filejobs_dagster.jobs.upload_cleanup.removal import Batch
from filejobs_dagster.jobs.upload_cleanup.statements import PLACE, left
from filejobs_dagster.ledger.outcome import EVERYTHING
from filejobs_dagster.objects.client import check_access
from filejobs_dagster.objects.deletion_mode import DeletionMode, VersioningUnknown, deletion_mode_of
from filejobs_dagster.postgres.connect import trying_again
from filejobs_dagster.run_context import JobFailed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from filejobs_dagster.jobs.upload_cleanup import Storage, UploadCleanupRun
    from filejobs_dagster.jobs.upload_cleanup.claims import Upload
    from filejobs_dagster.ledger.outcome import Outcome
    from filejobs_dagster.run_context import RunContext

MOST_COUNTED = 10_000
"""What waits, is uncertain, retained or dead is counted up to here."""


class Cleanup:
    """One run at work. The methods follow the order in which things happen."""

    def __init__(self, context: RunContext, request: UploadCleanupRun, storage: Storage) -> None:
        self._context = context
        self._request = request
        self._storage = storage
        totals = Totals(live=context.live)
        self._books = Bookkeeping(context, totals, detail_of, bucket=storage.bucket)
        self._setbacks = Setbacks(context, PLACE)
        self._ends_at = time.monotonic() + request.max_runtime.total_seconds()

    def run(self) -> Outcome:
        """Everything, from the abandoned claims to the outcome."""
        check_access(self._storage.client, self._storage.bucket)
        cutoff = self._context.now()
        if self._context.live:
            trying_again(self._take_over, cutoff)
        span = Span.of(self._context.window, cutoff)
        self._work(span)
        # A backlog above the limit must not keep uncertain uploads from being asked about.
        if self._context.window.everything and self._books.stopped in (None, LIMIT):
            Reconciliation(
                self._context,
                self._request,
                self._storage,
                self._books,
                self._setbacks,
                self._ends_at,
            ).run(cutoff)
            if self._context.live and self._books.stopped is None:
                # What has just been resolved to cleanup, or released.
                self._work(span)
        if self._books.stopped is None:
            self._setbacks.forget_old()
        return self._outcome(span)

    def _take_over(self, cutoff: datetime) -> None:
        with self._books.writing() as (cursor, totals, events):
            rows = take_over(
                cursor, self._context.identity.run_id, cutoff, self._request.max_attempts
            )
            totals.more["taken_over"] += len(rows)
            events.extend(
                self._books.event(
                    "upload.dead_letter", upload=str(row), storage_key=key, reason="abandoned"
                )
                for row, key, dead, _ in rows
                if dead
            )
            # Whose worker dies each time waits as after any other failure.
            why = "the run that had claimed it ended without a result"
            again = {as_item(row): why for row, _, dead, before in rows if before and not dead}
            self._setbacks.write(cursor, again, [as_item(row) for row, _, dead, _ in rows if dead])
        if rows:
            self._context.log.warning(
                "%d uploads were claimed by a run that ended without a result; they are free "
                "again.",
                len(rows),
            )

    # Rows in cleanup ---------------------------------------------------------------------------

    def _work(self, span: Span) -> None:
        if not self._context.live:
            for seen in self._seen(span):
                self._report(seen)
            return
        batch = Batch(
            self._context,
            self._request,
            self._storage,
            self._books,
            self._setbacks,
            self._deletion_mode(),
        )
        for again in (False, True):
            for rows in self._claimed(span, again=again):
                batch.run(rows)
                self._say()
        if self._books.stopped is None:
            with self._books.reading() as cursor:
                if any_due(cursor, span):
                    self._books.stopped = self._why_not_all()

    def _deletion_mode(self) -> DeletionMode:
        """In which manner this bucket removes; nothing is tried out."""
        try:
            return deletion_mode_of(
                self._storage.client,
                self._storage.bucket,
                purge_versions=self._storage.purge_versions,
            )
        except VersioningUnknown as error:
            raise JobFailed(f"{error} Nothing was claimed.") from error

    def _claimed(self, span: Span, *, again: bool) -> Iterator[list[Upload]]:
        """Batches of claimed rows, until nothing is due or a limit says stop."""
        while (room := self._room()) > 0 and time.monotonic() < self._ends_at:
            size = min(room, self._request.batch_size)
            rows = trying_again(self._claim, span, size, again=again)
            if not rows:
                return
            yield rows

    def _why_not_all(self) -> str | None:
        """Which limit was reached; None: what is still due is held by another session."""
        if self._room() <= 0:
            return LIMIT
        return MAX_RUNTIME if time.monotonic() >= self._ends_at else None

    def _say(self) -> None:
        """One line of progress."""
        books = self._books
        self._context.log.info(
            "batch %d: %s rows so far: %s",
            books.batch,
            f"{books.totals.scanned:,}",
            books.totals.in_words() or "none",
        )

    def _room(self) -> int:
        """How much of the limit is left; what failed does not use it up."""
        return self._request.limit - self._settled()

    def _settled(self) -> int:
        """Rows whose object is gone, or is another's, or is kept by a lock."""
        return sum(self._books.totals.classes[fate] for fate in (*CLEANED, RETAINED))

    def _claim(self, span: Span, size: int, *, again: bool) -> list[Upload]:
        """Rows, progress and the intent: one transaction."""
        self._context.prove_alive()
        self._books.batch += 1
        with self._books.writing() as (cursor, totals, events):
            run_id = self._context.identity.run_id
            rows = claim(cursor, span, size, run_id, self._request, again=again)
            totals.scanned += len(rows)
            totals.claimed += len(rows)
            # Until their result is written nobody knows: a run killed in between leaves them.
            totals.intended += len(rows)
            if rows:
                events.append(
                    self._books.event_of_batch(
                        "objects.delete.intent",
                        keys=[row.key for row in rows],
                        uploads={str(row.id): row.attempt for row in rows},
                    )
                )
        return rows

    # A dry run ---------------------------------------------------------------------------------

    def _seen(self, span: Span) -> Iterator[list[Upload]]:
        done = 0
        for again in (False, True):
            after: Upload | None = None
            while done < self._request.limit and time.monotonic() < self._ends_at:
                size = min(self._request.batch_size, self._request.limit - done)
                with self._books.reading() as cursor:
                    rows = candidates(cursor, span, size, after, again=again)
                done += len(rows)
                if rows:
                    after = rows[-1]
                    yield rows
                if len(rows) < size:
                    break
            else:
                with self._books.reading() as cursor:
                    if candidates(cursor, span, 1, after, again=again):
                        reached = done >= self._request.limit
                        self._books.stopped = LIMIT if reached else MAX_RUNTIME
                        return

    def _report(self, rows: Sequence[Upload]) -> None:
        """What would happen, and no mutating call."""
        self._books.batch += 1
        kept = {row.id: self._storage.gate.owned(row.key) for row in rows}
        findings = Findings()
        try:
            ready = look(
                self._storage.client,
                self._storage.bucket,
                [row for row in rows if kept[row.id] is None],
                findings,
            )
        except StorageRejected as rejected:
            raise JobFailed(rejected.reason) from rejected
        with self._books.writing() as (_, totals, _events):
            totals.scanned += len(rows)
            for row in rows:
                if (reason := kept[row.id]) is not None:
                    totals.note(KEPT + reason, row.key, Meaning.PASSED_OVER)
            for row, _expected in ready:
                size = findings.sizes.get(row.id)
                totals.note(WOULD_COLLECT, row.key, Meaning.WOULD_GO, size=size)
            for row, outcome in findings.outcomes:
                totals.note(f"would be: {outcome}", row.key, Meaning.WOULD_GO)
            for row, lock in findings.locked:
                totals.note("would be retained", row.key, Meaning.STAYS, why=str(lock))
            for row, why in findings.failures:
                totals.note("would be left for later", row.key, Meaning.LEFT, why=why)
            for twin in findings.twins:
                totals.show(AMBIGUOUS, twin)

    # The end -----------------------------------------------------------------------------------

    def _outcome(self, span: Span) -> Outcome:
        if self._books.stopped == MAX_RUNTIME:
            self._books.require_begun(
                self._request.max_runtime, "one upload, although some are due"
            )
        with self._books.reading() as cursor:
            totals = self._books.totals
            if self._context.live and self._books.stopped is None:
                # Every claim has passed these by, and nothing was written of them.
                for again in (False, True):
                    for row in candidates(cursor, span, MOST_COUNTED, None, again=again):
                        totals.note(HELD, row.key, Meaning.PASSED_OVER)
            for key, why in paused(cursor, span, MOST_COUNTED):
                totals.note(WAITS, key, Meaning.PASSED_OVER, why=why)
            of_window = oldest_left(cursor, span)
            oldest = oldest_left(cursor, Span.of(EVERYTHING, span.cutoff))
            standing: dict[str, Any] = left(cursor, most=MOST_COUNTED)
        return self._books.outcome(
            oldest_left=oldest,
            unswept=of_window is not None,
            went=self._settled() - totals.classes[SUPERSEDED],
            dropped=dropped(totals),
            error=self._nothing_worked(),
            cutoff=span.cutoff.isoformat(),
            **standing,
        )

    def _nothing_worked(self) -> str | None:
        """A run in which every item failed has failed."""
        totals = self._books.totals
        if not self._context.live:
            return None
        return nothing_worked(
            totals,
            worked=totals.acted + totals.means[Meaning.MOVED],
            failed=totals.left,
            what=f"Of {totals.claimed:,} uploads, each of which is tried again later, none could "
            "be cleaned up",
            advice="the bucket's permissions",
        )
