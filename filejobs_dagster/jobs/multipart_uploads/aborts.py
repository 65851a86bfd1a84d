"""A batch of uploads that are due: the intent, the aborts through the gate, the result."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NoReturn

import psycopg

from filejobs_dagster.jobs.context import JobFailed
from filejobs_dagster.jobs.multipart_uploads.totals import DEFERRED, UNANSWERED
from filejobs_dagster.ledger.progress import GivenUp
from filejobs_dagster.objects.deletion import (
    AdmissionFailed,
    DeletionStopped,
    ProofRefused,
    StorageRejected,
)
from filejobs_dagster.objects.multipart import AbortFate
from filejobs_dagster.postgres.locks import LeaseLost

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from filejobs_dagster.jobs.context import RunContext
    from filejobs_dagster.jobs.multipart_uploads.bookkeeping import Bookkeeping
    from filejobs_dagster.jobs.multipart_uploads.judging import Due
    from filejobs_dagster.jobs.setbacks import Setbacks
    from filejobs_dagster.jobs.storage_orphans import Storage
    from filejobs_dagster.objects.multipart import Aborted, MultipartUpload

LIMIT = "limit"
MAX_RUNTIME = "max_runtime"

WHY_STOPPED: Mapping[type[DeletionStopped], str] = {
    StorageRejected: "storage rejected a request",
    AdmissionFailed: "a source of references could not be read",
    ProofRefused: "it could not be proven that the run may still delete",
}

MOST_REFUSED_IN_A_ROW = 1000
"""More than this many refusals one after the other are no poison items: the run stops."""


def as_item(upload: MultipartUpload) -> bytes:
    """An upload as setbacks name it."""
    return f"{upload.key}\x00{upload.upload_id}".encode("utf-8", "surrogateescape")


class Aborts:
    """Aborts what is due, and writes it down."""

    def __init__(
        self,
        context: RunContext,
        storage: Storage,
        books: Bookkeeping,
        *,
        cutoff: datetime,
        ends_at: float,
        setbacks: Setbacks,
    ) -> None:
        """Work for one run.

        Args:
            context: The run.
            storage: Whose gate aborts.
            books: Where it is written down.
            cutoff: A part that came since then keeps its upload.
            ends_at: By `time.monotonic`; no further upload is aborted after it.
            setbacks: Where failures are remembered.
        """
        self._context = context
        self._storage = storage
        self._books = books
        self._cutoff = cutoff
        self._ends_at = ends_at
        self._setbacks = setbacks

    def run(self, batch: Sequence[Due]) -> None:
        """Abort each of the uploads.

        Raises:
            JobFailed: Storage or a source of references refused; what is left is written down.
            GivenUp: Somebody wrote this run's record meanwhile; nothing more was aborted.
            LeaseLost: This run's locks are gone; nothing more was aborted.
        """
        self._context.prove_alive()
        self._books.commit_intent(batch)
        fates: list[tuple[MultipartUpload, Aborted]] = []
        for number, due in enumerate(batch):
            if time.monotonic() >= self._ends_at:
                self._books.stopped = MAX_RUNTIME
                self.defer(batch[number:])
                break
            try:
                aborted = self._abort(due)
            except DeletionStopped as stopped:
                self._stop(fates, due, batch[number + 1 :], stopped)
            self._books.totals.tried += 1
            self._books.totals.note_aborted(due.upload.key, aborted, due.active)
            fates.append((due.upload, aborted))
            if self._books.totals.refused_in_a_row >= MOST_REFUSED_IN_A_ROW:
                self._refuse(fates, batch[number + 1 :], aborted)
        self._books.commit_result(fates)
        self._settle(fates)

    def _settle(self, fates: Sequence[tuple[MultipartUpload, Aborted]]) -> None:
        """Remember what failed for the next runs; what is there no more is forgotten."""
        self._setbacks.settle(
            {
                as_item(upload): aborted.reason or aborted.fate.value
                for upload, aborted in fates
                # Parts that were on their way when it was aborted are the next run's, at once.
                if aborted.fate is AbortFate.FAILED
            },
            [as_item(upload) for upload, aborted in fates if aborted.gone],
        )

    def defer(self, rest: Sequence[Due], fate: str = DEFERRED) -> None:
        """Count what is due and left for a later run."""
        for due in rest:
            self._books.totals.note_left(fate, due.upload.key, due.active, size=due.parts.size)

    def _abort(self, due: Due) -> Aborted:
        return self._storage.gate.abort(
            due.upload.key,
            due.upload.upload_id,
            self._context.prove_alive,
            idle_since=self._cutoff if due.must_be_idle else None,
        )

    def _refuse(
        self,
        fates: Sequence[tuple[MultipartUpload, Aborted]],
        rest: Sequence[Due],
        last: Aborted,
    ) -> NoReturn:
        """So many refusals are no poison items any more."""
        self.defer(rest)
        self._books.stopped = WHY_STOPPED[StorageRejected]
        reason = (
            f"Storage refused to abort {self._books.totals.refused_in_a_row} multipart uploads in "
            f"a row ({last.reason}). They are as they were; nothing more was tried. Aborting "
            "needs s3:AbortMultipartUpload and s3:ListMultipartUploadParts on the objects of the "
            "owned prefixes."
        )
        self._books.commit_result(fates, stopped=reason)
        self._settle(fates)
        raise JobFailed(reason)

    def _stop(
        self,
        fates: Sequence[tuple[MultipartUpload, Aborted]],
        due: Due,
        rest: Sequence[Due],
        stopped: DeletionStopped,
    ) -> NoReturn:
        """The batch ended early: what was not answered counts as left, and the run fails."""
        if isinstance(stopped.__cause__, GivenUp | LeaseLost):
            # Whoever holds the locks now may be at work. The progress row counts the whole batch
            # as left, and the audit log keeps the intent; what did go is added to it.
            if fates:
                self._books.commit_event_of_result(fates, stopped=stopped.reason)
            raise stopped.__cause__
        self._books.totals.note_left(
            UNANSWERED, due.upload.key, due.active, size=due.parts.size, why=stopped.reason
        )
        self.defer(rest)
        self._books.stopped = WHY_STOPPED[type(stopped)]
        unwritten = ""
        try:
            self._books.commit_result(fates, stopped=stopped.reason)
        except (psycopg.Error, GivenUp) as error:
            unwritten = f" This could not be written to the audit log: {type(error).__name__}."
        raise JobFailed(
            f"{stopped.reason} {len(rest) + 1} of the multipart uploads in batch "
            f"{self._books.batch} are left, and nothing more was aborted; the next run looks at "
            f"them again.{unwritten}"
        ) from stopped
