"""Which uploads are due, and a batch of them: intent, aborts through the gate, result.

Due is what is owned, named by no source, and idle by its newest part (`Judge`).
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from filejobs_dagster.book.bookkeeping import MAX_RUNTIME
from filejobs_dagster.book.outcomes import (
    WHY_STOPPED as WHY,
)
from filejobs_dagster.book.outcomes import (
    DeletionStopped,
    StopKind,
    StorageRejected,
)
from filejobs_dagster.book.totals import FAILED_AGAIN, Meaning
from filejobs_dagster.jobs.multipart_uploads.detail import (
    ACTIVE,
    DEFERRED,
    ENDED,
    PARTS_CAME,
    UNANSWERED,
    UNDATED,
    UNREADABLE,
    WENT,
    YOUNG,
    as_item,
    comes_back,
    note_aborted,
    note_kept,
)
from filejobs_dagster.jobs.setbacks import GHOST
from filejobs_dagster.objects.heads import THREADS
from filejobs_dagster.objects.multipart import (
    AbortFate,
    MultipartUpload,
    Parts,
    PartsUnknown,
    list_parts,
)
from filejobs_dagster.objects.multipart.listing import leave_out_echoes
from filejobs_dagster.run_context import JobFailed
from filejobs_dagster.text import display_key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from filejobs_dagster.book.bookkeeping import Bookkeeping
    from filejobs_dagster.book.totals import Totals
    from filejobs_dagster.jobs.setbacks import Setback, Setbacks
    from filejobs_dagster.jobs.storage_orphans import Storage
    from filejobs_dagster.objects.multipart import Aborted
    from filejobs_dagster.run_context import RunContext

INTENT = "multipart.abort.intent"
RESULT = "multipart.abort.result"

WHY_STOPPED: Mapping[StopKind, str] = WHY | {"storage": "storage rejected a request"}

MOST_REFUSED_IN_A_ROW = 1000
"""More than this many refusals one after the other are no poison items: the run stops."""


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
        self._intend(batch)
        fates: list[tuple[MultipartUpload, Aborted]] = []
        known = self._setbacks.known([as_item(due.upload) for due in batch])
        for number, due in enumerate(batch):
            if time.monotonic() >= self._ends_at:
                self._books.stopped = MAX_RUNTIME
                self.defer(batch[number:])
                break
            try:
                aborted = self._abort(due)
            except DeletionStopped as stopped:
                self._stop(fates, due, batch[number + 1 :], stopped)
            before = known.get(as_item(due.upload))
            note_aborted(
                self._books.totals,
                due.upload.key,
                aborted,
                due.active,
                ghost=before is not None
                and (before.ghost if _had_ended(aborted) else comes_back(before)),
            )
            fates.append((due.upload, aborted))
            if self._books.totals.refused_in_a_row >= MOST_REFUSED_IN_A_ROW:
                self._refuse(fates, batch[number + 1 :], aborted)
        self._books.commit_result(self._result(fates))
        self._settle(fates, known)

    def _settle(
        self,
        fates: Sequence[tuple[MultipartUpload, Aborted]],
        known: Mapping[bytes, Setback],
    ) -> None:
        """Remember what failed for the next runs, and what went, lest it be listed again."""
        failed = {
            as_item(upload): aborted.reason or aborted.fate.value
            for upload, aborted in fates
            if aborted.fate is AbortFate.FAILED
        }
        # Parts that were on their way when it was aborted are the next run's, at once; a server
        # that keeps what it says is aborted is tried later and later.
        failed |= {
            as_item(upload): PARTS_CAME
            for upload, aborted in fates
            if aborted.fate is AbortFate.PARTS_LEFT
        }
        ended = {
            as_item(upload): f"{GHOST}: its parts are listed, and an abort finds no upload"
            for upload, aborted in fates
            if _had_ended(aborted)
        }
        went = {
            as_item(upload): WENT for upload, aborted in fates if aborted.fate is AbortFate.ABORTED
        }
        other = [item for item in went if item in known and known[item].reason != WENT]
        self._setbacks.settle(failed | ended | went, other)

    def defer(
        self, rest: Sequence[Due], fate: str = DEFERRED, means: Meaning = Meaning.DEFERRED
    ) -> None:
        """Count what is due and left for a later run."""
        for due in rest:
            self._books.totals.note(
                fate, due.upload.key, means, size=due.parts.size, since=due.active
            )

    def _intend(self, batch: Sequence[Due]) -> None:
        """Write which uploads are about to be aborted, before the first of them is."""
        self._books.batch += 1
        self._books.totals.intended = len(batch)
        uploads = [
            {**named(it.upload), "parts": it.parts.count, "bytes": str(it.parts.size)}
            for it in batch
        ]
        self._books.commit(self._books.event_of_batch(INTENT, uploads=uploads))

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
        self._books.stopped = WHY_STOPPED["storage"]
        reason = (
            f"Storage refused to abort {self._books.totals.refused_in_a_row} multipart uploads in "
            f"a row ({last.reason}). They are as they were; nothing more was tried. Aborting "
            "needs s3:AbortMultipartUpload and s3:ListMultipartUploadParts on the objects of the "
            "owned prefixes."
        )
        self._books.commit_result(self._result(fates, stopped=reason))
        self._settle(fates, {})
        raise JobFailed(reason)

    def _stop(
        self,
        fates: Sequence[tuple[MultipartUpload, Aborted]],
        due: Due,
        rest: Sequence[Due],
        stopped: DeletionStopped,
    ) -> NoReturn:
        """The batch ended early: what was not answered counts as left, and the run fails."""
        result = self._result(fates, stopped=stopped.reason)
        self._books.hand_over(stopped, result if fates else None)
        self._books.totals.note(
            UNANSWERED,
            due.upload.key,
            Meaning.LEFT,
            size=due.parts.size,
            why=stopped.reason,
            since=due.active,
        )
        self.defer(rest)
        self._books.stopped = WHY_STOPPED[stopped.kind]
        unwritten = self._books.try_result(result)
        raise JobFailed(
            f"{stopped.reason} {len(rest) + 1} of the multipart uploads in batch "
            f"{self._books.batch} are left, and nothing more was aborted; the next run looks at "
            f"them again.{unwritten}"
        ) from stopped

    def _result(
        self, fates: Sequence[tuple[MultipartUpload, Aborted]], **facts: str
    ) -> dict[str, Any]:
        """Counts, and by name whatever did not simply go."""
        return self._books.event_of_batch(
            RESULT,
            aborted=sum(it.fate is AbortFate.ABORTED for _, it in fates),
            parts=sum(it.parts for _, it in fates),
            # As text: events hold no number that a double does not hold for certain.
            bytes_freed=str(sum(it.bytes_freed for _, it in fates)),
            others=[
                {**named(upload), "fate": it.fate.value, "reason": it.reason.replace("\x00", "")}
                for upload, it in fates
                if it.fate is not AbortFate.ABORTED
            ],
            **facts,
        )


def _had_ended(aborted: Aborted) -> bool:
    """True when it was gone without us: where it is listed once more, it is a ghost."""
    return aborted.gone and aborted.fate is not AbortFate.ABORTED


def named(upload: MultipartUpload) -> dict[str, str]:
    r"""An upload as events name it; a key that JSON text cannot carry is escaped, and says so.

    jsonb refuses `\x00`. Keys that are no UTF-8 never come so far: the gate keeps them.
    """
    key = {"key": upload.key}
    if "\x00" in upload.key:
        key = {"key_escaped": display_key(upload.key, limit=8000)}
    return {**key, "upload_id": upload.upload_id}


# Which uploads are due: owned, named by no source, and idle by their newest part.


@dataclass(frozen=True)
class Due:
    """An upload that may be aborted.

    Attributes:
        upload: Which.
        parts: As they were listed.
        active: The last sign of whoever sent it; None when only its id is known.
        must_be_idle: True when a part that came meanwhile keeps it: a client may be at work.
    """

    upload: MultipartUpload
    parts: Parts
    active: datetime | None
    must_be_idle: bool


class Judge:
    """Decides about a batch of uploads, and counts those that stay."""

    def __init__(
        self, storage: Storage, totals: Totals, cutoff: datetime, setbacks: Setbacks
    ) -> None:
        """Judge for one run.

        Args:
            storage: Where the uploads are.
            totals: Where those are counted that stay.
            cutoff: Whoever was active since then is not idle.
            setbacks: Where it is remembered whose parts could not be read.
        """
        self._storage = storage
        self._totals = totals
        self._cutoff = cutoff
        self._setbacks = setbacks
        # Before the threads that ask for parts share the client.
        leave_out_echoes(storage.client)

    def listed(self, uploads: Sequence[MultipartUpload]) -> list[Due]:
        """Those of the uploads of a listing that are due.

        Raises:
            ReferencesUnknown: A source could not be asked.
            StorageRejected: No request can succeed.
        """
        self._totals.scanned += len(uploads)
        old = [upload for upload in uploads if not self._is_young(upload)]
        due: list[Due] = []
        for upload, parts in self._with_parts(self._admitted(old)):
            active = upload.initiated if parts.count == 0 else parts.newest
            if active is None:
                # Without a date nobody can say that it is old.
                self._totals.note(UNDATED, upload.key, Meaning.PASSED_OVER, size=parts.size)
            elif active >= self._cutoff:
                self._totals.note(ACTIVE, upload.key, Meaning.STAYS, size=parts.size)
            else:
                due.append(Due(upload, parts, active, must_be_idle=True))
        return due

    def known(self, uploads: Sequence[MultipartUpload]) -> list[Due]:
        """Those of the uploads of cleaned rows that are there once more.

        Their rows say that nobody wants them, and their keys are never used again: they are due
        however young their parts are. Those that are not there are what is to be expected, and are
        not counted as looked at.

        Raises:
            ReferencesUnknown: A source could not be asked.
            StorageRejected: No request can succeed.
        """
        self._totals.decided = True
        self._totals.more["asked_by_id"] += len(uploads)
        ours = [upload for upload in uploads if self._storage.gate.owned(upload.key) is None]
        unreadable = self._totals.passed_over
        found = dict(self._with_parts(ours, ended_counts=False))
        self._totals.scanned += len(found) + self._totals.passed_over - unreadable
        return [
            Due(upload, found[upload], found[upload].newest, must_be_idle=False)
            for upload in self._admitted(list(found))
        ]

    def _is_young(self, upload: MultipartUpload) -> bool:
        """A part cannot be older than its upload, so some need not be asked for their parts."""
        young = upload.initiated is not None and upload.initiated >= self._cutoff
        if young:
            self._totals.note(YOUNG, upload.key, Meaning.STAYS)
        return young

    def _admitted(self, uploads: Sequence[MultipartUpload]) -> list[MultipartUpload]:
        admission = self._storage.gate.admit([upload.key for upload in uploads])
        admitted: list[MultipartUpload] = []
        for upload in uploads:
            reason = admission.kept.get(upload.key)
            if reason is None:
                admitted.append(upload)
            else:
                note_kept(self._totals, upload.key, reason)
        return admitted

    def _with_parts(
        self, uploads: Sequence[MultipartUpload], *, ended_counts: bool = True
    ) -> list[tuple[MultipartUpload, Parts]]:
        found: list[tuple[MultipartUpload, Parts]] = []
        failed: dict[bytes, str] = {}
        answers = dict(zip(uploads, self._ask(uploads), strict=True))
        known = self._setbacks.known(
            [as_item(upload) for upload, parts in answers.items() if not isinstance(parts, Parts)]
        )
        for upload, parts in answers.items():
            before = known.get(as_item(upload))
            if isinstance(parts, Parts):
                found.append((upload, parts))
            elif isinstance(parts, PartsUnknown):
                failed[as_item(upload)] = str(parts.error)
                self._totals.more[FAILED_AGAIN] += before is not None
                self._totals.note(
                    UNREADABLE,
                    upload.key,
                    Meaning.PASSED_OVER,
                    why=str(parts.error),
                    since=upload.initiated,
                )
            elif ended_counts:
                failed[as_item(upload)] = f"{GHOST}: it is listed, and has no list of parts"
                again = before is not None and before.ghost
                self._totals.note(GHOST if again else ENDED, upload.key, Meaning.STAYS)
        self._setbacks.settle(failed, ())
        return found

    def _ask(self, uploads: Sequence[MultipartUpload]) -> list[Parts | PartsUnknown | None]:
        """Ask for the parts of each, some at a time."""
        if not uploads:
            return []
        with ThreadPoolExecutor(min(THREADS, len(uploads))) as pool:
            try:
                return list(pool.map(self._ask_one, uploads))
            except StorageRejected:
                pool.shutdown(wait=True, cancel_futures=True)
                raise

    def _ask_one(self, upload: MultipartUpload) -> Parts | PartsUnknown | None:
        bucket = self._storage.bucket.bucket
        try:
            return list_parts(self._storage.client, bucket, upload.key, upload.upload_id)
        except PartsUnknown as unknown:
            return unknown
