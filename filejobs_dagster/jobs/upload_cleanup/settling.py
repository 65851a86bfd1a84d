"""Writing the results of a batch: rows, totals, progress and audit in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from filejobs_dagster.book.totals import FAILED_AGAIN, KEPT, Meaning
from filejobs_dagster.jobs.late_landings import note_never_arrived
from filejobs_dagster.jobs.setbacks import as_item
from filejobs_dagster.jobs.upload_cleanup.claims import clean, leave, retain
from filejobs_dagster.jobs.upload_cleanup.detail import (
    ALREADY_GONE,
    AMBIGUOUS,
    CLAIM_LOST,
    CLEANED,
    DEAD,
    DELETED,
    LEFT,
    MARKED,
    MEANS,
    NEVER_ARRIVED,
    RETAINED,
    SUPERSEDED,
    UNSEEN,
)
from filejobs_dagster.jobs.upload_cleanup.settings import JOB
from filejobs_dagster.ledger.progress import GivenUp
from filejobs_dagster.ledger.sanitize import sanitize
from filejobs_dagster.postgres.transient import trying_again

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from uuid import UUID

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.book.bookkeeping import Bookkeeping
    from filejobs_dagster.book.totals import Totals
    from filejobs_dagster.jobs.setbacks import Setbacks
    from filejobs_dagster.jobs.upload_cleanup.looking import Findings
    from filejobs_dagster.jobs.upload_cleanup.rows import Upload
    from filejobs_dagster.jobs.upload_cleanup.settings import Request

LONGEST_REASON = 500


class Settling:
    """Settles what is known of claimed rows, each while its claim still holds."""

    def __init__(
        self, books: Bookkeeping, request: Request, bucket: str, setbacks: Setbacks
    ) -> None:
        self._books = books
        self._setbacks = setbacks
        self._bucket = bucket
        self._request = request

    def settle(
        self,
        findings: Findings,
        *,
        counts: bool,
        unanswered: Sequence[tuple[Upload, str]] = (),
        stopped: str | None = None,
    ) -> None:
        """Write the results.

        Args:
            findings: What is known.
            counts: Whether failures count towards the limit of attempts.
            unanswered: Rows of which nothing is known, with the reason; theirs never counts.
            stopped: Why the batch ended early, or None.

        Raises:
            GivenUp: The run's record stands already. The events were written all the same.
        """
        try:
            trying_again(self._settle, findings, unanswered, counts=counts, stopped=stopped)
        except GivenUp:
            self.tell(findings, stopped=stopped)
            raise

    def tell(self, findings: Findings, *, stopped: str | None) -> None:
        """Write only what became of objects, for a run that may write nothing else any more."""
        if findings.known():
            self._books.commit_events([self._result(findings, stopped)])

    def _settle(
        self,
        findings: Findings,
        unanswered: Sequence[tuple[Upload, str]],
        *,
        counts: bool,
        stopped: str | None,
    ) -> None:
        with self._books.writing() as (cursor, totals, events):
            claims = _Written(cursor, self._request, self._setbacks, findings, counts=counts)
            claims.leave_unanswered(unanswered)
            self._count(totals, findings, claims, unanswered)
            events.extend(self._events(findings, claims))
            events.append(self._result(findings, stopped, unanswered))
            never = [row.key for row, outcome in findings.outcomes if outcome == NEVER_ARRIVED]
            note_never_arrived(cursor, self._bucket, JOB, never)

    def _count(
        self,
        totals: Totals,
        findings: Findings,
        written: _Written,
        unanswered: Sequence[tuple[Upload, str]],
    ) -> None:
        def note(row: Upload, fate: str, why: str | None = None) -> None:
            totals.intended -= 1
            if row.id in written.held:
                size, means = findings.sizes.get(row.id), _meaning(fate)
                totals.note(fate, row.key, means, size=size, why=why)
            else:
                why = f"was to be written as {fate}"
                totals.note(CLAIM_LOST, row.key, MEANS[CLAIM_LOST], why=why)

        for row, outcome in findings.outcomes:
            note(row, outcome)
        for row, lock in findings.locked:
            note(row, RETAINED, str(lock))
        for row, reason in findings.kept:
            note(row, DEAD if row.id in written.dead else KEPT + reason, reason)
        for row, reason in (*findings.failures, *unanswered):
            left = UNSEEN if reason.startswith(UNSEEN) else LEFT
            note(row, DEAD if row.id in written.dead else left, reason)
            totals.more[FAILED_AGAIN] += left is LEFT and row.failed_before
        for twin in findings.twins:
            totals.show(AMBIGUOUS, twin)
        totals.freed += findings.freed
        if findings.outcomes or findings.locked:
            totals.refused_in_a_row = 0
        totals.refused_in_a_row += len(findings.failures)

    def _events(self, findings: Findings, written: _Written) -> Iterator[dict[str, Any]]:
        event = self._books.event
        for row, outcome in findings.outcomes:
            if row.id in written.held:
                yield event(
                    "upload.cleaned",
                    upload=str(row.id),
                    storage_key=row.key,
                    outcome=outcome,
                    attempt=row.attempt,
                    version_id=row.version,
                    provider_id=row.provider_id,
                )
        for row, lock in findings.locked:
            if row.id in written.held:
                yield event(
                    "upload.retained", upload=str(row.id), storage_key=row.key, lock=str(lock)
                )
        for row, reason in (*findings.failures, *findings.kept):
            if row.id in written.dead:
                yield event(
                    "upload.dead_letter",
                    upload=str(row.id),
                    storage_key=row.key,
                    attempt=row.attempt,
                    reason=_said(reason),
                )

    def _result(
        self,
        findings: Findings,
        stopped: str | None,
        unanswered: Sequence[tuple[Upload, str]] = (),
    ) -> dict[str, Any]:
        """What became of the intent: counts, and by name whatever was not simply deleted."""
        keys: dict[str, list[str]] = {outcome: [] for outcome in CLEANED}
        for row, outcome in findings.outcomes:
            keys[outcome].append(row.key)
        early: dict[str, Any] = {}
        if stopped is not None:
            early = {"left": [row.key for row, _ in unanswered], "stopped": _said(stopped)}
        return self._books.event_of_batch(
            "objects.delete.result",
            deleted=len(keys[DELETED]),
            marked=len(keys[MARKED]),
            already_gone=keys[ALREADY_GONE],
            never_arrived=keys[NEVER_ARRIVED],
            superseded=keys[SUPERSEDED],
            locked={row.key: str(lock) for row, lock in findings.locked},
            kept={row.key: reason for row, reason in findings.kept},
            failed={row.key: _said(reason) for row, reason in findings.failures},
            **early,
        )


class _Written:
    """What the fenced writes of one transaction won.

    Attributes:
        held: Rows whose claim still held.
        dead: Those that are dead letters now.
    """

    def __init__(
        self,
        cursor: psycopg.Cursor[TupleRow],
        request: Request,
        setbacks: Setbacks,
        findings: Findings,
        *,
        counts: bool,
    ) -> None:
        self._cursor = cursor
        self._setbacks = setbacks
        self._request = request
        self.held: set[UUID] = clean(cursor, findings.outcomes)
        self.dead: set[UUID] = set()
        self.held |= retain(cursor, findings.locked, request)
        setbacks.write(cursor, {}, [as_item(row) for row in self.held])
        kept = [(row, KEPT + reason) for row, reason in findings.kept]
        self._leave([*findings.failures, *kept], counts=counts)

    def leave_unanswered(self, rows: Sequence[tuple[Upload, str]]) -> None:
        """Leave rows of which storage said nothing; that is no fault of theirs."""
        self._leave(rows, counts=False)

    def _leave(self, rows: Sequence[tuple[Upload, str]], *, counts: bool) -> None:
        reasons = [(row, _said(reason)) for row, reason in rows]
        left = leave(self._cursor, reasons, self._request.max_attempts, counts=counts)
        self.held |= set(left)
        self.dead |= {row for row, dead in left.items() if dead}
        waits = {as_item(row.id): why for row, why in reasons if left.get(row.id) is False}
        dead = [as_item(row) for row in self.dead]
        self._setbacks.write(self._cursor, waits, dead, counts=counts)


def _meaning(fate: str) -> Meaning:
    return Meaning.PASSED_OVER if fate.startswith(KEPT) else MEANS.get(fate, Meaning.LEFT)


def _said(reason: str) -> str:
    """A reason as it may be stored."""
    return sanitize(reason, limit=LONGEST_REASON)
