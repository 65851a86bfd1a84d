"""The bytes of one claimed batch: through the gate, and written down.

`Settling` writes the results: rows, totals, progress and audit in one transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from filejobs_dagster.book import outcomes
from filejobs_dagster.book.outcomes import DeletionStopped, Fate
from filejobs_dagster.book.totals import FAILED_AGAIN, KEPT, MOST_REFUSED_IN_A_ROW, Meaning
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
from filejobs_dagster.jobs.upload_cleanup.looking import Findings, look
from filejobs_dagster.jobs.upload_cleanup.settings import JOB
from filejobs_dagster.ledger.progress import GivenUp
from filejobs_dagster.objects.multipart import AbortFate
from filejobs_dagster.postgres.connect import trying_again
from filejobs_dagster.postgres.locks import LeaseLost
from filejobs_dagster.run_context import JobFailed
from filejobs_dagster.text import sanitize

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from uuid import UUID

    import psycopg
    from psycopg.rows import TupleRow

    from filejobs_dagster.book.bookkeeping import Bookkeeping
    from filejobs_dagster.book.outcomes import Outcomes, StopKind
    from filejobs_dagster.book.totals import Totals
    from filejobs_dagster.jobs.setbacks import Setbacks
    from filejobs_dagster.jobs.upload_cleanup import Storage
    from filejobs_dagster.jobs.upload_cleanup.claims import Upload
    from filejobs_dagster.jobs.upload_cleanup.settings import UploadCleanupRun
    from filejobs_dagster.objects.deletion_mode import DeletionMode
    from filejobs_dagster.objects.targets import Expected
    from filejobs_dagster.run_context import RunContext

# Writing the results of a batch: rows, totals, progress and audit in one transaction.

LONGEST_REASON = 500


class Settling:
    """Settles what is known of claimed rows, each while its claim still holds."""

    def __init__(
        self, books: Bookkeeping, request: UploadCleanupRun, bucket: str, setbacks: Setbacks
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
        request: UploadCleanupRun,
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


WHY_STOPPED: Mapping[StopKind, str] = outcomes.WHY_STOPPED | {
    "verification": "storage reported as gone what is still there"
}


_DONE = {
    Fate.DELETED: DELETED,
    Fate.PURGED: DELETED,
    Fate.MARKED: MARKED,
    Fate.ALREADY_GONE: ALREADY_GONE,
}


class Batch:
    """Removes what the rows of one committed claim name."""

    def __init__(
        self,
        context: RunContext,
        request: UploadCleanupRun,
        storage: Storage,
        books: Bookkeeping,
        setbacks: Setbacks,
        deletion_mode: DeletionMode,
    ) -> None:
        self._context = context
        self._size = request.batch_size
        self._storage = storage
        self._books = books
        self._deletion_mode = deletion_mode
        self._settling = Settling(books, request, storage.bucket, setbacks)
        self._findings = Findings()

    def run(self, rows: Sequence[Upload]) -> None:
        """Abort, look, delete, and write down what became of each row.

        Raises:
            JobFailed: Storage or a source of references refused; what is left waits for later.
            GivenUp: Somebody wrote this run's record meanwhile; nothing more was deleted.
            LeaseLost: This run's locks are gone; nothing more was deleted.
        """
        self._findings = Findings()
        ready: list[tuple[Upload, Expected]] = []
        try:
            self._context.prove_alive()
            ours = [row for row in rows if self._may_go(row)]
            # The parts first: once they are aborted, nothing can complete them into an object.
            ended = [row for row in ours if row.provider_id is None or self._abort(row)]
            ready = look(self._storage.client, self._storage.bucket, ended, self._findings)
            if ready:
                removed = self._storage.gate.remove(
                    [expected for _, expected in ready],
                    self._context.prove_alive,
                    self._deletion_mode,
                    claims=[row.claim for row, _ in ready],
                )
                self._read([row for row, _ in ready], removed)
        except DeletionStopped as stopped:
            if ready:
                # It was the deletion, and not an abort before it or a look.
                self._read([row for row, _ in ready], stopped.so_far)
            self._stop(rows, stopped)
        self._end(rows)

    def _may_go(self, row: Upload) -> bool:
        reason = self._storage.gate.owned(row.key)
        if reason is not None:
            self._findings.kept.append((row, reason))
        return reason is None

    def _abort(self, row: Upload) -> bool:
        """Abort the row's multipart upload; false when the row must wait."""
        aborted = self._storage.gate.abort(
            row.key, str(row.provider_id), self._context.prove_alive, claims=[row.claim]
        )
        self._findings.freed += aborted.bytes_freed
        if aborted.fate is AbortFate.KEPT:
            self._findings.kept.append((row, aborted.reason))
        elif not aborted.gone:
            why = aborted.reason or aborted.fate.value
            self._findings.failures.append((row, f"aborting its multipart upload: {why}"))
        return aborted.gone

    def _read(self, rows: Sequence[Upload], removed: Outcomes[bytes]) -> None:
        """Note what became of each row's object, as far as it is known."""
        by_key = {row.key.encode(): row for row in rows}
        found = self._findings
        for it in removed:
            row = by_key[it.key]
            if it.fate in _DONE:
                found.outcomes.append((row, _DONE[it.fate]))
            elif it.fate is Fate.LOCKED and it.lock is not None:
                found.locked.append((row, it.lock))
            elif it.fate is Fate.KEPT:
                found.kept.append((row, it.reason))
            elif it.fate is Fate.CHANGED:
                what = f"the object changed while it was looked at: {it.reason}"
                found.failures.append((row, what))
            elif it.fate is Fate.UNSEEN:
                found.failures.append((row, f"{UNSEEN}: {it.reason}"))
            elif it.fate in (Fate.UNDECIDED, Fate.FAILED):
                found.failures.append((row, it.reason))
        found.freed += removed.freed

    def _end(self, rows: Sequence[Upload]) -> None:
        refused = self._refused_as_a_whole(len(rows))
        if refused is not None:
            self._books.stopped = WHY_STOPPED["storage"]
        # What all of them meet says nothing of each: a right that is missing makes no dead letters.
        self._settling.settle(self._findings, counts=refused is None)
        if refused is not None:
            raise JobFailed(refused)

    def _refused_as_a_whole(self, asked: int) -> str | None:
        """A 200 in which every key is refused is a rejection too; a few poison items are not."""
        failures = self._findings.failures
        let_go = bool(self._findings.outcomes or self._findings.locked)
        in_a_row = 0 if let_go else self._books.totals.refused_in_a_row + len(failures)
        whole_batch = 1 < len(failures) == asked == self._size
        if not failures or not (whole_batch or in_a_row >= MOST_REFUSED_IN_A_ROW):
            return None
        return (
            f"Storage refused {in_a_row} objects in a row, all of them up to the end of "
            f"batch {self._books.batch} ({failures[0][1]}). Their rows wait for a later run, and "
            "no further row was claimed. Check the bucket's permissions."
        )

    def _stop(self, rows: Sequence[Upload], stopped: DeletionStopped) -> NoReturn:
        """The batch ended early: what was not answered waits for later, and the run fails."""
        reason, cause = stopped.reason, stopped.__cause__
        if isinstance(cause, GivenUp | LeaseLost):
            # Whoever holds the locks now may be at work: the rows are theirs. What did go is told.
            self._settling.tell(self._findings, stopped=reason)
            raise cause
        known = self._findings.known()
        unknown = [(row, reason) for row in rows if row.id not in known]
        self._books.stopped = WHY_STOPPED[stopped.kind]
        self._settling.settle(self._findings, counts=True, unanswered=unknown, stopped=reason)
        raise JobFailed(
            f"{reason} {len(unknown)} of the {len(rows)} uploads in batch {self._books.batch} "
            "were not answered: they wait for a later run, which asks again. No further row was "
            "claimed."
        ) from stopped
