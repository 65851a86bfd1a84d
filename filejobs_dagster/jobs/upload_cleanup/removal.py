"""The bytes of one claimed batch: through the gate, and written down."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from filejobs_dagster.book import outcomes
from filejobs_dagster.book.outcomes import DeletionStopped, Fate
from filejobs_dagster.book.totals import MOST_REFUSED_IN_A_ROW
from filejobs_dagster.jobs.context import JobFailed
from filejobs_dagster.jobs.upload_cleanup.detail import ALREADY_GONE, DELETED, MARKED, UNSEEN
from filejobs_dagster.jobs.upload_cleanup.looking import Findings, look
from filejobs_dagster.jobs.upload_cleanup.settling import Settling
from filejobs_dagster.ledger.progress import GivenUp
from filejobs_dagster.objects.multipart import AbortFate
from filejobs_dagster.postgres.locks import LeaseLost

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from filejobs_dagster.book.bookkeeping import Bookkeeping
    from filejobs_dagster.book.outcomes import Outcomes, StopKind
    from filejobs_dagster.jobs.context import RunContext
    from filejobs_dagster.jobs.setbacks import Setbacks
    from filejobs_dagster.jobs.upload_cleanup import Request, Storage
    from filejobs_dagster.jobs.upload_cleanup.rows import Upload
    from filejobs_dagster.objects.manner import Manner
    from filejobs_dagster.objects.targets import Expected

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
        request: Request,
        storage: Storage,
        books: Bookkeeping,
        setbacks: Setbacks,
        manner: Manner,
    ) -> None:
        self._context = context
        self._size = request.batch_size
        self._storage = storage
        self._books = books
        self._manner = manner
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
                    self._manner,
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
